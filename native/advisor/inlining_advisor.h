// LLVM's MLInlineAdvisor with a compiled policy, overrides and a recorder.
#pragma once

#include "llvm/Analysis/InlineAdvisor.h"

namespace mlgo {

/// True when the options ask for anything about inlining.
bool inliningIsWanted();

/// The factory that PluginInlineAdvisorAnalysis calls.
///
/// It makes LLVM's default advisor for inliners that LLVM's own ML mode leaves alone (the early one of
/// profile instrumentation), and whenever something is wrong with the policy, the overrides or the analysis
/// managers.
llvm::InlineAdvisor *createInliningAdvisor(llvm::Module &M, llvm::FunctionAnalysisManager &FAM,
                                           llvm::InlineParams Params, llvm::InlineContext Context);

/// Keeps the manager that this thread's next advisor will use: the factory is not given it.
void rememberModuleAnalysisManager(llvm::ModuleAnalysisManager &MAM);

} // namespace mlgo
