#include "inlining_advisor.h"

#include "binding.h"
#include "compiled_policy.h"
#include "decision_key.h"
#include "embeddings.h"
#include "failure.h"
#include "features.h"
#include "llvm_option.h"
#include "log_file.h"
#include "options.h"
#include "overrides.h"
#include "policies.h"
#include "report.h"

#include "llvm/Analysis/InlineModelFeatureMaps.h"
#include "llvm/Analysis/MLInlineAdvisor.h"
#include "llvm/Analysis/MLModelRunner.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MD5.h"

using namespace llvm;

namespace mlgo {

static constexpr StringRef Problem = "inlining";

static const TensorSpec ModelSelectorSpec = TensorSpec::createSpec<uint64_t>("model_selector", {2});

static thread_local ModuleAnalysisManager *ManagerOfThread = nullptr;

void rememberModuleAnalysisManager(ModuleAnalysisManager &MAM) { ManagerOfThread = &MAM; }

bool inliningIsWanted() {
  return policyFor(Problem).isNamed() || overridesAreFor(Problem) || logIsWanted(Problem);
}

static const std::vector<TensorSpec> &initialFeatures() {
#if LLVM_VERSION_MAJOR >= 20
  return MLInlineAdvisor::getInitialFeatureMap();
#else
  return FeatureMap;
#endif
}

namespace {

/// Where the compiler's features go: straight into the policy's inputs, or into buffers of our own.
class FeatureBuffers final : public MLModelRunner {
public:
  FeatureBuffers(LLVMContext &Context, const std::vector<TensorSpec> &Specs, PolicyInstance *Policy,
                 const Binding &Inputs)
      : MLModelRunner(Context, Kind::Release, Specs.size()) {
    std::vector<void *> Targets(Specs.size(), nullptr);
    for (unsigned I = 0; I < Inputs.size(); ++I)
      if (Inputs[I] >= 0 && static_cast<size_t>(Inputs[I]) < Specs.size())
        Targets[Inputs[I]] = Policy->input(I);
    for (size_t I = 0; I < Specs.size(); ++I)
      setUpBufferForTensor(I, Specs[I], Targets[I]);
  }

private:
  // The advisor below decides itself; LLVM's own path to here is overridden.
  void *evaluateUntyped() override { return &Never; }
  int64_t Never = 0;
};

/// Everything that one module's advisor needs and that may fail to be had.
struct Setup {
  std::unique_ptr<PolicyInstance> Policy;
  Binding Inputs;
  const Overrides *Fixed = nullptr;
  std::vector<TensorSpec> CompilerFeatures;
};

struct Statistics {
  uint64_t Decisions = 0, Inlined = 0, Changed = 0, ByPolicy = 0, ByOverride = 0, ByDefault = 0;
  uint64_t AdviceNs = 0, ExtensionNs = 0, PolicyNs = 0, DefaultNs = 0;
};

class InliningAdvisor final : public MLInlineAdvisor {
public:
  InliningAdvisor(Module &M, ModuleAnalysisManager &MAM, std::unique_ptr<InlineAdvisor> Default, Setup Given);
  ~InliningAdvisor() override;

private:
  std::unique_ptr<InlineAdvice> getAdviceImpl(CallBase &Call) override;
  std::unique_ptr<MLInlineAdvice> getAdviceFromModel(CallBase &Call, OptimizationRemarkEmitter &ORE) override;

  bool decide(CallBase &Call);
  bool askPolicy(CallBase &Call);
  const char *runPolicy();
  bool askDefault(CallBase &Call);
  void computeExtensions(CallBase &Call);
  void giveExtensions();
  void writeLog(const Function &Caller, const Function &Callee, uint64_t Key, bool Decision);
  void openLog();

  // Offered to a policy: the compiler's features, then the extension features, then the default advice.
  size_t numCompilerFeatures() const { return Given.CompilerFeatures.size(); }
  int64_t &costEstimate() { return *ModelRunner->getTensor<int64_t>(FeatureIndex::cost_estimate); }

