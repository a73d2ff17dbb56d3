#include "report.h"

#include "options.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <fcntl.h>
#include <mutex>
#include <unistd.h>

using namespace llvm;

namespace mlgo {

bool reportIsWanted() { return !advisorOptions().Report.empty(); }

std::string printable(StringRef Text) { return json::isUTF8(Text) ? Text.str() : json::fixUTF8(Text); }

// The handler may only use what needs no lock and no memory.
static int ReportFile = -1;

static int openReport() {
  const std::string &Path = advisorOptions().Report;
  int File = ::open(Path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (File < 0)
    warnOnce("the report " + Path + " cannot be written");
  return File;
}

void reportLine(json::Object Line) {
  if (!reportIsWanted())
    return;
  static const int File = ReportFile = openReport();
  std::string Text;
  raw_string_ostream Stream(Text);
  Stream << json::Value(std::move(Line)) << "\n";
  Stream.flush();
  if (File >= 0 && ::write(File, Text.data(), Text.size()) != static_cast<ssize_t>(Text.size()))
    warnOnce("the report could not be written whole");
}

void reportCrashes() {
  if (!reportIsWanted())
    return;
  sys::AddSignalHandler(
      [](void *) {
        static constexpr StringRef Line = "{\"event\":\"crash\"}\n";
        // Nothing can be done about a failure here.
        if (ReportFile >= 0 && ::write(ReportFile, Line.data(), Line.size()) < 0)
          return;
      },
      nullptr);
}

void warnOnce(StringRef Text) {
  static std::mutex Guard;
  static StringSet<> Told;
  std::lock_guard<std::mutex> Lock(Guard);
  if (Told.insert(Text).second)
    errs() << "warning: mlgo: " << Text << "\n";
}

void reportFallback(StringRef Problem, StringRef Module, StringRef Reason, StringRef Consequence) {
  warnOnce((Problem + ": " + Reason + "; " + Consequence).str());
  reportLine(json::Object{{"event", "fallback"},
                          {"problem", Problem},
                          {"module", printable(Module)},
                          {"reason", printable(Reason)}});
}

uint64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace mlgo
