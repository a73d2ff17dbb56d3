// What the user asked the plugin for: clang's -mllvm options, or the environment where a linker parses
// options before it loads plugins.
#pragma once

#include <string>
#include <vector>

namespace mlgo {

/// | option                  | environment               | meaning |
/// |-------------------------|---------------------------|--------------------------------------------------------------|
/// | -mlgo-policy=FILE       | PYMLGO_POLICY (`:` between) | a compiled policy; its problem says which one it
/// serves    | | -mlgo-overrides=FILE    | PYMLGO_OVERRIDES          | decisions by key, see overrides.h | |
/// -mlgo-log=FOLDER        | PYMLGO_LOG                | write training logs there | |
/// -mlgo-problems=LIST     | PYMLGO_PROBLEMS       | what log and overrides are about: `inlining`,
/// `eviction`, `priority` | | -mlgo-report=FILE       | PYMLGO_REPORT             | append what was done, a
/// JSON object on each line |
struct AdvisorOptions {
  std::vector<std::string> Policies;
  std::string Overrides, LogFolder, Report;
  std::vector<std::string> Problems;
};

/// The options of this process. An option beats the environment's variable.
const AdvisorOptions &advisorOptions();

} // namespace mlgo
