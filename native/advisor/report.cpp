#include "report.h"

#include "options.h"
#include "per_compile.h"

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

namespace {
struct OpenReport {
  OpenReport() : File(::open(path().c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)) {
    if (File < 0)
      warnOnce("the report " + path() + " cannot be written");
    ReportFile = File;
  }
  OpenReport(const OpenReport &) = delete;
  ~OpenReport() {
    ReportFile = -1;
    if (File >= 0)
      ::close(File);
  }

  static const std::string &path() { return advisorOptions().Report; }

  const int File;
};
} // namespace

void reportLine(json::Object Line) {
  if (!reportIsWanted())
    return;
  static PerCompile<std::unique_ptr<OpenReport>> Report([] { return std::make_unique<OpenReport>(); });
  const int File = Report.get()->File;
  std::string Text;
  raw_string_ostream Stream(Text);
  Stream << json::Value(std::move(Line)) << "\n";
  Stream.flush();
  if (File >= 0 && ::write(File, Text.data(), Text.size()) != static_cast<ssize_t>(Text.size()))
    warnOnce("the report could not be written whole");
}

static void reportCrash(void *) {
  static constexpr StringRef Line = "{\"event\":\"crash\"}\n";
  // Nothing can be done about a failure here.
  if (ReportFile >= 0 && ::write(ReportFile, Line.data(), Line.size()) < 0)
    return;
}

void reportCrashes() {
  static std::once_flag Added; // LLVM has room for eight handlers
  if (reportIsWanted())
    std::call_once(Added, [] { sys::AddSignalHandler(reportCrash, nullptr); });
}

void warnOnce(StringRef Text) {
  static std::mutex Guard;
  static PerCompile<StringSet<>> Told([] { return StringSet<>(); });
  std::lock_guard<std::mutex> Lock(Guard);
  if (Told.get().insert(Text).second)
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
