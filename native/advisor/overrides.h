// Decisions that were fixed beforehand, e.g. by a search.
#pragma once

#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace mlgo {

/// Advice by decision key.
///
/// The file is text: a key of 16 hexadecimal digits, a blank and the advice on each line (0 or 1 for
/// inlining, the index for eviction, a number for priority); `#` starts a comment.
class Overrides {
public:
  static llvm::Expected<Overrides> read(const std::string &Path);

  std::optional<double> find(uint64_t Key) const {
    auto Found = Advice.find(Key);
    return Found == Advice.end() ? std::nullopt : std::optional<double>(Found->second);
  }
  size_t size() const { return Advice.size(); }

private:
  std::unordered_map<uint64_t, double> Advice;
};

} // namespace mlgo
