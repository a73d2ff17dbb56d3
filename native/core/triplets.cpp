#include "triplets.h"

#include <algorithm>
#include <charconv>

namespace mlgo {

namespace {

constexpr int32_t TypeRelation = 0;
int32_t nextRelation(Form Kind) { return Kind == Form::IR ? 1 : 0; }

/// Calls `Add(head, tail, relation)` for each triplet.
template <typename Adder> void eachTriplet(const Walk &W, bool WithPredicates, Adder &&Add) {
  const int32_t Next = nextRelation(W.form());
  auto Entity = [&](uint16_t Id) { return static_cast<int32_t>(Id == NoEntity ? W.absentEntity() : Id); };
  for (size_t F = 0; F < W.functions(); ++F) {
    int32_t Previous = -1;
    for (uint32_t I = W.FirstInstruction[W.FirstBlock[F]]; I < W.FirstInstruction[W.FirstBlock[F + 1]]; ++I) {
      if (W.Skipped[I])
        continue;
      uint32_t P = W.Pattern[I];
      int32_t Head = Entity(W.Opcode[P]);
      if (Previous >= 0)
        Add(Previous, Head, Next);
      if (W.form() == Form::IR)
        Add(Head, Entity(W.Type[P]), TypeRelation);
      int32_t Relation = Next + 1;
      for (uint32_t O = W.FirstPatternOperand[P]; O < W.FirstPatternOperand[P + 1]; ++O)
        Add(Head, Entity(W.PatternOperand[O]), Relation++);
      if (WithPredicates && W.Predicate[P] != NoEntity)
        Add(Head, Entity(W.Predicate[P]), PredicateRelation);
      Previous = Head;
    }
  }
}

} // namespace

Triplets triplets(const Walk &W, bool WithPredicates) {
  Triplets Result{{}, nextRelation(W.form())};
  eachTriplet(W, WithPredicates, [&](int32_t Head, int32_t Tail, int32_t Relation) {
    Result.Rows.insert(Result.Rows.end(), {Head, Tail, Relation});
    Result.MaxRelation = std::max(Result.MaxRelation, Relation);
  });
  return Result;
}

std::string tripletsText(const Walk &W) {
  std::string Lines;
  int32_t MaxRelation = nextRelation(W.form());
  char Number[16];
  auto Put = [&](int32_t Value, char After) {
    auto [End, Error] = std::to_chars(Number, Number + sizeof(Number), Value);
    static_cast<void>(Error);
    Lines.append(Number, End);
    Lines.push_back(After);
  };
  eachTriplet(W, false, [&](int32_t Head, int32_t Tail, int32_t Relation) {
    Put(Head, '\t'), Put(Tail, '\t'), Put(Relation, '\n');
    MaxRelation = std::max(MaxRelation, Relation);
  });
  return "MAX_RELATION=" + std::to_string(MaxRelation) + "\n" + Lines;
}

} // namespace mlgo
