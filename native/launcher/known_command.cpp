#include "known_command.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mlgo {

static bool startsWith(const std::string &Text, const std::string &Start) {
  return Text.compare(0, Start.size(), Start) == 0;
}

std::optional<WrapperCall> parseCall(const Words &After) {
  WrapperCall Call;
  const std::pair<std::string, std::string *> Valued[] = {
      {"--policy", &Call.Policy}, {"--overrides", &Call.Overrides}, {"--clang", &Call.Clang}};
  for (size_t At = 0; At < After.size(); ++At) {
    if (After[At] == "--") {
      Call.Arguments.assign(After.begin() + At + 1, After.end());
      return Call;
    }
    bool Known = false;
    for (const auto &[Name, Value] : Valued) {
      if (After[At] == Name && At + 1 < After.size())
        *Value = After[++At];
      else if (startsWith(After[At], Name + "="))
        *Value = After[At].substr(Name.size() + 1);
      else
        continue;
      Known = true;
      break;
    }
    if (!Known)
      return std::nullopt;
  }
  return std::nullopt;
}

static std::string environment(const char *Name) {
  const char *Value = std::getenv(Name);
  return Value ? Value : "";
}

/// What is there by this path, made absolute; a word that names no file as it is.
static std::string located(const std::string &Path) {
  if (Path.empty() || Path[0] == '/' || ::access(Path.c_str(), F_OK) != 0)
    return Path;
  char *Here = ::getcwd(nullptr, 0);
  std::string Result = std::string(Here ? Here : "") + "/" + Path;
  std::free(Here);
  return Result;
}

/// The last optimization level: where no policy is named, it decides which one of the package's is meant.
static std::string levelOf(const Words &Arguments) {
  std::string Level;
  for (const std::string &Word : Arguments)
    if (startsWith(Word, "-O"))
      Level = Word;
  return Level;
}

static std::string keyOf(const WrapperCall &Call) {
  std::string Policy = Call.Policy.empty() ? environment("PYMLGO_CLANG_POLICY") : Call.Policy;
  std::string Clang = Call.Clang.empty() ? environment("PYMLGO_CLANG") : Call.Clang;
  if (Policy.empty() && Call.Overrides.empty())
    Policy = levelOf(Call.Arguments);
  std::string Key = located(Policy) + "\t" + located(Call.Overrides) + "\t" + Clang;
  // What decides which clang is found, and which plugin.
  for (const char *Name : {"PATH", "PYMLGO_LLVM_DIR", "PYMLGO_PLUGIN_DIR"})
    Key += "\t" + environment(Name);
  return Key;
}

static std::string entryFile(const std::string &Key) {
  uint64_t Hash = 0xcbf29ce484222325; // FNV-1a; the entry's first line is the key itself
  for (unsigned char Byte : Key)
    Hash = (Hash ^ Byte) * 0x100000001b3;
  std::string Root = environment("XDG_CACHE_HOME");
  if (Root.empty() || Root[0] != '/')
    Root = environment("HOME") + "/.cache";
  char Name[17];
  std::snprintf(Name, sizeof Name, "%016" PRIx64, Hash);
  return Root + "/pymlgo/wrapper/" + Name;
}

/// Device, inode, size and time of change: what tells one content of a file from another.
static std::string stampOf(const char *Path) {
  struct stat Status;
  if (::stat(Path, &Status) != 0)
    return "";
  char Text[96];
  std::snprintf(Text, sizeof Text, "%ju:%ju:%jd:%jd", static_cast<uintmax_t>(Status.st_dev),
                static_cast<uintmax_t>(Status.st_ino), static_cast<intmax_t>(Status.st_size),
                static_cast<intmax_t>(Status.st_mtim.tv_sec) * 1000000000 + Status.st_mtim.tv_nsec);
  return Text;
}

static std::string contentOf(const std::string &File) {
  std::string Content;
  int Descriptor = ::open(File.c_str(), O_RDONLY | O_CLOEXEC);
  if (Descriptor < 0)
    return Content;
  char Buffer[8192];
  for (ssize_t Size; (Size = ::read(Descriptor, Buffer, sizeof Buffer)) > 0;)
    Content.append(Buffer, Size);
  ::close(Descriptor);
  return Content;
}

/// True when `Line` is `stamp STAMP PATH` and the file's stamp is still that.
static bool isAsItWas(const std::string &Line) {
  constexpr size_t Start = sizeof("stamp ") - 1;
  size_t Path = Line.find(' ', Start);
  return startsWith(Line, "stamp ") && Path != std::string::npos &&
         stampOf(Line.c_str() + Path + 1) == Line.substr(Start, Path - Start);
}

std::optional<KnownCommand> knownCommand(const WrapperCall &Call) {
  const std::string Key = keyOf(Call), Entry = contentOf(entryFile(Key));
  if (Entry.empty() || Entry.back() != '\n' || !startsWith(Entry, Key + "\n"))
    return std::nullopt;
  KnownCommand Known;
  for (size_t Start = Key.size() + 1, End; Start < Entry.size(); Start = End + 1) {
    End = Entry.find('\n', Start);
    const std::string Line = Entry.substr(Start, End - Start);
    if (startsWith(Line, "word "))
      Known.First.push_back(Line.substr(5));
    else if (startsWith(Line, "say "))
      Known.Say = Line.substr(4);
    else if (!isAsItWas(Line))
      return std::nullopt;
  }
  return Known.First.empty() ? std::nullopt : std::optional<KnownCommand>(std::move(Known));
}

} // namespace mlgo
