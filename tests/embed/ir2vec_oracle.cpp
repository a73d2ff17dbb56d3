// Prints LLVM's own IR2Vec vectors as raw doubles; llvm-ir2vec prints two decimals.
//   ir2vec_oracle --ir2vec-vocab-path=V.json MODULE…
// For each module, kind (symbolic, flow-aware) and level (function, block, instruction): a 64-bit count of doubles, then they.
#include "llvm/Analysis/IR2Vec.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace llvm::ir2vec;

static cl::list<std::string> Modules(cl::Positional);

enum class Level { Function, Block, Instruction };

static void append(std::vector<double> &To, const Embedding &From) { To.insert(To.end(), From.begin(), From.end()); }

static std::vector<double> vectors(Module &M, const Vocabulary &V, IR2VecKind Kind, Level L) {
  std::vector<double> Result;
  for (Function &F : M) {
    if (F.isDeclaration())
      continue;
    std::unique_ptr<Embedder> E = Embedder::create(Kind, F, V);
    if (L == Level::Function)
      append(Result, E->getFunctionVector());
    else if (L == Level::Block)
      for (BasicBlock &B : F)
        append(Result, E->getBBVector(B));
    else
      for (Instruction &I : instructions(F))
        append(Result, E->getInstVector(I));
  }
  return Result;
}

int main(int Count, char **Arguments) {
  cl::ParseCommandLineOptions(Count, Arguments);
  for (const std::string &Path : Modules) {
    LLVMContext Context;
    SMDiagnostic Problem;
    std::unique_ptr<Module> M = parseIRFile(Path, Problem, Context);
    if (!M) {
      Problem.print(Arguments[0], errs());
      return 1;
    }
    ModuleAnalysisManager Analyses;
    Analyses.registerPass([] { return PassInstrumentationAnalysis(); });
    Analyses.registerPass([] { return IR2VecVocabAnalysis(); });
    const Vocabulary &V = Analyses.getResult<IR2VecVocabAnalysis>(*M);
    if (!V.isValid())
      return 2;
    for (IR2VecKind Kind : {IR2VecKind::Symbolic, IR2VecKind::FlowAware})
      for (Level L : {Level::Function, Level::Block, Level::Instruction}) {
        std::vector<double> Rows = vectors(*M, V, Kind, L);
        uint64_t Size = Rows.size();
        outs().write(reinterpret_cast<const char *>(&Size), sizeof(Size));
        outs().write(reinterpret_cast<const char *>(Rows.data()), Size * sizeof(double));
      }
  }
}
