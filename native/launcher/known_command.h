// `mlgo clang` commands whose deployment Python made before.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace mlgo {

using Words = std::vector<std::string>;

/// The words after `mlgo clang`: the wrapper's options and, behind `--`, the compiler's arguments.
struct WrapperCall {
  std::string Policy, Overrides, Clang;
  Words Arguments;
};

/// None when the words are not in the short form, and Python has to look: another option, no `--`.
std::optional<WrapperCall> parseCall(const Words &After);

/// What Python found out about a command.
struct KnownCommand {
  Words First;     ///< the first words of the compiler's command
  std::string Say; ///< why there is no advice; empty where there is
};

/// The entry of a call in the cache; none unless every file that it was made from is as it was.
///
/// It is a text file of lines, written by pymlgo/deploy/known_command.py, which has the format and says what
/// names it.
std::optional<KnownCommand> knownCommand(const WrapperCall &Call);

} // namespace mlgo
