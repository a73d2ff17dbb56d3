// One thread's answers about one problem of register allocation.
#pragma once

#include "binding.h"
#include "compiled_policy.h"
#include "log_file.h"
#include "overrides.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Analysis/MLModelRunner.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mlgo {

/// Instructions of this thread's module by function, and the module's name.
struct ModuleOfThread {
  std::string Name;
  llvm::StringMap<unsigned> Instructions;
  unsigned Generation = 0; ///< counts modules: a failed policy gets its next chance with the next one
};
ModuleOfThread &moduleOfThread();

/// More decisions than these in a function go in circles: live ranges that evict each other again and again,
/// each of them -mlregalloc-max-eviction-count times before LLVM itself stops it.
struct DecisionLimit {
  uint64_t Few, PerInstruction;
};

/// Eviction or priority, for one thread: the policy's instance, what was decided in the function at hand, the
/// log.
class AllocationSession {
public:
  virtual ~AllocationSession();
  AllocationSession(const AllocationSession &) = delete;
  AllocationSession &operator=(const AllocationSession &) = delete;

  /// True when the policy must not decide any more in this module.
  bool hasFailed() const { return Failed; }
  /// LLVM's default takes over from the function after a failure; without it a stand-in decides on.
  void expectDefaults() { DefaultsFollow = true; }

  void startFunction(llvm::StringRef Name, const std::vector<llvm::TensorSpec> &Specs);
  /// Where the answer to the features in `Runner` lies until the next call.
  void *answer(llvm::MLModelRunner &Runner);
  /// Writes what the function gave: a report line, the log's observations with their outcomes.
  void endFunction(llvm::function_ref<float()> Score);

protected:
  AllocationSession(llvm::StringRef Problem, llvm::TensorSpec Decision, DecisionLimit Limit);

  /// Called once, with the features' specs. Fails when a feature that is needed is not there.
  virtual llvm::Error learnFeatures(const std::vector<llvm::TensorSpec> &Specs) = 0;
  /// What `Output` of the policy says, or what an override says.
  virtual double read(const void *Output) const = 0;
  /// Null when the compiler may get this advice, else what is wrong with it.
  virtual const char *check(double Advice, const std::vector<const void *> &Features) const = 0;
  /// Advice in LLVM's spirit from the features at hand.
  virtual double standIn(const std::vector<const void *> &Features) const = 0;
  virtual void *store(double Advice) = 0;

  static std::optional<size_t> indexOf(const std::vector<llvm::TensorSpec> &Specs, llvm::StringRef Name);

private:
  enum class Source { Policy, Override, StandIn };
  struct FunctionCounts {
    uint64_t Decisions = 0, ByPolicy = 0, ByOverride = 0, ByStandIn = 0, PolicyNs = 0;
  };

  void forgetFunction();
  void prepare(const std::vector<llvm::TensorSpec> &Specs);
  llvm::Error preparePolicy(const std::vector<llvm::TensorSpec> &Specs);
  std::pair<double, Source> decide(uint64_t Key);
  std::optional<double> askPolicy();
  void fail(llvm::StringRef Reason, llvm::StringRef Consequence);
  bool isTooMany() const;
  void count(Source From);
  void remember(uint64_t Key, double Advice);
  void writeObservations(llvm::function_ref<float()> Score);

  const llvm::StringRef Problem;
  const llvm::TensorSpec Decision;
  const DecisionLimit Limit;
  bool Prepared = false, Failed = false, WatchdogBit = false, DefaultsFollow = false;
  unsigned Generation = 0;
  std::unique_ptr<PolicyInstance> Policy;
  Binding Inputs;
  const Overrides *Fixed = nullptr;
  std::vector<llvm::TensorSpec> FeatureSpecs;
  std::vector<const void *> Features;

  std::string Function;
  FunctionCounts Counts;

  std::unique_ptr<LogFile> Log;
  std::string Observations; ///< tensors of the function at hand, one observation after the other
  std::vector<uint64_t> Keys;
};

/// A session for "eviction" or "priority".
std::unique_ptr<AllocationSession> makeSession(llvm::StringRef Problem);

} // namespace mlgo
