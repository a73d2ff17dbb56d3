// The program `mlgo`. A build starts `mlgo clang` once for each file, and Python's start would cost more than
// all that is done here; so a command that Python prepared before is run by this program alone.
#include "advised_run.h"
#include "known_command.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <unistd.h>

using namespace mlgo;

/// The same command line in Python, by the script that pip put beside this program.
static int goOnInPython(const Words &Arguments) {
  char Self[PATH_MAX];
  ssize_t Size = ::readlink("/proc/self/exe", Self, sizeof Self);
  std::string Script(Self, std::max<ssize_t>(Size, 0));
  Script = Script.substr(0, Script.rfind('/') + 1) + "mlgo-python";
  Words Command = {Script};
  Command.insert(Command.end(), Arguments.begin(), Arguments.end());
  int Code = become(Command);
  std::fprintf(stderr, "hint: install pymlgo again\n");
  return Code;
}

/// `mlgo --advised WORD… -- ARGUMENT…`, which Python becomes when it has made a deployment.
static int runDeployed(const Words &Rest) {
  auto Split = std::find(Rest.begin(), Rest.end(), "--");
  if (Split == Rest.begin() || Split == Rest.end()) {
    std::fprintf(stderr, "error: no compiler is named\nhint: mlgo clang --policy P -- -Oz -c x.c\n");
    return 2;
  }
  return runAdvised(Words(Rest.begin(), Split), Words(Split + 1, Rest.end()));
}

static int runKnown(const KnownCommand &Known, const Words &Arguments) {
  if (Known.Say.empty())
    return runAdvised(Known.First, Arguments);
  std::fprintf(stderr, "%s\n", Known.Say.c_str());
  Words Whole = Known.First;
  Whole.insert(Whole.end(), Arguments.begin(), Arguments.end());
  return become(Whole);
}

int main(int Count, char **Given) {
  const Words Arguments(Given + std::min(Count, 1), Given + Count);
  const std::string Verb = Arguments.empty() ? "" : Arguments[0];
  if (Verb == "--advised")
    return runDeployed(Words(Arguments.begin() + 1, Arguments.end()));
  if (Verb == "clang")
    if (std::optional<WrapperCall> Call = parseCall(Words(Arguments.begin() + 1, Arguments.end())))
      if (std::optional<KnownCommand> Known = knownCommand(*Call))
        return runKnown(*Known, Call->Arguments);
  return goOnInPython(Arguments);
}
