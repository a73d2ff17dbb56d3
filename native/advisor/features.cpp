#include "features.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;

namespace mlgo {

using F = ExtensionFeature;

const std::vector<TensorSpec> &extensionSpecs() {
  static const std::vector<TensorSpec> Specs = {
#define MLGO_SPEC(Name, Meaning) TensorSpec::createSpec<int64_t>(#Name, {1}),
      MLGO_EXTENSION_FEATURES(MLGO_SPEC)
#undef MLGO_SPEC
  };
  return Specs;
}

std::optional<ExtensionFeature> findExtensionFeature(StringRef Name) {
  const std::vector<TensorSpec> &Specs = extensionSpecs();
  for (unsigned I = 0; I < NumExtensionFeatures; ++I)
    if (Specs[I].name() == Name)
      return static_cast<ExtensionFeature>(I);
  return std::nullopt;
}

void InliningHistory::record(const Function &Caller, const Function &Callee, bool Inlined) {
  Counts &Of = ByName[xxh3_64bits(Callee.getName())];
  if (Inlined) {
    ++Of.Inlined;
    ++ByName[xxh3_64bits(Caller.getName())].InlinedInto;
  } else {
    ++Of.Rejected;
  }
}

InliningHistory::Counts InliningHistory::of(const Function &Function) const {
  auto Found = ByName.find(xxh3_64bits(Function.getName()));
  return Found == ByName.end() ? Counts() : Found->second;
}

namespace {

struct Uses {
  int64_t Calls = 0, CallsInCaller = 0, Others = 0, Callers = 0;
};

/// Writes values by name.
class Writer {
public:
  explicit Writer(ExtensionValues &Values) : Values(Values) {}
  void operator()(F Feature, int64_t Value) { Values[static_cast<unsigned>(Feature)] = Value; }

private:
  ExtensionValues &Values;
};

} // namespace

static bool wants(const ExtensionSet &Wanted, std::initializer_list<F> Features) {
  return any_of(Features, [&](F Feature) { return Wanted[static_cast<unsigned>(Feature)]; });
}

static Uses countUses(const Function &Callee, const Function &Caller) {
  Uses Result;
  SmallPtrSet<const Function *, 8> Callers;
  for (const Use &U : Callee.uses()) {
    const auto *Call = dyn_cast<CallBase>(U.getUser());
    if (!Call || !Call->isCallee(&U)) {
      ++Result.Others;
      continue;
    }
    ++Result.Calls;
    Result.CallsInCaller += Call->getFunction() == &Caller;
    Callers.insert(Call->getFunction());
  }
  Result.Callers = Callers.size();
  return Result;
}

/// The sum of TCK_CodeSize over a function; 0 when an instruction has no valid cost.
static int64_t codeSize(Function &Callee, TargetTransformInfo &TTI) {
  InstructionCost Sum = 0;
  for (Instruction &I : instructions(Callee))
    if (!I.isDebugOrPseudoInst())
      Sum += TTI.getInstructionCost(&I, TargetTransformInfo::TCK_CodeSize);
#if LLVM_VERSION_MAJOR >= 20
  return Sum.isValid() ? Sum.getValue() : 0;
#else
  return Sum.isValid() ? *Sum.getValue() : 0;
#endif
}

static void writeLinkage(Writer &Set, CallBase &Call, const Function &Caller, const Function &Callee) {
  Set(F::callee_is_local, Callee.hasLocalLinkage());
  Set(F::callee_is_discardable, Callee.isDiscardableIfUnused());
  Set(F::caller_is_local, Caller.hasLocalLinkage());
  Set(F::caller_is_discardable, Caller.isDiscardableIfUnused());
  Set(F::argument_count, Call.arg_size());
  Set(F::result_is_used, !Call.use_empty());
  Set(F::callee_has_one_use, Callee.hasOneUse());
  Set(F::callee_in_comdat, Callee.hasComdat());
  Set(F::caller_in_comdat, Caller.hasComdat());
}

static void writeAttributes(Writer &Set, CallBase &Call, const Function &Callee) {
  Set(F::callee_has_inline_hint, Callee.hasFnAttribute(Attribute::InlineHint));
  Set(F::call_is_cold, Callee.hasFnAttribute(Attribute::Cold) || Call.hasFnAttr(Attribute::Cold));
  Set(F::callee_is_nounwind, Callee.doesNotThrow());
  Set(F::callee_memory_effects, Callee.doesNotAccessMemory() ? 2 : Callee.onlyReadsMemory());
  Set(F::callee_is_vararg, Callee.isVarArg());
  Set(F::callee_is_noreturn, Callee.doesNotReturn());
}

/// What depends on all uses of the callee and on earlier decisions.
static void writeUses(Writer &Set, const Uses &Uses, const CallSiteFacts &Facts, const Function &Callee,
                      const InliningHistory::Counts &History) {
  bool Removable = Uses.Others == 0 && Callee.isDiscardableIfUnused() && History.Rejected == 0;
  Set(F::callee_call_sites, Uses.Calls);
  Set(F::callee_call_sites_in_caller, Uses.CallsInCaller);
  Set(F::callee_other_uses, Uses.Others);
  Set(F::callee_distinct_callers, Uses.Callers);
  Set(F::callee_is_removable, Removable);
  Set(F::is_last_call_to_removable, Removable && Uses.Calls == 1);
  // 5 is LLVM's cost of one instruction (InlineConstants::getInstrCost).
  Set(F::group_inlining_cost,
      Uses.Calls * (Facts.CostEstimate / 5) - (Removable ? Facts.CalleeInstructions : 0));
}

void computeExtensionFeatures(CallBase &Call, const CallSiteFacts &Facts, const InliningHistory &History,
                              FunctionAnalysisManager &FAM, const ExtensionSet &Wanted,
                              ExtensionValues &Values) {
  Function &Caller = *Call.getCaller(), &Callee = *Call.getCalledFunction();
  Values.fill(0);
  if (Wanted.none())
    return;
  Writer Set(Values);
  Set(F::callee_instruction_count, Facts.CalleeInstructions);
  Set(F::caller_instruction_count, Facts.CallerInstructions);
  writeLinkage(Set, Call, Caller, Callee);
  writeAttributes(Set, Call, Callee);
  InliningHistory::Counts OfCallee = History.of(Callee), OfCaller = History.of(Caller);
  Set(F::callee_times_inlined, OfCallee.Inlined);
  Set(F::callee_times_rejected, OfCallee.Rejected);
  Set(F::inlines_into_callee, OfCallee.InlinedInto);
  Set(F::inlines_into_caller, OfCaller.InlinedInto);
  if (wants(Wanted, {F::callee_call_sites, F::callee_call_sites_in_caller, F::callee_other_uses,
                     F::callee_distinct_callers, F::callee_is_removable, F::is_last_call_to_removable,
                     F::group_inlining_cost}))
    writeUses(Set, countUses(Callee, Caller), Facts, Callee, OfCallee);
  if (wants(Wanted, {F::callee_code_size}))
    Set(F::callee_code_size, codeSize(Callee, FAM.getResult<TargetIRAnalysis>(Callee)));
}

} // namespace mlgo
