#include "walk.h"

#include "read_error.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/xxhash.h"

#include <cstring>

namespace mlgo {

template <typename WalkType, typename Visitor> void Walk::eachArray(WalkType &Self, Visitor &&Visit) {
  Visit(Self.Header), Visit(Self.Target.Bytes), Visit(Self.Target.Ends);
  Visit(Self.FunctionNames.Bytes), Visit(Self.FunctionNames.Ends), Visit(Self.Declaration);
  Visit(Self.ContentHash), Visit(Self.FirstBlock), Visit(Self.FirstVisit), Visit(Self.Visit);
  Visit(Self.BlockNames.Bytes), Visit(Self.BlockNames.Ends), Visit(Self.FirstInstruction);
  Visit(Self.Pattern), Visit(Self.Skipped), Visit(Self.FirstOperand), Visit(Self.Definition);
  Visit(Self.Opcode), Visit(Self.Type), Visit(Self.Predicate);
  Visit(Self.FirstPatternOperand), Visit(Self.PatternOperand);
  Visit(Self.SetKinds), Visit(Self.SetFunction), Visit(Self.SetParent), Visit(Self.SetDepth);
  Visit(Self.SetEntry), Visit(Self.SetExit), Visit(Self.FirstMember), Visit(Self.Member);
}

std::string Walk::serialize() const {
  size_t Size = 0;
  eachArray(*this, [&](const auto &Array) { Size += sizeof(uint64_t) + Array.size() * sizeof(Array[0]); });
  std::string Data;
  Data.reserve(Size);
  eachArray(*this, [&](const auto &Array) {
    uint64_t Bytes = Array.size() * sizeof(Array[0]);
    Data.append(reinterpret_cast<const char *>(&Bytes), sizeof(Bytes));
    Data.append(reinterpret_cast<const char *>(Array.data()), Bytes);
  });
  return Data;
}

Walk Walk::deserialize(std::string_view Data) {
  Walk Result;
  eachArray(Result, [&](auto &Array) {
    uint64_t Bytes = 0;
    if (Data.size() < sizeof(Bytes))
      throw ReadError("the reader's answer is cut short");
    std::memcpy(&Bytes, Data.data(), sizeof(Bytes));
    Data.remove_prefix(sizeof(Bytes));
    if (Bytes > Data.size() || Bytes % sizeof(Array[0]))
      throw ReadError("the reader's answer is damaged");
    Array.resize(Bytes / sizeof(Array[0]));
    if (Bytes)
      std::memcpy(Array.data(), Data.data(), Bytes);
    Data.remove_prefix(Bytes);
  });
  Result.check();
  return Result;
}

static void require(bool Condition) {
  if (!Condition)
    throw ReadError("the reader's answer is inconsistent");
}

/// `Firsts` starts at 0, never falls, has `Owners` + 1 entries and ends at `Owned`.
static void requireRanges(const std::vector<uint32_t> &Firsts, size_t Owners, size_t Owned) {
  require(Firsts.size() == Owners + 1 && Firsts.front() == 0 && Firsts.back() == Owned);
  for (size_t I = 0; I < Owners; ++I)
    require(Firsts[I] <= Firsts[I + 1]);
}

template <typename T> static void requireBelow(const std::vector<T> &Values, size_t Limit) {
  for (T Value : Values)
    require(Value < Limit);
}

template <typename T> static void requireBelowOr(const std::vector<T> &Values, size_t Limit, T None) {
  for (T Value : Values)
    require(Value < Limit || Value == None);
}

static void requireStrings(const StringTable &Table) {
  uint32_t Previous = 0;
  for (uint32_t End : Table.Ends) {
    require(Previous <= End);
    Previous = End;
  }
  require(Previous == Table.Bytes.size());
}

/// Every index of `Members`, owned by function I through `Firsts`, lies in that function's blocks.
static void requireWithin(const Walk &W, size_t Function, const std::vector<uint32_t> &Members,
                          uint32_t Begin, uint32_t End) {
  for (uint32_t I = Begin; I < End; ++I)
    require(Members[I] >= W.FirstBlock[Function] && Members[I] < W.FirstBlock[Function + 1]);
}

void Walk::check() const {
  require(Header.size() == 3 && Header[0] <= 1 && Target.size() == (Header[0] ? 2 : 0));
  for (const StringTable *Table : {&Target, &FunctionNames, &BlockNames})
    requireStrings(*Table);
  require(FunctionNames.size() == functions() && ContentHash.size() == functions());
  requireRanges(FirstBlock, functions(), blocks());
  requireRanges(FirstVisit, functions(), Visit.size());
  requireRanges(FirstInstruction, blocks(), instructions());
  require(Skipped.size() == instructions() && Type.size() == patterns() && Predicate.size() == patterns());
  requireRanges(FirstPatternOperand, patterns(), PatternOperand.size());
  requireBelow(Pattern, patterns());
  for (const auto *Entities : {&Opcode, &Type, &Predicate, &PatternOperand})
    requireBelowOr(*Entities, entityCount(), NoEntity);
  for (size_t F = 0; F < functions(); ++F)
    requireWithin(*this, F, Visit, FirstVisit[F], FirstVisit[F + 1]);
  if (hasDefinitions()) {
    requireRanges(FirstOperand, instructions(), Definition.size());
    for (size_t I = 0; I < instructions(); ++I)
      require(FirstOperand[I + 1] - FirstOperand[I] ==
              FirstPatternOperand[Pattern[I] + 1] - FirstPatternOperand[Pattern[I]]);
    for (size_t F = 0; F < functions(); ++F) {
      uint32_t Begin = FirstInstruction[FirstBlock[F]], End = FirstInstruction[FirstBlock[F + 1]];
      for (uint32_t O = FirstOperand[Begin]; O < FirstOperand[End]; ++O)
        require(Definition[O] == NoIndex || (Definition[O] >= Begin && Definition[O] < End));
    }
  }
  require(SetFunction.size() == sets() && SetParent.size() == sets() && SetDepth.size() == sets() &&
          SetEntry.size() == sets() && SetExit.size() == sets());
  requireRanges(FirstMember, sets(), Member.size());
  requireBelowOr(SetParent, sets(), NoIndex);
  requireBelow(SetEntry, blocks());
  requireBelowOr(SetExit, blocks(), NoIndex);
  for (size_t S = 0; S < sets(); ++S) {
    require(SetFunction[S] < functions());
    requireWithin(*this, SetFunction[S], Member, FirstMember[S], FirstMember[S + 1]);
  }
}

struct WalkBuilder::PatternIndex {
  llvm::StringMap<uint32_t> Ids; // key: the pattern's entity ids as bytes
};

WalkBuilder::WalkBuilder(Form Kind, uint32_t EntityCount, uint32_t AbsentEntity, bool WithDefinitions)
    : WithDefinitions(WithDefinitions), Patterns(std::make_unique<PatternIndex>()) {
  Result.Header = {static_cast<uint32_t>(Kind), EntityCount, AbsentEntity};
  Result.FirstPatternOperand.push_back(0);
  Result.FirstMember.push_back(0);
  if (WithDefinitions)
    Result.FirstOperand.push_back(0);
}

WalkBuilder::~WalkBuilder() = default;

void WalkBuilder::beginFunction(std::string_view Name, bool IsDeclaration) {
  Result.FunctionNames.push(Name);
  Result.Declaration.push_back(IsDeclaration);
  Result.FirstBlock.push_back(static_cast<uint32_t>(Result.blocks()));
  Result.FirstVisit.push_back(static_cast<uint32_t>(Result.Visit.size()));
}

void WalkBuilder::beginBlock(std::string_view Name) {
  Result.BlockNames.push(Name);
  Result.FirstInstruction.push_back(static_cast<uint32_t>(Result.instructions()));
}

void WalkBuilder::addInstruction(uint16_t Opcode, uint16_t Type, uint16_t Predicate,
                                 const std::vector<uint16_t> &Operands,
                                 const std::vector<uint32_t> &Definitions, bool IsSkipped) {
  Key.assign({Opcode, Type, Predicate});
  Key.insert(Key.end(), Operands.begin(), Operands.end());
  llvm::StringRef Bytes(reinterpret_cast<const char *>(Key.data()), Key.size() * sizeof(Key[0]));
  auto [Position, IsNew] = Patterns->Ids.try_emplace(Bytes, static_cast<uint32_t>(Result.patterns()));
  if (IsNew) {
    Result.Opcode.push_back(Opcode);
    Result.Type.push_back(Type);
    Result.Predicate.push_back(Predicate);
    Result.PatternOperand.insert(Result.PatternOperand.end(), Operands.begin(), Operands.end());
    Result.FirstPatternOperand.push_back(static_cast<uint32_t>(Result.PatternOperand.size()));
  }
  Result.Pattern.push_back(Position->second);
  Result.Skipped.push_back(IsSkipped);
  if (WithDefinitions) {
    Result.Definition.insert(Result.Definition.end(), Definitions.begin(), Definitions.end());
    Result.FirstOperand.push_back(static_cast<uint32_t>(Result.Definition.size()));
  }
}

void WalkBuilder::addVisit(uint32_t Block) { Result.Visit.push_back(Block); }

void WalkBuilder::endFunction() { Result.ContentHash.push_back(hashFunction(Result.functions() - 1)); }

/// Covers what an embedding depends on: patterns by content, order, blocks, control flow and, where recorded,
/// definitions.
uint64_t WalkBuilder::hashFunction(size_t Function) const {
  std::vector<uint32_t> Content;
  uint32_t FirstBlock = Result.FirstBlock[Function], Blocks = static_cast<uint32_t>(Result.blocks());
  uint32_t Start = FirstBlock < Blocks ? Result.FirstInstruction[FirstBlock] : 0;
  for (uint32_t B = FirstBlock; B < Blocks; ++B) {
    uint32_t End =
        B + 1 < Blocks ? Result.FirstInstruction[B + 1] : static_cast<uint32_t>(Result.instructions());
    Content.push_back(End - Result.FirstInstruction[B]);
    for (uint32_t I = Result.FirstInstruction[B]; I < End; ++I) {
      uint32_t P = Result.Pattern[I];
      Content.push_back(Result.Opcode[P] | uint32_t(Result.Type[P]) << 16);
      Content.push_back(Result.Predicate[P] | uint32_t(Result.Skipped[I]) << 16);
      for (uint32_t O = Result.FirstPatternOperand[P]; O < Result.FirstPatternOperand[P + 1]; ++O)
        Content.push_back(Result.PatternOperand[O]);
      if (WithDefinitions)
        for (uint32_t O = Result.FirstOperand[I]; O < Result.FirstOperand[I + 1]; ++O)
          Content.push_back(Result.Definition[O] == NoIndex ? NoIndex : Result.Definition[O] - Start);
    }
  }
  for (size_t V = Result.FirstVisit[Function]; V < Result.Visit.size(); ++V)
    Content.push_back(Result.Visit[V] - FirstBlock);
  return llvm::xxh3_64bits(llvm::ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(Content.data()),
                                                   Content.size() * sizeof(Content[0])));
}

Walk WalkBuilder::finish() {
  Result.FirstBlock.push_back(static_cast<uint32_t>(Result.blocks()));
  Result.FirstVisit.push_back(static_cast<uint32_t>(Result.Visit.size()));
  Result.FirstInstruction.push_back(static_cast<uint32_t>(Result.instructions()));
  return std::move(Result);
}

} // namespace mlgo
