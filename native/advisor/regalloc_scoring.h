// The end of each function's register allocation, and LLVM's own score of it.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

namespace llvm {
class MachineFunction;
} // namespace llvm

namespace mlgo {

/// Called after each function's allocation; `Score` computes what LLVM's development mode takes for the
/// reward (lower is better: copies, loads and stores, weighed by block frequency).
using AllocationListener = void (*)(const llvm::MachineFunction &Function, llvm::function_ref<float()> Score);

/// Calls `Listener` from LLVM's pass that scores allocations, which does nothing in a stock build. False when
/// it cannot.
bool listenToAllocations(AllocationListener Listener);

} // namespace mlgo
