// Loops and regions of a function, as LLVM's analyses find them.
#pragma once

#include "walk.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/Function.h"

namespace mlgo {

/// A block's index in its Walk.
using BlockNumbers = llvm::DenseMap<const llvm::BasicBlock *, uint32_t>;

/// Append the natural loops of `F` (llvm::LoopInfo), outer before inner; a loop's blocks include those of its
/// inner loops.
void addLoops(llvm::Function &F, const BlockNumbers &Numbers, Walk &To);

/// Append the single-entry single-exit regions of `F` (llvm::RegionInfo), the whole function first.
void addRegions(llvm::Function &F, const BlockNumbers &Numbers, Walk &To);

} // namespace mlgo
