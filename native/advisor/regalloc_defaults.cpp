#include "regalloc_defaults.h"

#include "vtable_slot.h"

#include "llvm/Config/llvm-config.h"
#if LLVM_VERSION_MAJOR >= 22
#include "llvm/CodeGen/MachineFunction.h"
#include "llvm/CodeGen/RegAllocEvictionAdvisor.h"
#include "llvm/CodeGen/RegAllocPriorityAdvisor.h"
#include "llvm/IR/LLVMContext.h"
#endif

#include <memory>

namespace mlgo {

#if LLVM_VERSION_MAJOR >= 22

using namespace llvm;

// Functions in a provider's vtable: two destructors, logRewardIfNeeded, getAdvisor.
static constexpr size_t ProviderSize = 4;

namespace {

struct EvictionProbe final : RegAllocEvictionAdvisorProvider {
  explicit EvictionProbe(LLVMContext &Context)
      : RegAllocEvictionAdvisorProvider(AdvisorMode::Default, Context) {}
  std::unique_ptr<RegAllocEvictionAdvisor> getAdvisor(const MachineFunction &, const RAGreedy &,
                                                      MachineBlockFrequencyInfo *,
                                                      MachineLoopInfo *) override {
    return nullptr;
  }
};
struct OtherEvictionProbe final : RegAllocEvictionAdvisorProvider {
  explicit OtherEvictionProbe(LLVMContext &Context)
      : RegAllocEvictionAdvisorProvider(AdvisorMode::Default, Context) {}
  std::unique_ptr<RegAllocEvictionAdvisor> getAdvisor(const MachineFunction &MF, const RAGreedy &RA,
                                                      MachineBlockFrequencyInfo *,
                                                      MachineLoopInfo *) override {
    return std::make_unique<DefaultEvictionAdvisor>(MF, RA);
  }
};
struct PriorityProbe final : RegAllocPriorityAdvisorProvider {
  PriorityProbe() : RegAllocPriorityAdvisorProvider(AdvisorMode::Default) {}
  std::unique_ptr<RegAllocPriorityAdvisor> getAdvisor(const MachineFunction &, const RAGreedy &,
                                                      SlotIndexes &) override {
    return nullptr;
  }
};
struct OtherPriorityProbe final : RegAllocPriorityAdvisorProvider {
  OtherPriorityProbe() : RegAllocPriorityAdvisorProvider(AdvisorMode::Default) {}
  std::unique_ptr<RegAllocPriorityAdvisor> getAdvisor(const MachineFunction &MF, const RAGreedy &RA,
                                                      SlotIndexes &Indexes) override {
    return std::make_unique<DefaultPriorityAdvisor>(MF, RA, &Indexes);
  }
};

// A function that takes the object first is called as a member function is.
using GetEviction = std::unique_ptr<RegAllocEvictionAdvisor> (*)(RegAllocEvictionAdvisorProvider *,
                                                                 const MachineFunction &, const RAGreedy &,
                                                                 MachineBlockFrequencyInfo *,
                                                                 MachineLoopInfo *);
using GetPriority = std::unique_ptr<RegAllocPriorityAdvisor> (*)(RegAllocPriorityAdvisorProvider *,
                                                                 const MachineFunction &, const RAGreedy &,
                                                                 SlotIndexes &);

} // namespace

static GetEviction MakeMLEviction = nullptr;
static GetPriority MakeMLPriority = nullptr;
static HasFailed EvictionHasFailed = nullptr, PriorityHasFailed = nullptr;

static std::unique_ptr<RegAllocEvictionAdvisor> getEviction(RegAllocEvictionAdvisorProvider *Provider,
                                                            const MachineFunction &MF, const RAGreedy &RA,
                                                            MachineBlockFrequencyInfo *Frequencies,
                                                            MachineLoopInfo *Loops) {
  // Making it names the function and the features to our session, which may find there that the policy does
  // not fit.
  std::unique_ptr<RegAllocEvictionAdvisor> Advisor = MakeMLEviction(Provider, MF, RA, Frequencies, Loops);
  if (EvictionHasFailed())
    return std::make_unique<DefaultEvictionAdvisor>(MF, RA);
  return Advisor;
}

static std::unique_ptr<RegAllocPriorityAdvisor> getPriority(RegAllocPriorityAdvisorProvider *Provider,
                                                            const MachineFunction &MF, const RAGreedy &RA,
                                                            SlotIndexes &Indexes) {
  std::unique_ptr<RegAllocPriorityAdvisor> Advisor = MakeMLPriority(Provider, MF, RA, Indexes);
  if (PriorityHasFailed())
    return std::make_unique<DefaultPriorityAdvisor>(MF, RA, &Indexes);
  return Advisor;
}

bool letDefaultEvictionIn(HasFailed Failed) {
  LLVMContext Context;
  const std::unique_ptr<RegAllocEvictionAdvisorProvider> Provider(createReleaseModeAdvisorProvider(Context));
  std::optional<size_t> Slot =
      onlyDifference(vtableOf(EvictionProbe(Context)), vtableOf(OtherEvictionProbe(Context)), ProviderSize);
  if (!Provider || !Slot)
    return false;
  EvictionHasFailed = Failed;
  MakeMLEviction = reinterpret_cast<GetEviction>(vtableOf(*Provider)[*Slot]);
  return replaceSlot(vtableOf(*Provider), *Slot, reinterpret_cast<void *>(&getEviction));
}

bool letDefaultPriorityIn(HasFailed Failed) {
  const std::unique_ptr<RegAllocPriorityAdvisorProvider> Provider(createReleaseModePriorityAdvisorProvider());
  std::optional<size_t> Slot =
      onlyDifference(vtableOf(PriorityProbe()), vtableOf(OtherPriorityProbe()), ProviderSize);
  if (!Provider || !Slot)
    return false;
  PriorityHasFailed = Failed;
  MakeMLPriority = reinterpret_cast<GetPriority>(vtableOf(*Provider)[*Slot]);
  return replaceSlot(vtableOf(*Provider), *Slot, reinterpret_cast<void *>(&getPriority));
}

#else

bool letDefaultEvictionIn(HasFailed) { return false; }
bool letDefaultPriorityIn(HasFailed) { return false; }

#endif

} // namespace mlgo
