#include "block_sets.h"

#include "llvm/Analysis/DominanceFrontier.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/PostDominators.h"
#include "llvm/Analysis/RegionInfo.h"
#include "llvm/CodeGen/MachineDominanceFrontier.h"
#include "llvm/CodeGen/MachineDominators.h"
#include "llvm/CodeGen/MachineLoopInfo.h"
#include "llvm/CodeGen/MachinePostDominators.h"
#include "llvm/CodeGen/MachineRegionInfo.h"
#include "llvm/IR/Dominators.h"

#include <algorithm>

using namespace llvm;

namespace mlgo {

namespace {

template <typename Block> uint32_t numberOf(const BlockNumbers<Block> &Numbers, const Block *Each) {
  auto Found = Numbers.find(Each);
  return Found == Numbers.end() ? NoIndex : Found->second;
}

/// Append one set; its index.
template <typename Block, typename Blocks>
uint32_t append(Walk &To, SetKind Kind, uint32_t Parent, uint32_t Depth, const Block *Entry,
                const Block *Exit, const Blocks &Members, const BlockNumbers<Block> &Numbers) {
  auto Index = static_cast<uint32_t>(To.sets());
  To.SetKinds.push_back(static_cast<uint8_t>(Kind));
  To.SetFunction.push_back(static_cast<uint32_t>(To.functions() - 1));
  To.SetParent.push_back(Parent);
  To.SetDepth.push_back(Depth);
  To.SetEntry.push_back(numberOf(Numbers, Entry));
  To.SetExit.push_back(Exit ? numberOf(Numbers, Exit) : NoIndex);
  size_t Begin = To.Member.size();
  for (const Block *Each : Members)
    To.Member.push_back(numberOf(Numbers, Each));
  std::sort(To.Member.begin() + static_cast<std::ptrdiff_t>(Begin), To.Member.end());
  To.FirstMember.push_back(static_cast<uint32_t>(To.Member.size()));
  return Index;
}

template <typename Block, typename Loop>
void appendLoops(const LoopInfoBase<Block, Loop> &Loops, const BlockNumbers<Block> &Numbers, Walk &To) {
  DenseMap<const Loop *, uint32_t> Index;
  for (const Loop *Each : Loops.getLoopsInPreorder()) {
    const Loop *Parent = Each->getParentLoop();
    const Block *None = nullptr;
    Index[Each] = append(To, SetKind::Loop, Parent ? Index.lookup(Parent) : NoIndex, Each->getLoopDepth(),
                         static_cast<const Block *>(Each->getHeader()), None, Each->blocks(), Numbers);
  }
}

template <typename Block, typename Region>
void appendRegions(const Region *Top, const BlockNumbers<Block> &Numbers, Walk &To) {
  // A stack, not recursion: regions nest as deep as the code does.
  SmallVector<std::pair<const Region *, uint32_t>> Open = {{Top, NoIndex}};
  while (!Open.empty()) {
    auto [Each, Parent] = Open.pop_back_val();
    SmallVector<const Block *> Members(Each->block_begin(), Each->block_end());
    const Block *Entry = Each->getEntry(), *Exit = Each->getExit();
    uint32_t Index = append(To, SetKind::Region, Parent, Each->getDepth(), Entry, Exit, Members, Numbers);
    SmallVector<const Region *> Inner;
    for (const auto &Child : *Each)
      Inner.push_back(Child.get());
    for (const Region *Child : llvm::reverse(Inner))
      Open.push_back({Child, Index});
  }
}

} // namespace

void addSets(Function &F, SetOptions Wanted, const BlockNumbers<BasicBlock> &Numbers, Walk &To) {
  if (!Wanted.Loops && !Wanted.Regions)
    return;
  DominatorTree Dominators(F);
  if (Wanted.Loops)
    appendLoops(LoopInfo(Dominators), Numbers, To);
  if (!Wanted.Regions)
    return;
  PostDominatorTree PostDominators(F);
  DominanceFrontier Frontier;
  Frontier.analyze(Dominators);
  RegionInfo Regions;
  Regions.recalculate(F, &Dominators, &PostDominators, &Frontier);
  appendRegions(Regions.getTopLevelRegion(), Numbers, To);
}

void addSets(MachineFunction &F, SetOptions Wanted, const BlockNumbers<MachineBasicBlock> &Numbers,
             Walk &To) {
  if (!Wanted.Loops && !Wanted.Regions)
    return;
  MachineDominatorTree Dominators(F);
  if (Wanted.Loops)
    appendLoops(MachineLoopInfo(Dominators), Numbers, To);
  if (!Wanted.Regions)
    return;
  MachinePostDominatorTree PostDominators(F);
  MachineDominanceFrontier Frontier;
  Frontier.getBase().analyze(Dominators);
  MachineRegionInfo Regions;
  Regions.recalculate(F, &Dominators, &PostDominators, &Frontier);
  appendRegions(Regions.getTopLevelRegion(), Numbers, To);
}

} // namespace mlgo
