// What every reader throws.
#pragma once

#include <stdexcept>

namespace mlgo {

/// A module, an option or a serialized walk that cannot be used; the text says what and where.
struct ReadError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

} // namespace mlgo
