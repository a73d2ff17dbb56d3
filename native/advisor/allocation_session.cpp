#include "allocation_session.h"

#include "decision_key.h"
#include "failure.h"
#include "policies.h"
#include "report.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <cstring>

using namespace llvm;

namespace mlgo {

static constexpr StringRef DefaultDecides = "LLVM's default decides",
                           DefaultFollows = "LLVM's default decides from the next function on",
                           StandInDecides = "a stand-in for LLVM's default decides";

ModuleOfThread &moduleOfThread() {
  static thread_local ModuleOfThread Module;
  return Module;
}

AllocationSession::AllocationSession(StringRef Problem, TensorSpec Decision, DecisionLimit Limit)
    : Problem(Problem), Decision(std::move(Decision)), Limit(Limit) {}

AllocationSession::~AllocationSession() = default;

std::optional<size_t> AllocationSession::indexOf(const std::vector<TensorSpec> &Specs, StringRef Name) {
  for (size_t I = 0; I < Specs.size(); ++I)
    if (Specs[I].name() == Name)
      return I;
  return std::nullopt;
}

// --- once per thread
// ------------------------------------------------------------------------------------------

void AllocationSession::prepare(const std::vector<TensorSpec> &Specs) {
  Prepared = true;
  FeatureSpecs = Specs;
  Features.resize(Specs.size());
  if (Error Wrong = preparePolicy(Specs)) {
    Policy.reset();
    fail(toString(std::move(Wrong)), DefaultsFollow ? DefaultDecides : StandInDecides);
  }
  if (!logIsWanted(Problem))
    return;
  std::vector<TensorSpec> Columns = Specs;
  Columns.push_back(Decision);
  Log =
      LogFile::create(Problem, moduleOfThread().Name, Columns, TensorSpec::createSpec<float>("reward", {1}));
}

Error AllocationSession::preparePolicy(const std::vector<TensorSpec> &Specs) {
  if (Error Wrong = learnFeatures(Specs))
    return Wrong;
  Expected<const Overrides *> Decisions = fixedDecisions(Problem);
  if (!Decisions)
    return Decisions.takeError();
  Fixed = *Decisions;
  const PolicyChoice &Choice = policyFor(Problem);
  if (Choice.Broken)
    return failure(*Choice.Broken);
  if (!Choice.Policy)
    return Error::success();
  if (Error Unfit = Decision.isElementType<float>() ? checkDecision<float>(*Choice.Policy, Problem)
                                                    : checkDecision<int64_t>(*Choice.Policy, Problem))
    return Unfit;
  Expected<Binding> Bound = bindByName(*Choice.Policy, Specs);
  if (!Bound)
    return Bound.takeError();
  Expected<std::unique_ptr<PolicyInstance>> Instance = Choice.Policy->instantiate();
  if (!Instance)
    return Instance.takeError();
  Inputs = std::move(*Bound);
  Policy = std::move(*Instance);
  return Error::success();
}

void AllocationSession::fail(StringRef Reason, StringRef Consequence) {
  Failed = true;
  reportFallback(Problem, moduleOfThread().Name, Reason, Consequence);
}

// --- a function
// -----------------------------------------------------------------------------------------------

void AllocationSession::startFunction(StringRef Name, const std::vector<TensorSpec> &Specs) {
  Function = Name.str();
  forgetFunction();
  if (!Prepared)
    prepare(Specs);
  if (Generation != moduleOfThread().Generation) {
    Generation = moduleOfThread().Generation;
    Failed = policyFor(Problem).isNamed() && !Policy;
  }
}

void AllocationSession::forgetFunction() {
  Counts = {};
  WatchdogBit = false;
  Observations.clear();
  Keys.clear();
}

bool AllocationSession::isTooMany() const {
  unsigned Instructions = moduleOfThread().Instructions.lookup(Function);
  return Counts.Decisions > Limit.Few + Limit.PerInstruction * Instructions;
}

void *AllocationSession::answer(MLModelRunner &Runner) {
  for (size_t I = 0; I < Features.size(); ++I)
    Features[I] = Runner.getTensorUntyped(I);
  uint64_t Key = Fixed || Log ? decisionKey(Function, Problem, Counts.Decisions) : 0;
  auto [Advice, From] = decide(Key);
  if (const char *Wrong = check(Advice, Features)) {
    if (From == Source::Policy)
      fail(Wrong, DefaultsFollow ? DefaultFollows : StandInDecides);
    else
      reportFallback(Problem, moduleOfThread().Name, (Twine("an override: ") + Wrong).str(), StandInDecides);
    Advice = standIn(Features);
    From = Source::StandIn;
  }
  count(From);
  if (Log)
    remember(Key, Advice);
  return store(Advice);
}

std::pair<double, AllocationSession::Source> AllocationSession::decide(uint64_t Key) {
  if (!WatchdogBit && isTooMany()) {
    WatchdogBit = true;
    reportFallback(Problem, moduleOfThread().Name,
                   ("the policy goes in circles in function " + Function + " after " +
                    Twine(Counts.Decisions) + " decisions")
                       .str(),
                   StandInDecides);
  }
  if (WatchdogBit)
    return {standIn(Features), Source::StandIn};
  if (std::optional<double> Advice = Fixed ? Fixed->find(Key) : std::nullopt)
    return {*Advice, Source::Override};
  if (Policy && !Failed)
    if (std::optional<double> Advice = askPolicy())
      return {*Advice, Source::Policy};
  return {standIn(Features), Source::StandIn};
}

std::optional<double> AllocationSession::askPolicy() {
  for (unsigned I = 0; I < Inputs.size(); ++I)
    if (Inputs[I] >= 0)
      std::memcpy(Policy->input(I), Features[Inputs[I]], FeatureSpecs[Inputs[I]].getTotalTensorBufferSize());
  const uint64_t Start = reportIsWanted() ? nanoseconds() : 0;
  const char *Wrong = Policy->run();
  if (Start)
    Counts.PolicyNs += nanoseconds() - Start;
  if (!Wrong)
    return read(Policy->output(0));
  fail(Wrong, DefaultsFollow ? DefaultFollows : StandInDecides);
  return std::nullopt;
}

void AllocationSession::count(Source From) {
  ++Counts.Decisions;
  Counts.ByPolicy += From == Source::Policy;
  Counts.ByOverride += From == Source::Override;
  Counts.ByStandIn += From == Source::StandIn;
}

// --- records
// --------------------------------------------------------------------------------------------------

void AllocationSession::remember(uint64_t Key, double Advice) {
  for (size_t I = 0; I < Features.size(); ++I)
    Observations.append(static_cast<const char *>(Features[I]), FeatureSpecs[I].getTotalTensorBufferSize());
  Observations.append(static_cast<const char *>(store(Advice)), Decision.getTotalTensorBufferSize());
  Keys.push_back(Key);
}

void AllocationSession::writeObservations(function_ref<float()> Score) {
  Log->context(Function);
  std::vector<const void *> Tensors(FeatureSpecs.size() + 1);
  const char *Next = Observations.data();
  for (size_t Number = 0; Number < Keys.size(); ++Number) {
    for (size_t I = 0; I < FeatureSpecs.size(); ++I) {
      Tensors[I] = Next;
      Next += FeatureSpecs[I].getTotalTensorBufferSize();
    }
    Tensors.back() = Next;
    Next += Decision.getTotalTensorBufferSize();
    Log->observation(Tensors, Keys[Number], Function, Problem);
    // As in LLVM's development mode the whole reward belongs to the last decision.
    Log->outcome(Number + 1 == Keys.size() ? Score() : 0);
  }
  Log->flush();
}

void AllocationSession::endFunction(function_ref<float()> Score) {
  if (Log && !Keys.empty())
    writeObservations(Score);
  if (Counts.Decisions) {
    json::Object Line;
    Line["event"] = "function";
    Line["problem"] = Problem;
    Line["backend"] = "plugin";
    Line["module"] = printable(moduleOfThread().Name);
    Line["function"] = printable(Function);
    Line["policy"] = Policy ? json::Value(printable(Policy->policy().name())) : json::Value(nullptr);
    Line["decisions"] = Counts.Decisions;
    Line["by_policy"] = Counts.ByPolicy;
    Line["by_override"] = Counts.ByOverride;
    Line["by_default"] = Counts.ByStandIn;
    Line["policy_ns"] = Counts.PolicyNs;
    reportLine(std::move(Line));
  }
  forgetFunction();
}

// --- the two problems
// -----------------------------------------------------------------------------------------

namespace {

/// Source: llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp (LLVM 22). The last column is the live range that
/// wants a register; choosing it evicts nothing.
class EvictionSession final : public AllocationSession {
public:
  // Measured on 313 functions of real C and C++: at most 200 decisions, and 2 more for each instruction,
  // under policies that evict by a linear score, in turn, or always the first live range that they may.
  EvictionSession()
      : AllocationSession("eviction", TensorSpec::createSpec<int64_t>("index_to_evict", {1}), {1000, 10}) {}

private:
  Error learnFeatures(const std::vector<TensorSpec> &Specs) override {
    std::optional<size_t> MaskIndex = indexOf(Specs, "mask");
    if (!MaskIndex || !Specs[*MaskIndex].isElementType<int64_t>())
      return failure("this compiler sends no mask");
    Mask = *MaskIndex;
    Columns = Specs[Mask].getElementCount();
    auto Floats = [&](StringRef Name) -> std::optional<size_t> {
      std::optional<size_t> Index = indexOf(Specs, Name);
      return Index && Specs[*Index].isElementType<float>() && Specs[*Index].getElementCount() == Columns
                 ? Index
                 : std::nullopt;
    };
    Urgent = Floats("nr_urgent");
    BrokenHints = Floats("nr_broken_hints");
    Weight = Floats("use_def_density");
    return Error::success();
  }

