// The policies and overrides that the options name, loaded once per compile.
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

/// True when overrides are named and are about this problem.
bool overridesAreFor(llvm::StringRef Problem);

/// The overrides that are about this problem; null when there are none.
llvm::Expected<const Overrides *> fixedDecisions(llvm::StringRef Problem);

} // namespace mlgo
