#include "options.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CommandLine.h"

#include <cstdlib>

using namespace llvm;

static cl::list<std::string> PolicyOption("mlgo-policy",
                                          cl::desc("Compiled policy that advises this compile"),
                                          cl::value_desc("file"), cl::Hidden);
static cl::opt<std::string> OverridesOption("mlgo-overrides",
                                            cl::desc("Decisions by key that beat every policy"),
                                            cl::value_desc("file"), cl::Hidden);
static cl::opt<std::string> LogOption("mlgo-log", cl::desc("Folder for training logs"),
                                      cl::value_desc("folder"), cl::Hidden);
static cl::list<std::string>
    ProblemsOption("mlgo-problems", cl::CommaSeparated, cl::Hidden,
                   cl::desc("What log and overrides are about: inlining (the default), eviction, priority"));
static cl::opt<std::string> ReportOption("mlgo-report", cl::desc("File to append what was done to"),
                                         cl::value_desc("file"), cl::Hidden);

namespace mlgo {

static std::string textOf(const cl::opt<std::string> &Option, const char *Variable) {
  if (Option.getNumOccurrences())
    return Option;
  const char *Value = std::getenv(Variable);
  return Value ? Value : "";
}

static std::vector<std::string> listOf(const cl::list<std::string> &Option, const char *Variable,
                                       char Separator) {
  if (Option.getNumOccurrences())
    return std::vector<std::string>(Option.begin(), Option.end());
  const char *Value = std::getenv(Variable);
  SmallVector<StringRef, 4> Parts;
  StringRef(Value ? Value : "").split(Parts, Separator, /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  return std::vector<std::string>(Parts.begin(), Parts.end());
}

static AdvisorOptions readOptions() {
  AdvisorOptions Options;
  Options.Policies = listOf(PolicyOption, "PYMLGO_POLICY", ':');
  Options.Overrides = textOf(OverridesOption, "PYMLGO_OVERRIDES");
  Options.LogFolder = textOf(LogOption, "PYMLGO_LOG");
  Options.Problems = listOf(ProblemsOption, "PYMLGO_PROBLEMS", ',');
  if (Options.Problems.empty())
    Options.Problems = {"inlining"};
  Options.Report = textOf(ReportOption, "PYMLGO_REPORT");
  return Options;
}

const AdvisorOptions &advisorOptions() {
  static const AdvisorOptions Options = readOptions();
  return Options;
}

} // namespace mlgo
