// An interactive channel that leads nowhere.
#pragma once

#include <optional>
#include <string>

namespace mlgo {

/// A base path whose `.in` and `.out` are /dev/null, in a temporary folder that goes with the process; none
/// when there is no room for it.
std::optional<std::string> nullChannel();

} // namespace mlgo
