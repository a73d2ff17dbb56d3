// The policies and overrides that the options name, loaded once per process.
#pragma once

#include "compiled_policy.h"
#include "overrides.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace mlgo {

/// What the options say about one problem.
struct PolicyChoice {
  const CompiledPolicy *Policy = nullptr;
  /// A policy was named and cannot be used. One that does not load might have been for any problem, so it
  /// counts for inlining, where every compile comes by.
  std::optional<std::string> Broken;

  bool isNamed() const { return Policy || Broken; }
};

const PolicyChoice &policyFor(llvm::StringRef Problem);

/// The overrides of this process; null when none are named.
llvm::Expected<const Overrides *> fixedDecisions();

} // namespace mlgo
