// Which tensor of the compiler feeds which input of a policy. By name; types and shapes must agree.
#pragma once

#include "compiled_policy.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace mlgo {

/// For each input of the policy the index into the offered tensors, or -1: the input keeps the policy's own
/// default.
using Binding = std::vector<int>;

/// Binds all inputs of `Policy` to `Offered`.
/// Fails when a name agrees and the type does not, or when an input is not offered and has no default.
llvm::Expected<Binding> bindByName(const CompiledPolicy &Policy, llvm::ArrayRef<llvm::TensorSpec> Offered);

/// Fails unless `Policy` is for `Problem` and decides with one number of type `T`.
template <typename T> llvm::Error checkDecision(const CompiledPolicy &Policy, llvm::StringRef Problem);

} // namespace mlgo