  double read(const void *Output) const override {
    return static_cast<double>(*static_cast<const int64_t *>(Output));
  }

  const char *check(double Advice, const std::vector<const void *> &Features) const override {
    // LLVM indexes its candidates with the answer unchecked.
    if (!(Advice >= 0 && Advice < static_cast<double>(Columns)))
      return "the answer is no column";
    return allowed(Features)[static_cast<size_t>(Advice)] ? nullptr
                                                          : "the answer is a column that the mask forbids";
  }

  /// The order of LLVM's EvictionCost, on the features: fewest urgent evictions, then broken hints, then the
  /// lightest. The candidate itself stays out when nothing lighter than it is there.
  double standIn(const std::vector<const void *> &Features) const override {
    const int64_t *Allowed = allowed(Features);
    auto Cost = [&](size_t Column) {
      auto At = [&](std::optional<size_t> Index) {
        return Index ? static_cast<const float *>(Features[*Index])[Column] : 0.0f;
      };
      return std::make_tuple(At(Urgent), At(BrokenHints), At(Weight));
    };
    const size_t Candidate = Columns - 1;
    std::optional<size_t> Best;
    for (size_t Column = 0; Column < Candidate; ++Column)
      if (Allowed[Column] && (!Best || Cost(Column) < Cost(*Best)))
        Best = Column;
    if (!Best)
      return static_cast<double>(Candidate);
    if (!Allowed[Candidate])
      return static_cast<double>(*Best);
    bool Lighter = std::get<1>(Cost(*Best)) == 0 && std::get<2>(Cost(*Best)) < std::get<2>(Cost(Candidate));
    return static_cast<double>(Lighter ? *Best : Candidate);
  }

