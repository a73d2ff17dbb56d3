// The core without Python: what it makes of small modules, and that it refuses damaged ones.
//
// `ctest` runs every test of the table at the end; one that fails names its line and ends the program.
#include "../embed.h"
#include "../entities.h"
#include "../ir_walk.h"
#include "../read_error.h"
#include "../triplets.h"
#include "../walk.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace mlgo;

#define EXPECT(Condition)                                                                                    \
  do {                                                                                                       \
    if (!(Condition)) {                                                                                      \
      std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #Condition);                          \
      std::exit(1);                                                                                          \
    }                                                                                                        \
  } while (false)

static constexpr char Loop[] = R"(
declare i32 @outside(i32)
define i32 @sum(i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %next = add i32 %i, 1
  %again = icmp slt i32 %next, %n
  br i1 %again, label %loop, label %done
done:
  %r = call i32 @outside(i32 %i)
  ret i32 %r
unreached:
  ret i32 0
}
)";

static bool refuses(const std::string &Data) {
  try {
    walkIR(Data, "m", {});
  } catch (const ReadError &) {
    return true;
  }
  return false;
}

static void walkCountsWhatTheModuleHas() {
  Walk W = walkIR(Loop, "m", {});
  EXPECT(W.form() == Form::IR);
  EXPECT(W.functions() == 2);
  EXPECT(W.FunctionNames[0] == "outside" && W.Declaration[0] == 1);
  EXPECT(W.FunctionNames[1] == "sum" && W.Declaration[1] == 0);
  EXPECT(W.blocks() == 4 && W.instructions() == 8);
  EXPECT(W.BlockNames[1] == "loop");
  // Blocks that nothing reaches are listed, and not visited.
  EXPECT(W.FirstVisit[2] - W.FirstVisit[1] == 3);
  EXPECT(W.hasDefinitions());
}

static void equalInstructionsShareAPattern() {
  Walk W = walkIR("define void @f() {\n ret void\n}\ndefine void @g() {\n ret void\n}\n", "m", {});
  EXPECT(W.instructions() == 2 && W.patterns() == 1);
  for (uint32_t Pattern : W.Pattern)
    EXPECT(Pattern < W.patterns());
  EXPECT(W.entityCount() == irEntityNames().size());
}

static void serializedWalksComeBack() {
  Walk W = walkIR(Loop, "m", {});
  std::string Data = W.serialize();
  EXPECT(Walk::deserialize(Data).serialize() == Data);
}

static void damagedWalksAreRefusedOrWhole() {
  const std::string Data = walkIR(Loop, "m", {}).serialize();
  for (size_t Size = 0; Size < Data.size(); ++Size) {
    bool Refused = false;
    try {
      Walk::deserialize(std::string_view(Data).substr(0, Size));
    } catch (const ReadError &) {
      Refused = true;
    }
    EXPECT(Refused);
  }
  // What a flipped bit leaves may be a walk; then it must be safe to use.
  for (size_t At = 0; At < Data.size(); ++At) {
    std::string Flipped = Data;
    Flipped[At] = static_cast<char>(Flipped[At] ^ 0x81);
    try {
      Walk W = Walk::deserialize(Flipped);
      std::vector<double> Rows(size_t(W.entityCount()) > 100000 ? 0 : W.entityCount(), 1.0);
      std::vector<double> Out(W.blocks());
      if (!Rows.empty())
        embedBlocks(W, {Rows.data(), Rows.size(), 1}, Kind::Symbolic, {0, W.functions()}, Out.data());
    } catch (const ReadError &) {
    }
  }
}

static void modulesThatAreNoneAreRefused() {
  EXPECT(refuses("BC\xC0\xDE"));
  EXPECT(refuses("define i32 @f( {"));
  EXPECT(refuses("\x7f"
                 "ELF"));
}

static void aBlockIsTheSumOfItsInstructions() {
  Walk W = walkIR(Loop, "m", {});
  std::vector<double> Rows(W.entityCount() * 2);
  for (size_t I = 0; I < Rows.size(); ++I)
    Rows[I] = static_cast<double>(I % 17) / 16; // sums of sixteenths are exact
  const Table T = {Rows.data(), W.entityCount(), 2};
  std::vector<double> Instructions(W.instructions() * 2), Blocks(W.blocks() * 2);
  const FunctionRange All = {0, W.functions()};
  embedInstructions(W, T, Kind::Symbolic, All, Instructions.data());
  embedBlocks(W, T, Kind::Symbolic, All, Blocks.data());
  for (size_t Block = 0; Block < W.blocks(); ++Block)
    for (size_t D = 0; D < 2; ++D) {
      double Sum = 0;
      for (uint32_t I = W.FirstInstruction[Block]; I < W.FirstInstruction[Block + 1]; ++I)
        Sum += Instructions[I * 2 + D];
      EXPECT(Sum == Blocks[Block * 2 + D]);
    }
}

static void tripletsNameKnownEntities() {
  Walk W = walkIR(Loop, "m", {});
  Triplets Found = triplets(W, /*WithPredicates=*/false);
  EXPECT(!Found.Rows.empty() && Found.Rows.size() % 3 == 0);
  for (size_t I = 0; I < Found.Rows.size(); I += 3) {
    EXPECT(Found.Rows[I] >= 0 && static_cast<uint32_t>(Found.Rows[I]) < W.entityCount());
    EXPECT(Found.Rows[I + 1] >= 0 && static_cast<uint32_t>(Found.Rows[I + 1]) < W.entityCount());
    EXPECT(Found.Rows[I + 2] >= 0 && Found.Rows[I + 2] <= Found.MaxRelation);
  }
  EXPECT(tripletsText(W).rfind("MAX_RELATION=", 0) == 0);
}

static void entityRangesCoverAllEntities() {
  unsigned Next = 0;
  for (const EntityRange &Range : irEntityRanges()) {
    EXPECT(Range.First == Next && Range.Count > 0);
    Next += Range.Count;
  }
  EXPECT(Next == irEntityNames().size());
}

int main() {
  const std::pair<const char *, void (*)()> Tests[] = {
      {"a walk counts what the module has", walkCountsWhatTheModuleHas},
      {"equal instructions share a pattern", equalInstructionsShareAPattern},
      {"serialized walks come back", serializedWalksComeBack},
      {"damaged walks are refused or whole", damagedWalksAreRefusedOrWhole},
      {"modules that are none are refused", modulesThatAreNoneAreRefused},
      {"a block is the sum of its instructions", aBlockIsTheSumOfItsInstructions},
      {"triplets name known entities", tripletsNameKnownEntities},
      {"entity ranges cover all entities", entityRangesCoverAllEntities},
  };
  for (const auto &[Name, Test] : Tests) {
    std::printf("%s\n", Name);
    Test();
  }
  return 0;
}
