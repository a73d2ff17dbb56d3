// Features of a call site that LLVM's own advisor does not compute: linkage, uses, attributes, history, size.
//
// They are bound by name, as LLVM's are; the table below is the one place of these names. No plugin entry
// point is needed to use this file: the in-process engine shares it.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Analysis/TensorSpec.h"
#include "llvm/IR/PassManager.h"

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace llvm {
class CallBase;
class Function;
} // namespace llvm

namespace mlgo {

// Name, meaning. Every one is int64[1]. The order is that of recorded logs.
#define MLGO_EXTENSION_FEATURES(M)                                                                           \
  M(callee_instruction_count, "instructions of the callee")                                                  \
  M(caller_instruction_count, "instructions of the caller")                                                  \
  M(callee_is_local, "1: the callee has local linkage")                                                      \
  M(callee_is_discardable, "1: the callee may be dropped once it is unused")                                 \
  M(caller_is_local, "1: the caller has local linkage")                                                      \
  M(caller_is_discardable, "1: the caller may be dropped once it is unused")                                 \
  M(argument_count, "arguments of the call")                                                                 \
  M(result_is_used, "1: something uses the call's result")                                                   \
  M(callee_has_one_use, "1: this call is the callee's only use")                                             \
  M(callee_is_removable,                                                                                     \
    "1: inlining all calls removes the callee: it has no other use, is discardable, and no call was "        \
    "rejected so far")                                                                                       \
  M(is_last_call_to_removable, "1: this is the last call of a removable callee")                             \
  M(group_inlining_cost,                                                                                     \
    "instructions added by inlining every call of the callee: call sites * cost_estimate / 5, less "         \
    "the callee's own if it is removable")                                                                   \
  M(callee_call_sites, "direct calls of the callee in the module")                                           \
  M(callee_call_sites_in_caller, "of these, in this caller")                                                 \
  M(callee_other_uses, "uses of the callee that are no direct calls")                                        \
  M(callee_distinct_callers, "functions that call the callee directly")                                      \
  M(callee_has_inline_hint, "1: the callee is marked inlinehint")                                            \
  M(call_is_cold, "1: the callee or the call is marked cold")                                                \
  M(callee_is_nounwind, "1: the callee does not throw")                                                      \
  M(callee_memory_effects, "2: the callee accesses no memory, 1: it only reads, 0: it may write")            \
  M(callee_is_vararg, "1: the callee takes variable arguments")                                              \
  M(callee_in_comdat, "1: the callee is in a COMDAT")                                                        \
  M(caller_in_comdat, "1: the caller is in a COMDAT")                                                        \
  M(callee_is_noreturn, "1: the callee does not return")                                                     \
  M(callee_times_inlined, "decisions so far to inline the callee")                                           \
  M(callee_times_rejected, "decisions so far not to inline the callee")                                      \
  M(inlines_into_caller, "decisions so far to inline into the caller")                                       \
  M(inlines_into_callee, "decisions so far to inline into the callee")                                       \
  M(callee_code_size, "code size of the callee as the target's cost model sees it")

enum class ExtensionFeature : unsigned {
#define MLGO_ENUMERATE(Name, Meaning) Name,
  MLGO_EXTENSION_FEATURES(MLGO_ENUMERATE)
#undef MLGO_ENUMERATE
      Count
};

constexpr unsigned NumExtensionFeatures = static_cast<unsigned>(ExtensionFeature::Count);

using ExtensionValues = std::array<int64_t, NumExtensionFeatures>;
/// The features that somebody wants; the dear ones are only computed when set.
using ExtensionSet = std::bitset<NumExtensionFeatures>;

/// Name, int64, shape [1] of every extension feature, in the table's order.
const std::vector<llvm::TensorSpec> &extensionSpecs();

/// The feature of that name, if it is one.
std::optional<ExtensionFeature> findExtensionFeature(llvm::StringRef Name);

/// What was decided so far in a module.
class InliningHistory {
public:
  struct Counts {
    int64_t Inlined = 0, Rejected = 0, InlinedInto = 0;
  };

  void record(const llvm::Function &Caller, const llvm::Function &Callee, bool Inlined);
  Counts of(const llvm::Function &Function) const;

private:
  // By the hash of the name: inlining deletes functions, and their addresses come back.
  std::unordered_map<uint64_t, Counts> ByName;
};

/// What the advisor knows of a call site beside the IR.
struct CallSiteFacts {
  int64_t CostEstimate;       ///< LLVM's feature cost_estimate
  int64_t CalleeInstructions; ///< MLInlineAdvisor::getIRSize
  int64_t CallerInstructions;
};

/// Fills `Values` for a direct call; features outside `Wanted` may stay 0.
void computeExtensionFeatures(llvm::CallBase &Call, const CallSiteFacts &Facts,
                              const InliningHistory &History, llvm::FunctionAnalysisManager &FAM,
                              const ExtensionSet &Wanted, ExtensionValues &Values);

} // namespace mlgo
