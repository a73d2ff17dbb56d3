#include "advised_run.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mlgo {

static constexpr char ReportVariable[] = "PYMLGO_REPORT", Crash[] = "\"event\":\"crash\"";

static volatile sig_atomic_t Child = 0;

static void forward(int Number) { ::kill(Child, Number); }

static std::vector<char *> pointers(const std::vector<std::string> &Words) {
  std::vector<char *> Result;
  for (const std::string &Word : Words)
    Result.push_back(const_cast<char *>(Word.c_str()));
  Result.push_back(nullptr);
  return Result;
}

static int cannotStart(const std::string &Program, int Error) {
  std::fprintf(stderr, "error: %s cannot be started: %s\n", Program.c_str(), std::strerror(Error));
  return Error == ENOENT ? 127 : 126;
}

int become(const std::vector<std::string> &Command) {
  ::execvp(Command[0].c_str(), pointers(Command).data());
  return cannotStart(Command[0], errno);
}

/// Runs a program to its end and hands it the signals that are meant to end us.
static int run(const std::vector<std::string> &Command) {
  sigset_t Ending, Before;
  ::sigemptyset(&Ending);
  for (int Number : {SIGTERM, SIGHUP, SIGINT})
    ::sigaddset(&Ending, Number);
  // They wait until there is a child to hand them to, which itself starts with the mask that we were given.
  ::sigprocmask(SIG_BLOCK, &Ending, &Before);
  posix_spawnattr_t Attributes;
  ::posix_spawnattr_init(&Attributes);
  ::posix_spawnattr_setsigmask(&Attributes, &Before);
  ::posix_spawnattr_setflags(&Attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t Started;
  int Error =
      ::posix_spawnp(&Started, Command[0].c_str(), nullptr, &Attributes, pointers(Command).data(), environ);
  ::posix_spawnattr_destroy(&Attributes);
  if (Error)
    return cannotStart(Command[0], Error);
  Child = Started;
  for (int Number : {SIGTERM, SIGHUP, SIGINT}) {
    struct sigaction Present;
    // What a shell told us to ignore, the child ignores too.
    if (::sigaction(Number, nullptr, &Present) == 0 && Present.sa_handler != SIG_IGN)
      std::signal(Number, forward);
  }
  ::sigprocmask(SIG_SETMASK, &Before, nullptr);
  int Status = 0;
  while (::waitpid(Started, &Status, 0) < 0 && errno == EINTR)
    ;
  return WIFSIGNALED(Status) ? 128 + WTERMSIG(Status) : WEXITSTATUS(Status);
}

static std::string contentOf(int File) {
  struct stat Status;
  if (::fstat(File, &Status) != 0 || Status.st_size <= 0)
    return "";
  std::string Content(Status.st_size, '\0');
  ssize_t Size = ::pread(File, Content.data(), Content.size(), 0);
  Content.resize(Size < 0 ? 0 : Size);
  return Content;
}

static void append(const char *File, const std::string &Text) {
  int Descriptor = ::open(File, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (Descriptor < 0 || ::write(Descriptor, Text.data(), Text.size()) < 0)
    std::fprintf(stderr, "mlgo: the report cannot be written to %s: %s\n", File, std::strerror(errno));
  if (Descriptor >= 0)
    ::close(Descriptor);
}

int runAdvised(const std::vector<std::string> &Command, const std::vector<std::string> &Arguments) {
  std::vector<std::string> Whole = Command, Plain = {Command[0]};
  Whole.insert(Whole.end(), Arguments.begin(), Arguments.end());
  Plain.insert(Plain.end(), Arguments.begin(), Arguments.end());
  // The plugin's report tells a crash from a compile error. It lies in memory, and a user who wants it gets
  // it.
  const int Report = ::memfd_create("mlgo-report", 0);
  const char *Wanted = std::getenv(ReportVariable);
  const std::string WantedFile = Wanted ? Wanted : "";
  const std::string Path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(Report);
  ::setenv(ReportVariable, Path.c_str(), 1);
  const int Code = run(Whole);
  const std::string Said = contentOf(Report);
  ::close(Report);
  if (Wanted)
    ::setenv(ReportVariable, WantedFile.c_str(), 1);
  else
    ::unsetenv(ReportVariable);
  if (!WantedFile.empty())
    append(WantedFile.c_str(), Said);
  if (Code == 0 || Said.find(Crash) == std::string::npos)
    return Code;
  std::fprintf(stderr, "mlgo: the compiler crashed under advice; compiling again without\n");
  return become(Plain);
}

} // namespace mlgo