  void *store(double Advice) override {
    Answer = static_cast<int64_t>(Advice);
    return &Answer;
  }

  const int64_t *allowed(const std::vector<const void *> &Features) const {
    return static_cast<const int64_t *>(Features[Mask]);
  }

  size_t Mask = 0, Columns = 0;
  std::optional<size_t> Urgent, BrokenHints, Weight;
  int64_t Answer = 0;
};

/// Source: llvm/lib/CodeGen/MLRegAllocPriorityAdvisor.cpp (LLVM 22).
class PrioritySession final : public AllocationSession {
public:
  // Whoever evicts makes most of these decisions: each eviction queues a live range again.
  PrioritySession()
      : AllocationSession("priority", TensorSpec::createSpec<float>("priority", {1}), {10000, 20}) {}

private:
  Error learnFeatures(const std::vector<TensorSpec> &Specs) override {
    Size = indexOf(Specs, "li_size");
    if (Size && !Specs[*Size].isElementType<int64_t>())
      Size.reset();
    return Error::success();
  }

  double read(const void *Output) const override { return *static_cast<const float *>(Output); }

  const char *check(double Advice, const std::vector<const void *> &) const override {
    // LLVM converts the answer to an unsigned of 32 bits.
    return Advice >= 0 && Advice < 4294967296.0 ? nullptr : "the answer is no priority in [0, 2^32)";
  }

  /// Large live ranges first, as LLVM allocates global ones.
  double standIn(const std::vector<const void *> &Features) const override {
    return Size ? static_cast<double>(*static_cast<const int64_t *>(Features[*Size])) : 0;
  }

  void *store(double Advice) override {
    Answer = static_cast<float>(Advice);
    return &Answer;
  }

  std::optional<size_t> Size;
  float Answer = 0;
};

} // namespace

std::unique_ptr<AllocationSession> makeSession(StringRef Problem) {
  if (Problem == "eviction")
    return std::make_unique<EvictionSession>();
  return std::make_unique<PrioritySession>();
}

} // namespace mlgo
