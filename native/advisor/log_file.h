// Training logs in LLVM's format, written by LLVM's own Logger.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Analysis/TensorSpec.h"
#include "llvm/Analysis/Utils/TrainingLogger.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mlgo {

/// True when the user asked for a log of this problem.
bool logIsWanted(llvm::StringRef Problem);

/// One log with its list of decisions.
///
/// `FOLDER/<problem>-<process>-<number>.log` is the log; `….decisions` beside it has a JSON object per
/// observation with the decision's key and the names of caller and callee, in the same order.
class LogFile {
public:
  /// A new log of `Features`; with `Score`, each observation is followed by an outcome. None when it cannot
  /// be written: then a warning was given.
  static std::unique_ptr<LogFile> create(llvm::StringRef Problem, llvm::StringRef Module,
                                         const std::vector<llvm::TensorSpec> &Features,
                                         const std::optional<llvm::TensorSpec> &Score);

  void context(llvm::StringRef Name);
  /// Appends an observation; `Tensors` are as many as the features.
  void observation(const std::vector<const void *> &Tensors, uint64_t Key, llvm::StringRef Caller,
                   llvm::StringRef Callee);
  void outcome(float Score) { Log->logReward(Score); }
  void flush();

private:
  LogFile() = default;

  std::unique_ptr<llvm::Logger> Log;
  std::unique_ptr<llvm::raw_fd_ostream> Decisions;
};

} // namespace mlgo
