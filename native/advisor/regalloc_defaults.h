// LLVM's own eviction and priority advisors, for functions that a policy must not decide any more.
#pragma once

namespace mlgo {

/// True when this thread's policy for the problem has failed.
using HasFailed = bool (*)();

/// From here on, a function whose policy has failed gets LLVM's default advisor: the function that makes the
/// ML advisor is replaced by one that asks `HasFailed` afterwards. False where this LLVM's headers do not
/// offer the default advisors (before 22), or the vtable is not as expected; then a failed policy is replaced
/// decision by decision.
bool letDefaultEvictionIn(HasFailed Failed);
bool letDefaultPriorityIn(HasFailed Failed);

} // namespace mlgo
