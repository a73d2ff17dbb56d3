#include "ir_walk.h"

#include "ir_module.h"
#include "read_error.h"

#include "llvm/ADT/DepthFirstIterator.h"
#include "llvm/Analysis/IR2Vec.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;
using llvm::ir2vec::Vocabulary;

namespace mlgo {

namespace {

std::string_view view(StringRef Text) { return {Text.data(), Text.size()}; }

class IRWalker {
public:
  explicit IRWalker(const IRWalkOptions &Options)
      : Options(Options),
        Builder(Form::IR, static_cast<uint32_t>(Vocabulary::getCanonicalSize()), 0, Options.WithDefinitions) {
  }

  void add(Function &F) {
    Builder.beginFunction(view(F.getName()), F.isDeclaration());
    BlockNumber.clear();
    InstructionNumber.clear();
    if (!F.isDeclaration())
      addBody(F);
    Builder.endFunction();
  }

  Walk finish() { return Builder.finish(); }

private:
  void addBody(Function &F) {
    number(F);
    for (BasicBlock &Block : F) {
      Builder.beginBlock(view(Block.getName()));
      for (Instruction &I : Block)
        add(I);
    }
    for (BasicBlock *Block : depth_first(&F.getEntryBlock()))
      Builder.addVisit(BlockNumber.lookup(Block));
    addSets(F, Options.Sets, BlockNumber, Builder.walk());
  }

  void number(Function &F) {
    uint32_t Block = static_cast<uint32_t>(Builder.walk().blocks());
    uint32_t Instruction = static_cast<uint32_t>(Builder.walk().instructions());
    for (BasicBlock &B : F) {
      BlockNumber[&B] = Block++;
      if (Options.WithDefinitions)
        for (llvm::Instruction &I : B)
          InstructionNumber[&I] = Instruction++;
    }
  }

  void add(const Instruction &I) {
    Operands.clear();
    Definitions.clear();
    for (const Use &Operand : I.operands()) {
      Operands.push_back(static_cast<uint16_t>(Vocabulary::getIndex(*Operand.get())));
      if (Options.WithDefinitions)
        Definitions.push_back(definition(Operand.get()));
    }
    const auto *Compare = dyn_cast<CmpInst>(&I);
    Builder.addInstruction(static_cast<uint16_t>(Vocabulary::getIndex(I.getOpcode())),
                           static_cast<uint16_t>(Vocabulary::getIndex(I.getType()->getTypeID())),
                           Compare ? static_cast<uint16_t>(Vocabulary::getIndex(Compare->getPredicate()))
                                   : NoEntity,
                           Operands, Definitions, I.isDebugOrPseudoInst());
  }

  uint32_t definition(const Value *Operand) const {
    const auto *I = dyn_cast<Instruction>(Operand);
    if (!I)
      return NoIndex;
    auto Found = InstructionNumber.find(I);
    return Found == InstructionNumber.end() ? NoIndex : Found->second;
  }

  IRWalkOptions Options;
  WalkBuilder Builder;
  BlockNumbers<BasicBlock> BlockNumber;
  DenseMap<const Instruction *, uint32_t> InstructionNumber;
  std::vector<uint16_t> Operands;
  std::vector<uint32_t> Definitions;
};

Walk walkFunctions(std::string_view Data, const std::string &Name, const IRWalkOptions &Options,
                   bool DropBodies) {
  LLVMContext Context;
  DiagnosticLog Log(Context);
  std::unique_ptr<Module> M = readModule(Data, Name, Context);
  IRWalker Walker(Options);
  for (Function &F : *M) {
    if (Error Problem = F.materialize())
      throw ReadError(Name + ": function " + F.getName().str() + ": " + toString(std::move(Problem)));
    Walker.add(F);
    if (DropBodies && !F.isDeclaration())
      F.deleteBody();
  }
  Log.throwIfFailed();
  return Walker.finish();
}

} // namespace

Walk walkIR(std::string_view Data, const std::string &Name, const IRWalkOptions &Options) {
  try {
    return walkFunctions(Data, Name, Options, /*DropBodies=*/true);
  } catch (const ReadError &) {
    // Perhaps a function names a block of one before it, which must stay for that; else this throws again.
    return walkFunctions(Data, Name, Options, /*DropBodies=*/false);
  }
}

} // namespace mlgo