  std::shared_ptr<InlineAdvisor> Default;
  Setup Given;
  const bool Timed;
  bool PolicyFailed = false, WantsKeys = false, WantsDefault = false;
  ExtensionSet Wanted;
  ExtensionValues Extensions{};
  std::optional<bool> DefaultOfCall;
  InliningHistory History;
  OccurrenceCounter Occurrences;
  std::unique_ptr<LogFile> Log;
  Statistics Counts;
};

/// Adds the time of a scope to a counter, when times are wanted.
class Stopwatch {
public:
  Stopwatch(bool Runs, uint64_t &Sum) : Sum(Sum), Start(Runs ? nanoseconds() : 0) {}
  ~Stopwatch() {
    if (Start)
      Sum += nanoseconds() - Start;
  }

private:
  uint64_t &Sum;
  const uint64_t Start;
};

} // namespace

static std::vector<TensorSpec> offeredFeatures(const std::vector<TensorSpec> &Compiler) {
  std::vector<TensorSpec> Offered = Compiler;
  Offered.insert(Offered.end(), extensionSpecs().begin(), extensionSpecs().end());
  Offered.push_back(DefaultDecisionSpec);
  return Offered;
}

/// `Default.getAdvice`'s answer, without its record of what came of it.
static bool recommends(InlineAdvisor &Default, CallBase &Call) {
  std::unique_ptr<InlineAdvice> Advice = Default.getAdvice(Call);
  if (!Advice)
    return false;
  bool Recommended = Advice->isInliningRecommended();
  Advice->recordUnattemptedInlining();
  return Recommended;
}

static std::function<bool(CallBase &)> defaultAdvice(InlineAdvisor &Default) {
  return [&Default](CallBase &Call) { return recommends(Default, Call); };
}

#if LLVM_VERSION_MAJOR >= 20
// LLVM says what it will write, which other options may add to.
#define MLGO_RUNNER(Context, Features, ...)                                                                  \
  [&](const std::vector<TensorSpec> &All) {                                                                  \
    return std::make_unique<FeatureBuffers>(Context, All, __VA_ARGS__);                                      \
  }
#else
#define MLGO_RUNNER(...) std::make_unique<FeatureBuffers>(__VA_ARGS__)
#endif

InliningAdvisor::InliningAdvisor(Module &M, ModuleAnalysisManager &MAM,
                                 std::unique_ptr<InlineAdvisor> DefaultAdvisor, Setup TheSetup)
    : MLInlineAdvisor(
          M, MAM,
          MLGO_RUNNER(M.getContext(), TheSetup.CompilerFeatures, TheSetup.Policy.get(), TheSetup.Inputs),
          defaultAdvice(*DefaultAdvisor)),
      Default(std::move(DefaultAdvisor)), Given(std::move(TheSetup)), Timed(reportIsWanted()) {
  for (int Offered : Given.Inputs) {
    int Extension = Offered - static_cast<int>(numCompilerFeatures());
    if (Extension >= 0 && Extension < static_cast<int>(NumExtensionFeatures))
      Wanted.set(Extension);
    WantsDefault |= Extension == static_cast<int>(NumExtensionFeatures);
  }
  openLog();
  WantsKeys = Log || Given.Fixed;
  reportLine(json::Object{{"event", "begin"}, {"problem", Problem}, {"module", printable(M.getName())}});
}

void InliningAdvisor::openLog() {
  if (!logIsWanted(Problem))
    return;
  std::vector<TensorSpec> Columns = offeredFeatures(Given.CompilerFeatures);
  Columns.push_back(InlineDecisionSpec);
  Log = LogFile::create(Problem, M.getName(), Columns, std::nullopt);
  if (!Log)
    return;
  Log->context("");
  Wanted.set();
  WantsDefault = true;
}

InliningAdvisor::~InliningAdvisor() {
  if (Log)
    Log->flush();
  json::Object Line;
  Line["event"] = "module";
  Line["problem"] = Problem;
  Line["backend"] = "plugin";
  Line["module"] = printable(M.getName());
  Line["forced_stop"] = isForcedToStop();
  Line["policy"] =
      Given.Policy ? json::Value(printable(Given.Policy->policy().name())) : json::Value(nullptr);
  Line["decisions"] = Counts.Decisions;
  Line["inlined"] = Counts.Inlined;
  if (Timed)
    Line["changed"] = Counts.Changed;
  Line["by_policy"] = Counts.ByPolicy;
  Line["by_override"] = Counts.ByOverride;
  Line["by_default"] = Counts.ByDefault;
  Line["advice_ns"] = Counts.AdviceNs;
  Line["extension_ns"] = Counts.ExtensionNs;
  Line["default_ns"] = Counts.DefaultNs;
  Line["policy_ns"] = Counts.PolicyNs;
  reportLine(std::move(Line));
}

std::unique_ptr<InlineAdvice> InliningAdvisor::getAdviceImpl(CallBase &Call) {
  Stopwatch Watch(Timed, Counts.AdviceNs);
  return MLInlineAdvisor::getAdviceImpl(Call);
}

std::unique_ptr<MLInlineAdvice> InliningAdvisor::getAdviceFromModel(CallBase &Call,
                                                                    OptimizationRemarkEmitter &ORE) {
  return std::make_unique<MLInlineAdvice>(this, Call, ORE, decide(Call));
}

bool InliningAdvisor::decide(CallBase &Call) {
  const Function &Caller = *Call.getCaller(), &Callee = *Call.getCalledFunction();
  DefaultOfCall.reset();
  if (Wanted.any())
    computeExtensions(Call);
  uint64_t Key = WantsKeys ? Occurrences.next(Caller.getName(), Callee.getName()) : 0;
  std::optional<double> Fixed = Given.Fixed ? Given.Fixed->find(Key) : std::nullopt;
  bool Decision;
  if (Fixed) {
    Decision = *Fixed != 0;
    ++Counts.ByOverride;
  } else if (Given.Policy && !PolicyFailed) {
    Decision = askPolicy(Call);
  } else {
    Decision = askDefault(Call);
    ++Counts.ByDefault;
  }
  ++Counts.Decisions;
  Counts.Inlined += Decision;
  if (Timed)
    Counts.Changed += Decision != askDefault(Call);
  if (Log) {
    askDefault(Call);
    writeLog(Caller, Callee, Key, Decision);
  }
  if (Wanted.any())
    History.record(Caller, Callee, Decision);
  return Decision;
}

bool InliningAdvisor::askPolicy(CallBase &Call) {
  if (WantsDefault)
    askDefault(Call);
  giveExtensions();
  const char *Wrong = runPolicy();
  if (Wrong) {
    PolicyFailed = true;
    reportFallback(Problem, M.getName(), Wrong);
    ++Counts.ByDefault;
    return askDefault(Call);
  }
  ++Counts.ByPolicy;
  return *static_cast<const int64_t *>(Given.Policy->output(0)) != 0;
}

const char *InliningAdvisor::runPolicy() {
  Stopwatch Watch(Timed, Counts.PolicyNs);
  if (const char *Wrong = Given.Policy->run())
    return Wrong;
  int64_t Advice = *static_cast<const int64_t *>(Given.Policy->output(0));
  return Advice == 0 || Advice == 1 ? nullptr : "the policy's answer is neither 0 nor 1";
}

bool InliningAdvisor::askDefault(CallBase &Call) {
  if (!DefaultOfCall) {
    Stopwatch Watch(Timed, Counts.DefaultNs);
    DefaultOfCall = GetDefaultAdvice(Call);
  }
  return *DefaultOfCall;
}

void InliningAdvisor::computeExtensions(CallBase &Call) {
  Stopwatch Watch(Timed, Counts.ExtensionNs);
  CallSiteFacts Facts{costEstimate(), getIRSize(*Call.getCalledFunction()), getIRSize(*Call.getCaller())};
  computeExtensionFeatures(Call, Facts, History, FAM, Wanted, Extensions);
}

/// Writes what the compiler does not write itself into the policy's inputs.
void InliningAdvisor::giveExtensions() {
  for (unsigned I = 0; I < Given.Inputs.size(); ++I) {
    int Extension = Given.Inputs[I] - static_cast<int>(numCompilerFeatures());
    if (Given.Inputs[I] < 0 || Extension < 0 || Extension > static_cast<int>(NumExtensionFeatures))
      continue;
    *static_cast<int64_t *>(Given.Policy->input(I)) =
        Extension < static_cast<int>(NumExtensionFeatures) ? Extensions[Extension] : *DefaultOfCall;
  }
}

void InliningAdvisor::writeLog(const Function &Caller, const Function &Callee, uint64_t Key, bool Decision) {
  std::vector<const void *> Tensors;
  for (size_t I = 0; I < numCompilerFeatures(); ++I)
    Tensors.push_back(ModelRunner->getTensorUntyped(I));
  for (const int64_t &Value : Extensions)
    Tensors.push_back(&Value);
  int64_t DefaultValue = *DefaultOfCall, DecisionValue = Decision;
  Tensors.push_back(&DefaultValue);
  Tensors.push_back(&DecisionValue);
  Log->observation(Tensors, Key, Caller.getName(), Callee.getName());
}

/// Tells a policy of several models which one to use.
///
/// Source: llvm/Analysis/ReleaseModeModelRunner.h (LLVM 22). Departure: a name that the policy does not have
/// is its error, and so LLVM's default.
static Error selectModel(PolicyInstance &Instance) {
  const std::vector<TensorSpec> &Inputs = Instance.policy().inputs();
  const auto Found =
      find_if(Inputs, [](const TensorSpec &Each) { return Each.name() == ModelSelectorSpec.name(); });
  if (Found == Inputs.end())
    return Error::success();
  const std::string Selector = givenText("ml-inliner-model-selector");
  if (Selector.empty())
    return failure("policy " + Instance.policy().name() +
                   " holds several models: name one with -mllvm -ml-inliner-model-selector=NAME");
  const auto Hash = MD5::hash(arrayRefFromStringRef(Selector));
  auto *Words = static_cast<uint64_t *>(Instance.input(Found - Inputs.begin()));
  Words[0] = Hash.high();
  Words[1] = Hash.low();
  return Error::success();
}

static Expected<Setup> prepare(Module &M, ModuleAnalysisManager &MAM) {
  Setup Result;
  Result.CompilerFeatures = initialFeatures();
  const PolicyChoice &Choice = policyFor(Problem);
  if (Choice.Broken)
    return failure(*Choice.Broken);
  Expected<std::vector<TensorSpec>> Embeddings = embeddingFeatures(Choice.Policy, M, MAM);
  if (!Embeddings)
    return Embeddings.takeError();
  append_range(Result.CompilerFeatures, *Embeddings);
  if (Choice.Policy) {
    if (Error Unfit = checkDecision<int64_t>(*Choice.Policy, Problem))
      return Expected<Setup>(std::move(Unfit));
    std::vector<TensorSpec> Offered = offeredFeatures(Result.CompilerFeatures);
    Offered.push_back(ModelSelectorSpec);
    Expected<Binding> Inputs = bindByName(*Choice.Policy, Offered);
    if (!Inputs)
      return Inputs.takeError();
    Result.Inputs = std::move(*Inputs);
    Expected<std::unique_ptr<PolicyInstance>> Instance = Choice.Policy->instantiate();
    if (!Instance)
      return Instance.takeError();
    Result.Policy = std::move(*Instance);
    if (Error Unselected = selectModel(*Result.Policy))
      return Expected<Setup>(std::move(Unselected));
  }
  Expected<const Overrides *> Fixed = fixedDecisions(Problem);
  if (!Fixed)
    return Fixed.takeError();
  Result.Fixed = *Fixed;
  return Expected<Setup>(std::move(Result));
}

/// The manager of this thread, if it is the one that `FAM` belongs to.
static ModuleAnalysisManager *managerOf(Module &M, FunctionAnalysisManager &FAM) {
  if (!ManagerOfThread)
    return nullptr;
  auto *Proxy = ManagerOfThread->getCachedResult<FunctionAnalysisManagerModuleProxy>(M);
  return Proxy && &Proxy->getManager() == &FAM ? ManagerOfThread : nullptr;
}

InlineAdvisor *createInliningAdvisor(Module &M, FunctionAnalysisManager &FAM, InlineParams Params,
                                     InlineContext Context) {
  auto Default = std::make_unique<DefaultInlineAdvisor>(M, FAM, Params, Context);
  if (Context.Pass == InlinePass::EarlyInliner || !inliningIsWanted())
    return Default.release();
  ModuleAnalysisManager *MAM = managerOf(M, FAM);
  if (!MAM) {
    reportFallback(Problem, M.getName(), "the module's analysis manager was not announced");
    return Default.release();
  }
  Expected<Setup> Given = prepare(M, *MAM);
  if (!Given) {
    reportFallback(Problem, M.getName(), toString(Given.takeError()));
    return Default.release();
  }
  return new InliningAdvisor(M, *MAM, std::move(Default), std::move(*Given));
}

} // namespace mlgo
