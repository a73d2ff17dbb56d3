#include "options.h"

#include "per_compile.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/LineIterator.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <cstdlib>
#include <dlfcn.h>

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
static cl::opt<std::string> VocabularyOption("mlgo-vocabulary",
                                             cl::desc("IR2Vec vocabulary for policies with embeddings"),
                                             cl::value_desc("file"), cl::Hidden);

namespace mlgo {

/// `mlgo.options` beside the plugin: values by name.
using OptionsFile = StringMap<std::vector<std::string>>;

static std::string pluginFolder() {
  Dl_info Info;
  if (!::dladdr(reinterpret_cast<void *>(&pluginFolder), &Info) || !Info.dli_fname)
    return "";
  return sys::path::parent_path(Info.dli_fname).str();
}

static OptionsFile readFile() {
  OptionsFile Result;
  const std::string Folder = pluginFolder();
  ErrorOr<std::unique_ptr<MemoryBuffer>> Text =
      MemoryBuffer::getFile(Folder + "/mlgo.options", /*IsText=*/true);
  if (!Text)
    return Result;
  for (line_iterator Line(**Text, /*SkipBlanks=*/true, '#'); !Line.is_at_end(); ++Line) {
    auto [Name, Value] = Line->trim().split('=');
    bool IsPath = Name != "problems" && !sys::path::is_absolute(Value);
    Result[Name].push_back(IsPath ? Folder + "/" + Value.str() : Value.str());
  }
  return Result;
}

static std::vector<std::string> fromEnvironment(const char *Variable, char Separator) {
  const char *Value = std::getenv(Variable);
  SmallVector<StringRef, 4> Parts;
  StringRef(Value ? Value : "").split(Parts, Separator, /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  return std::vector<std::string>(Parts.begin(), Parts.end());
}

static std::vector<std::string> listOf(const cl::list<std::string> &Option, const char *Variable,
                                       char Separator, const std::vector<std::string> &InFile) {
  if (Option.getNumOccurrences())
    return std::vector<std::string>(Option.begin(), Option.end());
  std::vector<std::string> Values = fromEnvironment(Variable, Separator);
  return Values.empty() ? InFile : Values;
}

static std::string textOf(const cl::opt<std::string> &Option, const char *Variable,
                          const std::vector<std::string> &InFile) {
  if (Option.getNumOccurrences())
    return Option;
  if (const char *Value = std::getenv(Variable))
    return Value;
  return InFile.empty() ? "" : InFile.back();
}

static AdvisorOptions readOptions() {
  OptionsFile File = readFile();
  AdvisorOptions Options;
  Options.Policies = listOf(PolicyOption, "PYMLGO_POLICY", ':', File["policy"]);
  Options.Overrides = textOf(OverridesOption, "PYMLGO_OVERRIDES", File["overrides"]);
  Options.LogFolder = textOf(LogOption, "PYMLGO_LOG", File["log"]);
  Options.Problems = listOf(ProblemsOption, "PYMLGO_PROBLEMS", ',', File["problems"]);
  if (Options.Problems.empty())
    Options.Problems = {"inlining"};
  Options.Report = textOf(ReportOption, "PYMLGO_REPORT", File["report"]);
  Options.Vocabulary = textOf(VocabularyOption, "PYMLGO_VOCABULARY", File["vocabulary"]);
  return Options;
}

const AdvisorOptions &advisorOptions() {
  static PerCompile<AdvisorOptions> Options(readOptions);
  return Options.get();
}

} // namespace mlgo
