// What the user asked the plugin for.
#pragma once

#include <string>
#include <vector>

namespace mlgo {

/// Three places, the first that speaks wins: LLVM's options; the environment, for linkers that parse options
/// before they load plugins; and the file `mlgo.options` beside the plugin, which makes one flag enough (the
/// assembler, too, is given all -mllvm options and knows none of ours).
///
/// | -mllvm           | environment                 | file            | meaning |
/// |------------------|-----------------------------|-----------------|---------|
/// | -mlgo-policy     | PYMLGO_POLICY (`:` between) | policy=FILE     | a compiled policy; it knows its
/// problem | | -mlgo-overrides  | PYMLGO_OVERRIDES            | overrides=FILE  | decisions by key, see
/// overrides.h | | -mlgo-log        | PYMLGO_LOG                  | log=FOLDER      | write training logs
/// there | | -mlgo-problems   | PYMLGO_PROBLEMS             | problems=LIST   | what log and overrides are
/// about | | -mlgo-report     | PYMLGO_REPORT               | report=FILE     | append what was done, in JSON
/// lines | | -mlgo-vocabulary | PYMLGO_VOCABULARY           | vocabulary=FILE | of IR2Vec, for policies with
/// embeddings |
///
/// The file has a `name=value` on each line; a policy may stand there several times, and paths are relative
/// to its folder.
struct AdvisorOptions {
  std::vector<std::string> Policies;
  std::string Overrides, LogFolder, Report, Vocabulary;
  std::vector<std::string> Problems;
};

/// The options of this compile. An option beats the environment's variable.
const AdvisorOptions &advisorOptions();

} // namespace mlgo
