// An LLVM 22 pass plugin, built outside of LLVM's tree, that goes the four steps of the MLGO document: get the vocabulary,
// create an embedder, ask it for vectors, work with them. Once for IR, once for machine IR.
//
//   opt-22 -load-pass-plugin ./embedding_pass.so -passes=similar-functions -ir2vec-vocab-path=V.json -disable-output m.bc
//   llc-22 -load ./embedding_pass.so -run-pass=machine-function-length -mir2vec-vocab-path=V.json m.mir -o /dev/null
#include "llvm/Analysis/IR2Vec.h"
#include "llvm/CodeGen/MIR2Vec.h"
#include "llvm/CodeGen/MachineFunctionPass.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Pass.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Plugins/PassPlugin.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;

static double product(const ir2vec::Embedding &A, const ir2vec::Embedding &B) {
  double Sum = 0;
  for (size_t I = 0; I < A.size(); ++I)
    Sum += A[I] * B[I];
  return Sum;
}

namespace {

/// Prints the cosine similarity of each function to the first one of the module.
struct SimilarFunctions : PassInfoMixin<SimilarFunctions> {
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &Analyses) {
    // 1. The vocabulary is an analysis of the module.
    const ir2vec::Vocabulary &Vocabulary = Analyses.getResult<IR2VecVocabAnalysis>(M);
    if (!Vocabulary.isValid())
      return PreservedAnalyses::all();
    ir2vec::Embedding First;
    for (const Function &F : M) {
      if (F.isDeclaration())
        continue;
      // 2. An embedder belongs to one function, and to the function as it is now.
      std::unique_ptr<ir2vec::Embedder> Emb = ir2vec::Embedder::create(IR2VecKind::Symbolic, F, Vocabulary);
      // 3. Its getters give vectors: getInstVector, getBBVector, getFunctionVector.
      ir2vec::Embedding Vector = Emb->getFunctionVector();
      // 4. A vector is a std::vector<double> to work with.
      if (First.empty())
        First = Vector;
      double Lengths = std::sqrt(product(First, First) * product(Vector, Vector));
      outs() << F.getName() << format(" %.17g\n", Lengths > 0 ? product(First, Vector) / Lengths : 0);
    }
    return PreservedAnalyses::all();
  }
};

/// Prints the length of each machine function's vector.
struct MachineFunctionLength : MachineFunctionPass {
  static char ID;
  MachineFunctionLength() : MachineFunctionPass(ID) {}

  void getAnalysisUsage(AnalysisUsage &Usage) const override {
    Usage.addRequired<MIR2VecVocabLegacyAnalysis>();
    Usage.setPreservesAll();
    MachineFunctionPass::getAnalysisUsage(Usage);
  }

  bool runOnMachineFunction(MachineFunction &MF) override {
    // 1. The vocabulary comes from an immutable pass; it may be missing.
    auto &Analysis = getAnalysis<MIR2VecVocabLegacyAnalysis>();
    Expected<mir2vec::MIRVocabulary> Vocabulary = Analysis.getMIR2VecVocabulary(*MF.getFunction().getParent());
    if (!Vocabulary) {
      errs() << toString(Vocabulary.takeError()) << "\n";
      return false;
    }
    // 2. and 3. An embedder of one machine function, and its vector.
    std::unique_ptr<mir2vec::MIREmbedder> Emb = mir2vec::MIREmbedder::create(MIR2VecKind::Symbolic, MF, *Vocabulary);
    mir2vec::Embedding Vector = Emb->getMFunctionVector();
    // 4. Work with it.
    outs() << MF.getName() << format(" %.17g\n", std::sqrt(product(Vector, Vector)));
    return false;
  }
};

char MachineFunctionLength::ID = 0;
RegisterPass<MachineFunctionLength> Registered("machine-function-length", "length of MIR2Vec vectors");

void registerPasses(PassBuilder &Builder) {
  Builder.registerAnalysisRegistrationCallback(
      [](ModuleAnalysisManager &Analyses) { Analyses.registerPass([] { return IR2VecVocabAnalysis(); }); });
  Builder.registerPipelineParsingCallback(
      [](StringRef Name, ModulePassManager &Passes, ArrayRef<PassBuilder::PipelineElement>) {
        if (Name != "similar-functions")
          return false;
        Passes.addPass(SimilarFunctions());
        return true;
      });
}

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "embedding-pass", "1", registerPasses, nullptr};
}
