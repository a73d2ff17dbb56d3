// One run of a compiler that the plugin advises.
#pragma once

#include <string>
#include <vector>

namespace mlgo {

/// Runs `Command` (the compiler, and what loads the plugin) with `Arguments`; the exit code as a shell gives
/// it. Should the compiler crash under advice, it runs again with `Arguments` alone, as if we had not been
/// here.
int runAdvised(const std::vector<std::string> &Command, const std::vector<std::string> &Arguments);

/// The process becomes another program. Returns only when that fails, with a shell's exit code for it.
int become(const std::vector<std::string> &Command);

} // namespace mlgo
