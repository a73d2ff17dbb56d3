// IR2Vec embeddings as features of LLVM's inliner.
#pragma once

#include "llvm/Analysis/TensorSpec.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace mlgo {

class CompiledPolicy;

/// What LLVM's advisor of `M` sends beside its initial features: callee_embedding and caller_embedding, if
/// the policy wants them or -ml-inliner-ir2vec-vocab-file asks for them, else nothing.
///
/// LLVM computes them where the module's vocabulary is at hand before its advisor is made, so this loads it
/// (-ir2vec-vocab-path, or ours). Fails when there is no vocabulary, or this LLVM has no IR2Vec (before 22).
llvm::Expected<std::vector<llvm::TensorSpec>> embeddingFeatures(const CompiledPolicy *Policy, llvm::Module &M,
                                                                llvm::ModuleAnalysisManager &MAM);

} // namespace mlgo
