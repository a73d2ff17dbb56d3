#include "log_file.h"

#include "options.h"
#include "report.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"

#include <atomic>
#include <unistd.h>

using namespace llvm;

namespace mlgo {

bool logIsWanted(StringRef Problem) {
  const AdvisorOptions &Options = advisorOptions();
  return !Options.LogFolder.empty() && is_contained(Options.Problems, Problem.str());
}

std::unique_ptr<LogFile> LogFile::create(StringRef Problem, StringRef Module,
                                         const std::vector<TensorSpec> &Features,
                                         const std::optional<TensorSpec> &Score) {
  static std::atomic<unsigned> Count{0};
  std::string Stem = advisorOptions().LogFolder + "/" + Problem.str() + "-" + utostr(::getpid()) + "-" +
                     utostr(Count.fetch_add(1));
  std::error_code LogFailed, DecisionsFailed;
  auto Stream = std::make_unique<raw_fd_ostream>(Stem + ".log", LogFailed);
  auto Decisions = std::make_unique<raw_fd_ostream>(Stem + ".decisions", DecisionsFailed);
  if (LogFailed || DecisionsFailed) {
    warnOnce("no log is written to " + Stem + ".log: " + (LogFailed ? LogFailed : DecisionsFailed).message());
    return nullptr;
  }
  std::unique_ptr<LogFile> Result(new LogFile());
  // The score's spec is not read when none is included.
  TensorSpec Reward = Score.value_or(Features.front());
  Result->Log = std::make_unique<Logger>(std::move(Stream), Features, Reward, Score.has_value());
  Result->Decisions = std::move(Decisions);
  reportLine(json::Object{
      {"event", "log"}, {"problem", Problem}, {"module", printable(Module)}, {"file", Stem + ".log"}});
  return Result;
}

void LogFile::context(StringRef Name) { Log->switchContext(Name); }

void LogFile::observation(const std::vector<const void *> &Tensors, uint64_t Key, StringRef Caller,
                          StringRef Callee) {
  Log->startObservation();
  for (const auto &[Index, Data] : enumerate(Tensors))
    Log->logTensorValue(Index, static_cast<const char *>(Data));
  Log->endObservation();
  json::Object Line{{"caller", printable(Caller)}, {"callee", printable(Callee)}};
  Line["key"] = utohexstr(Key, /*LowerCase=*/true, /*Width=*/16);
  *Decisions << json::Value(std::move(Line)) << "\n";
}

void LogFile::flush() {
  Log->flush();
  Decisions->flush();
}

} // namespace mlgo
