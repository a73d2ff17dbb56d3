// Loops and regions of a function, as LLVM's analyses find them.
#pragma once

#include "walk.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/CodeGen/MachineFunction.h"
#include "llvm/IR/Function.h"

namespace mlgo {

/// A block's index in its Walk.
template <typename Block> using BlockNumbers = llvm::DenseMap<const Block *, uint32_t>;

/// Which sets of blocks a Walk records.
struct SetOptions {
  bool Loops = false;
  bool Regions = false;
};

/// Append the sets of `F` that `Wanted` names, outer ones before the ones they hold.
///
/// Loops are the natural ones (llvm::LoopInfo, llvm::MachineLoopInfo); a loop's blocks include those of its
/// inner loops. Regions are single-entry single-exit (llvm::RegionInfo, llvm::MachineRegionInfo), the whole
/// function first.
void addSets(llvm::Function &F, SetOptions Wanted, const BlockNumbers<llvm::BasicBlock> &Numbers, Walk &To);
void addSets(llvm::MachineFunction &F, SetOptions Wanted,
             const BlockNumbers<llvm::MachineBasicBlock> &Numbers, Walk &To);

} // namespace mlgo
