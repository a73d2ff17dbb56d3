// Register allocation by a compiled policy, in process.
//
// Stock LLVM asks for eviction and priority advice only over the interactive channel. The plugin turns that
// mode on with a channel of /dev/null and replaces `evaluateUntyped` in the exported vtable of
// llvm::InteractiveModelRunner: LLVM fills the features as ever, and the answer comes from here. Each slot is
// found and checked before it is written; where that fails, LLVM's default allocates.
#pragma once

namespace llvm {
class Module;
} // namespace llvm

namespace mlgo {

/// Takes over if the options ask for it; later calls do nothing. To be called when options have been parsed
/// and no code was generated yet.
void takeOverRegisterAllocation();

/// True when the options ask for anything about eviction or priority.
bool registerAllocationIsWanted();

/// Remembers, for this thread, how large the module's functions are: what is too many decisions depends on
/// it.
void rememberFunctionSizes(const llvm::Module &M);

} // namespace mlgo
