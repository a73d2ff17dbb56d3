#include "regalloc_scoring.h"

#include "vtable_slot.h"

#include "llvm/CodeGen/MachineBlockFrequencyInfo.h"
#include "llvm/CodeGen/MachineFunction.h"
#include "llvm/CodeGen/MachineFunctionPass.h"
#include "llvm/CodeGen/Passes.h"

#include <memory>

namespace llvm {
// Exported by libLLVM, declared in a header that is not installed.
// Source: llvm/lib/CodeGen/RegAllocScore.h (LLVM 19 and 22).
class RegAllocScore final {
  double CopyCounts = 0.0, LoadCounts = 0.0, StoreCounts = 0.0;
  double CheapRematCounts = 0.0, LoadStoreCounts = 0.0, ExpensiveRematCounts = 0.0;

public:
  double getScore() const;
};
RegAllocScore calculateRegAllocScore(const MachineFunction &MF, const MachineBlockFrequencyInfo &MBFI);
} // namespace llvm

using namespace llvm;

namespace mlgo {

static AllocationListener TheListener = nullptr;

/// Stands where RegAllocScoring::runOnMachineFunction stood.
static bool allocated(MachineFunctionPass *Pass, MachineFunction &Function) {
  TheListener(Function, [&] {
    // The pass declares that it needs the frequencies.
    const auto &Frequencies = Pass->getAnalysis<MachineBlockFrequencyInfoWrapperPass>().getMBFI();
    return static_cast<float>(calculateRegAllocScore(Function, Frequencies).getScore());
  });
  return false;
}

namespace {
char ProbeID;
struct ScoringProbe : MachineFunctionPass {
  ScoringProbe() : MachineFunctionPass(ProbeID) {}
  bool runOnMachineFunction(MachineFunction &) override { return true; }
};
struct OtherScoringProbe : MachineFunctionPass {
  OtherScoringProbe() : MachineFunctionPass(ProbeID) {}
  bool runOnMachineFunction(MachineFunction &) override { return false; }
};
} // namespace

bool listenToAllocations(AllocationListener Listener) {
  // Functions in the vtable of MachineFunctionPass, of Pass and FunctionPass in it: 21 in LLVM 22, 22 in
  // LLVM 19.
  static constexpr size_t Size = 21;
  const std::unique_ptr<FunctionPass> Scoring(createRegAllocScoringPass());
  if (!Scoring || Scoring->getPassName() != "Register Allocation Pass Scoring")
    return false;
  std::optional<size_t> Slot = onlyDifference(vtableOf(ScoringProbe()), vtableOf(OtherScoringProbe()), Size);
  if (!Slot)
    return false;
  TheListener = Listener;
  return replaceSlot(vtableOf(*Scoring), *Slot, reinterpret_cast<void *>(&allocated));
}

} // namespace mlgo
