#include "block_sets.h"

#include "llvm/Analysis/DominanceFrontier.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/PostDominators.h"
#include "llvm/Analysis/RegionInfo.h"
#include "llvm/IR/Dominators.h"

#include <algorithm>

using namespace llvm;

namespace mlgo {

namespace {

uint32_t numberOf(const BlockNumbers &Numbers, const BasicBlock *Block) {
  auto Found = Numbers.find(Block);
  return Found == Numbers.end() ? NoIndex : Found->second;
}

/// Append one set; its index.
template <typename Blocks>
uint32_t append(Walk &To, SetKind Kind, uint32_t Parent, uint32_t Depth, const BasicBlock *Entry,
                const BasicBlock *Exit, const Blocks &Members, const BlockNumbers &Numbers) {
  auto Index = static_cast<uint32_t>(To.sets());
  To.SetKinds.push_back(static_cast<uint8_t>(Kind));
  To.SetFunction.push_back(static_cast<uint32_t>(To.functions() - 1));
  To.SetParent.push_back(Parent);
  To.SetDepth.push_back(Depth);
  To.SetEntry.push_back(numberOf(Numbers, Entry));
  To.SetExit.push_back(Exit ? numberOf(Numbers, Exit) : NoIndex);
  size_t Begin = To.Member.size();
  for (const BasicBlock *Block : Members)
    To.Member.push_back(numberOf(Numbers, Block));
  std::sort(To.Member.begin() + static_cast<std::ptrdiff_t>(Begin), To.Member.end());
  To.FirstMember.push_back(static_cast<uint32_t>(To.Member.size()));
  return Index;
}

} // namespace

void addLoops(Function &F, const BlockNumbers &Numbers, Walk &To) {
  DominatorTree Dominators(F);
  LoopInfo Loops(Dominators);
  DenseMap<const Loop *, uint32_t> Index;
  for (const Loop *Each : Loops.getLoopsInPreorder()) {
    const Loop *Parent = Each->getParentLoop();
    Index[Each] = append(To, SetKind::Loop, Parent ? Index.lookup(Parent) : NoIndex, Each->getLoopDepth(),
                         Each->getHeader(), nullptr, Each->blocks(), Numbers);
  }
}

void addRegions(Function &F, const BlockNumbers &Numbers, Walk &To) {
  DominatorTree Dominators(F);
  PostDominatorTree PostDominators(F);
  DominanceFrontier Frontier;
  Frontier.analyze(Dominators);
  RegionInfo Regions;
  Regions.recalculate(F, &Dominators, &PostDominators, &Frontier);
  // A stack, not recursion: regions nest as deep as the code does.
  SmallVector<std::pair<const Region *, uint32_t>> Open = {{Regions.getTopLevelRegion(), NoIndex}};
  while (!Open.empty()) {
    auto [Each, Parent] = Open.pop_back_val();
    SmallVector<const BasicBlock *> Members(Each->block_begin(), Each->block_end());
    uint32_t Index = append(To, SetKind::Region, Parent, Each->getDepth(), Each->getEntry(), Each->getExit(),
                            Members, Numbers);
    SmallVector<const Region *> Inner;
    for (const auto &Child : *Each)
      Inner.push_back(Child.get());
    for (const Region *Child : llvm::reverse(Inner))
      Open.push_back({Child, Index});
  }
}

} // namespace mlgo
