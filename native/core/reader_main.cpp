// mlgo-ir-reader: reads modules in a process of its own, so that one that LLVM cannot stand costs only this
// process.
//
// A request on stdin and an answer on stdout are lists of byte strings: a 64-bit count, then for each a
// 64-bit length and the bytes. A request is a verb, the module's name, its bytes (empty: read the file of
// that name) and options `key=value`. The answer is `ok` and the serialized walk, or `error` and a text. The
// process ends when stdin does.
#include "ir_walk.h"
#include "mir_walk.h"
#include "read_error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <unistd.h>

using namespace mlgo;

namespace {

/// False at the end of the stream.
bool readExactly(void *Into, size_t Bytes) {
  auto *To = static_cast<char *>(Into);
  while (Bytes) {
    ssize_t Count = read(STDIN_FILENO, To, Bytes);
    if (Count < 0 && errno == EINTR)
      continue;
    if (Count <= 0)
      return false;
    To += Count;
    Bytes -= static_cast<size_t>(Count);
  }
  return true;
}

bool readList(std::vector<std::string> &List) {
  uint64_t Count = 0;
  if (!readExactly(&Count, sizeof(Count)))
    return false;
  List.assign(Count, "");
  for (std::string &Each : List) {
    uint64_t Bytes = 0;
    if (!readExactly(&Bytes, sizeof(Bytes)))
      return false;
    Each.resize(Bytes);
    if (!readExactly(Each.data(), Bytes))
      return false;
  }
  return true;
}

bool writeExactly(int To, const void *From, size_t Bytes) {
  const auto *Data = static_cast<const char *>(From);
  while (Bytes) {
    ssize_t Count = write(To, Data, Bytes);
    if (Count < 0 && errno == EINTR)
      continue;
    if (Count <= 0)
      return false;
    Data += Count;
    Bytes -= static_cast<size_t>(Count);
  }
  return true;
}

bool writeList(int To, const std::vector<std::string> &List) {
  uint64_t Count = List.size();
  if (!writeExactly(To, &Count, sizeof(Count)))
    return false;
  for (const std::string &Each : List) {
    uint64_t Bytes = Each.size();
    if (!writeExactly(To, &Bytes, sizeof(Bytes)) || !writeExactly(To, Each.data(), Bytes))
      return false;
  }
  return true;
}

std::string readFile(const std::string &Path) {
  std::ifstream Stream(Path, std::ios::binary);
  if (!Stream)
    throw ReadError(Path + ": " + std::strerror(errno));
  return {std::istreambuf_iterator<char>(Stream), std::istreambuf_iterator<char>()};
}

/// The value of option `Key`, or `Default`.
std::string option(const std::vector<std::string> &Request, const std::string &Key,
                   const std::string &Default) {
  for (size_t I = 3; I < Request.size(); ++I)
    if (Request[I].compare(0, Key.size() + 1, Key + "=") == 0)
      return Request[I].substr(Key.size() + 1);
  return Default;
}

Walk walk(const std::vector<std::string> &Request) {
  if (Request.size() < 3)
    throw ReadError("a request has a verb, a name and bytes");
  const std::string &Verb = Request[0], &Name = Request[1];
  std::string FromFile;
  if (Request[2].empty())
    FromFile = readFile(Name);
  const std::string &Data = Request[2].empty() ? FromFile : Request[2];
  SetOptions Sets{option(Request, "loops", "0") == "1", option(Request, "regions", "0") == "1"};
  if (Verb == "ir")
    return walkIR(Data, Name, {option(Request, "definitions", "1") == "1", Sets});
  MIRWalkOptions Options;
  Options.Sets = Sets;
  if (Verb == "mir")
    return walkMIR(Data, Name, Options);
  if (Verb == "ir-as-mir") {
    Options.StopAfter = option(Request, "stop-after", Options.StopAfter);
    Options.OptLevel = static_cast<unsigned>(std::stoul(option(Request, "opt-level", "2")));
    return walkIRAsMIR(Data, Name, Options);
  }
  throw ReadError("unknown verb '" + Verb + "'");
}

} // namespace

int main() {
  // Answers go to a private descriptor: what LLVM prints to stdout must not mix with them.
  int Answers = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  std::vector<std::string> Request;
  while (readList(Request)) {
    std::vector<std::string> Answer;
    try {
      Answer = {"ok", walk(Request).serialize()};
    } catch (const std::exception &Problem) {
      Answer = {"error", Problem.what()};
    }
    if (!writeList(Answers, Answer))
      return 1;
  }
  return 0;
}
