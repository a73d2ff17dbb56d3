// Names of decisions that stay the same from one compile of a module to the next.
#pragma once

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace mlgo {

/// llvm::MD5Hash over `Caller NUL Callee NUL Occurrence`, the number in decimal; `decision_key` of
/// rollout/keys.py is the same.
///
/// Inlining: the names of the two functions, and how many decisions about this pair came before in this
/// module. Register allocation: the function's name, the problem's name, and how many decisions in this
/// function came before. The form is fixed: override files and recorded decisions carry these keys.
uint64_t decisionKey(llvm::StringRef Caller, llvm::StringRef Callee, uint32_t Occurrence);

/// Counts how often each pair of names was asked about.
class OccurrenceCounter {
public:
  /// The key of the next decision about the pair.
  uint64_t next(llvm::StringRef Caller, llvm::StringRef Callee);

private:
  llvm::StringMap<uint32_t> Seen;
};

} // namespace mlgo
