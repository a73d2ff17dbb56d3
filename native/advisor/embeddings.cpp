#include "embeddings.h"

#include "compiled_policy.h"
#include "failure.h"
#include "llvm_option.h"
#include "options.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/Module.h"
#if LLVM_VERSION_MAJOR >= 22
#include "llvm/Analysis/IR2Vec.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/Support/raw_ostream.h"
#endif

using namespace llvm;

namespace mlgo {

static constexpr StringRef CalleeEmbedding = "callee_embedding", CallerEmbedding = "caller_embedding";

static bool wantsEmbeddings(const CompiledPolicy &Policy) {
  return any_of(Policy.inputs(), [](const TensorSpec &Input) {
    return Input.name() == CalleeEmbedding || Input.name() == CallerEmbedding;
  });
}

#if LLVM_VERSION_MAJOR >= 22

namespace {

/// Keeps what is said instead of telling it: an error of ours must not stop a compile.
struct Quiet final : DiagnosticHandler {
  explicit Quiet(std::string &Said) : Said(Said) {}
  bool handleDiagnostics(const DiagnosticInfo &Info) override {
    raw_string_ostream Stream(Said);
    DiagnosticPrinterRawOStream Printer(Stream);
    Info.print(Printer);
    return true;
  }
  std::string &Said;
};

} // namespace

/// Fails with what LLVM says about the vocabulary.
static Error loadVocabulary(Module &M, ModuleAnalysisManager &MAM) {
  constexpr StringRef PathOption = "ir2vec-vocab-path";
  const std::string &Ours = advisorOptions().Vocabulary;
  cl::Option *Path = findOption(PathOption);
  if (Path && !Path->getNumOccurrences() && !Ours.empty())
    Path->addOccurrence(0, PathOption, Ours);
  std::string Said;
  LLVMContext &Context = M.getContext();
  std::unique_ptr<DiagnosticHandler> Before = Context.getDiagnosticHandler();
  Context.setDiagnosticHandler(std::make_unique<Quiet>(Said));
  const bool Valid = MAM.getResult<IR2VecVocabAnalysis>(M).isValid();
  Context.setDiagnosticHandler(std::move(Before));
  return Valid ? Error::success() : failure("there is no vocabulary for embeddings: " + Said);
}

Expected<std::vector<TensorSpec>> embeddingFeatures(const CompiledPolicy *Policy, Module &M,
                                                    ModuleAnalysisManager &MAM) {
  if (!(Policy && wantsEmbeddings(*Policy)) && !MAM.getCachedResult<IR2VecVocabAnalysis>(M))
    return std::vector<TensorSpec>();
  if (Error Wrong = loadVocabulary(M, MAM))
    return Expected<std::vector<TensorSpec>>(std::move(Wrong));
  const int64_t Dimension = MAM.getResult<IR2VecVocabAnalysis>(M).getDimension();
  return std::vector<TensorSpec>{TensorSpec::createSpec<float>(CalleeEmbedding.str(), {Dimension}),
                                 TensorSpec::createSpec<float>(CallerEmbedding.str(), {Dimension})};
}

#else

Expected<std::vector<TensorSpec>> embeddingFeatures(const CompiledPolicy *Policy, Module &,
                                                    ModuleAnalysisManager &) {
  if (Policy && wantsEmbeddings(*Policy))
    return failure("policy " + Policy->name() + " wants embeddings, which came with LLVM 22");
  return std::vector<TensorSpec>();
}

#endif

} // namespace mlgo
