#include "regalloc_takeover.h"

#include "allocation_session.h"
#include "llvm_option.h"
#include "null_channel.h"
#include "policies.h"
#include "regalloc_defaults.h"
#include "regalloc_scoring.h"
#include "report.h"
#include "vtable_slot.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Analysis/InteractiveModelRunner.h"
#include "llvm/CodeGen/MachineFunction.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <mutex>

using namespace llvm;

// The vtable and the function in it, as libLLVM exports them.
extern "C" {
extern void *_ZTVN4llvm22InteractiveModelRunnerE[];
void *_ZN4llvm22InteractiveModelRunner15evaluateUntypedEv(InteractiveModelRunner *);
}

namespace mlgo {

namespace {

// An explicit instantiation may name private members: this reads them without a change of the header.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-template-friend"
#endif
template <typename Tag, typename Tag::Type Member> struct Expose {
  friend typename Tag::Type memberOf(Tag) { return Member; }
};
struct InputSpecs {
  using Type = const std::vector<TensorSpec> InteractiveModelRunner::*;
  friend Type memberOf(InputSpecs);
};
struct OutputSpec {
  using Type = const TensorSpec InteractiveModelRunner::*;
  friend Type memberOf(OutputSpec);
};
template struct Expose<InputSpecs, &InteractiveModelRunner::InputSpecs>;
template struct Expose<OutputSpec, &InteractiveModelRunner::OutputSpec>;
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/// How one problem's advisor is turned on.
struct Takeover {
  StringRef Problem, DecisionName, ModeOption, ChannelOption;
  bool Active = false, DefaultsFollow = false;
};

/// Two runners that differ in one function tell its place in the vtable.
struct RunnerProbe final : MLModelRunner {
  explicit RunnerProbe(LLVMContext &Context) : MLModelRunner(Context, Kind::NoOp, 0) {}
  void switchContext(StringRef) override { Calls = 1; }
  void *evaluateUntyped() override { return Nothing; }
  void *Nothing = nullptr;
  int Calls = 0;
};
struct OtherRunnerProbe final : MLModelRunner {
  explicit OtherRunnerProbe(LLVMContext &Context) : MLModelRunner(Context, Kind::NoOp, 0) {}
  void switchContext(StringRef) override { Calls = 2; }
  void *evaluateUntyped() override { return this; }
  int Calls = 0;
};

using SwitchContext = void (*)(InteractiveModelRunner *, StringRef);

} // namespace

static Takeover Takeovers[] = {
    {"eviction", "index_to_evict", "regalloc-enable-advisor", "regalloc-evict-interactive-channel-base"},
    {"priority", "priority", "regalloc-enable-priority-advisor",
     "regalloc-priority-interactive-channel-base"},
};
static SwitchContext OriginalSwitchContext = nullptr;

static thread_local std::unique_ptr<AllocationSession> Sessions[std::size(Takeovers)];

static bool isWanted(StringRef Problem) {
  if (policyFor(Problem).Broken)
    return false;
  return policyFor(Problem).Policy || overridesAreFor(Problem) || logIsWanted(Problem);
}

bool registerAllocationIsWanted() {
  return any_of(Takeovers, [](const Takeover &Each) { return isWanted(Each.Problem); });
}

void rememberFunctionSizes(const Module &M) {
  ModuleOfThread &Here = moduleOfThread();
  Here.Name = M.getName().str();
  Here.Instructions.clear();
  ++Here.Generation;
  for (const llvm::Function &Each : M)
    if (!Each.isDeclaration())
      Here.Instructions[Each.getName()] = Each.getInstructionCount();
}

// --- in LLVM's place
// ------------------------------------------------------------------------------------------

static std::unique_ptr<AllocationSession> startSession(const Takeover &Of) {
  std::unique_ptr<AllocationSession> Session = makeSession(Of.Problem);
  if (Of.DefaultsFollow)
    Session->expectDefaults();
  return Session;
}

/// This thread's session for the problem that a runner asks about; null when it is none of ours.
static AllocationSession *sessionOf(InteractiveModelRunner *Runner) {
  const std::string &Decision = (Runner->*memberOf(OutputSpec())).name();
  for (size_t I = 0; I < std::size(Takeovers); ++I) {
    if (!Takeovers[I].Active || Takeovers[I].DecisionName != Decision)
      continue;
    if (!Sessions[I])
      Sessions[I] = startSession(Takeovers[I]);
    return Sessions[I].get();
  }
  return nullptr;
}

static void *evaluate(InteractiveModelRunner *Runner) {
  if (AllocationSession *Session = sessionOf(Runner))
    return Session->answer(*Runner);
  return _ZN4llvm22InteractiveModelRunner15evaluateUntypedEv(Runner);
}

static void switchContext(InteractiveModelRunner *Runner, StringRef Name) {
  if (AllocationSession *Session = sessionOf(Runner))
    Session->startFunction(Name, Runner->*memberOf(InputSpecs()));
  else
    OriginalSwitchContext(Runner, Name);
}

static void functionAllocated(const MachineFunction &, function_ref<float()> Score) {
  for (std::unique_ptr<AllocationSession> &Session : Sessions)
    if (Session)
      Session->endFunction(Score);
}

// --- taking over
// ----------------------------------------------------------------------------------------------

/// Replaces the two functions of the runner. False, with nothing changed that matters, when its vtable is not
/// as expected.
static bool hookRunner() {
  LLVMContext Context;
  const RunnerProbe One(Context);
  const OtherRunnerProbe Other(Context);
  // evaluateUntyped is exported and found by its address; switchContext is not, and is the function beside
  // it.
  constexpr size_t SwitchSlot = 2, EvaluateSlot = 3, Size = 4;
  VTable Runner = _ZTVN4llvm22InteractiveModelRunnerE + 2; // after the offset and the type's description
  if (Runner[EvaluateSlot] != reinterpret_cast<void *>(&_ZN4llvm22InteractiveModelRunner15evaluateUntypedEv))
    return false;
  // Both probes override both functions, so exactly these two slots differ: the layout is what the headers
  // say.
  for (size_t Slot = SwitchSlot; Slot < Size; ++Slot)
    if (vtableOf(One)[Slot] == vtableOf(Other)[Slot])
      return false;
  OriginalSwitchContext = reinterpret_cast<SwitchContext>(Runner[SwitchSlot]);
  return replaceSlot(Runner, SwitchSlot, reinterpret_cast<void *>(&switchContext)) &&
         replaceSlot(Runner, EvaluateSlot, reinterpret_cast<void *>(&evaluate));
}

/// Turns on the advisor of one problem. None when done, else why not.
static std::optional<std::string> activate(Takeover &Of, const std::string &ChannelBase) {
  cl::Option *Mode = findOption(Of.ModeOption), *Channel = findOption(Of.ChannelOption);
  if (!Mode || !Channel)
    return ("this LLVM has no option -" + (Mode ? Of.ChannelOption : Of.ModeOption)).str();
  if (Mode->getNumOccurrences() || Channel->getNumOccurrences())
    return ("-" + Of.ModeOption + " is already given").str();
  if (Mode->addOccurrence(0, Of.ModeOption, "release") ||
      Channel->addOccurrence(0, Of.ChannelOption, ChannelBase))
    return ("-" + Of.ModeOption + "=release was refused").str();
  Of.Active = true;
  return std::nullopt;
}

static bool evictionFailed() { return Sessions[0] && Sessions[0]->hasFailed(); }
static bool priorityFailed() { return Sessions[1] && Sessions[1]->hasFailed(); }

static void takeOver() {
  if (!hookRunner()) {
    reportFallback("register allocation", "", "this LLVM's model runner is not as expected");
    return;
  }
  std::optional<std::string> Base = nullChannel();
  if (!Base) {
    reportFallback("register allocation", "", "no folder for temporary files");
    return;
  }
  if (!listenToAllocations(functionAllocated))
    warnOnce("this LLVM does not tell the end of a register allocation; it is neither reported nor logged");
  for (Takeover &Each : Takeovers)
    if (isWanted(Each.Problem))
      if (std::optional<std::string> Wrong = activate(Each, *Base))
        reportFallback(Each.Problem, "", *Wrong);
  Takeovers[0].DefaultsFollow = Takeovers[0].Active && letDefaultEvictionIn(evictionFailed);
  Takeovers[1].DefaultsFollow = Takeovers[1].Active && letDefaultPriorityIn(priorityFailed);
}

void takeOverRegisterAllocation() {
  static std::once_flag Done;
  std::call_once(Done, [] {
    for (const Takeover &Each : Takeovers)
      if (const std::optional<std::string> &Broken = policyFor(Each.Problem).Broken)
        reportFallback(Each.Problem, "", *Broken);
    if (registerAllocationIsWanted())
      takeOver();
  });
}

} // namespace mlgo
