// A clang that stays loaded: reads requests from stdin, compiles each as `clang -cc1` would, replies on
// stdout.
//
//   <- {"engine": 1, "llvm": "22.1.8"}
//   -> {"arguments": ["-triple", "x86_64-pc-linux-gnu", "-o", "x.o", "-x", "ir", "x.bc"], "limit_s": 60}
//   <- {"returncode": 0, "cpu_s": 0.05, "timeout": false, "stderr": ""}
//
// One JSON object a line, both ways. Each compile has a process of its own, forked from this one: a crash
// costs one reply. `returncode` is negative for a signal, as Python's is; a compile beyond `limit_s` seconds
// is killed. With "fork": false the compile runs here, which saves the fork: a crash takes the engine down,
// there is no limit, and the options of one compile (-mllvm, those of the advisor plugin too) are taken back
// before the next. A plugin named on the engine's command line is loaded once, before the first fork; a
// compile that is to use it still says -fpass-plugin=.
#include "compile.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <malloc.h>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace llvm;

namespace {

struct Request {
  std::vector<std::string> Arguments;
  bool Fork = true;
  double LimitSeconds = 600;
};

struct Reply {
  int ReturnCode = 1;
  double CpuSeconds = 0;
  bool Timeout = false;
  std::string Stderr;
};

// What a plugin exports that keeps state for one compile: called before each compile in this process.
using BeginCompile = void (*)();

// Takes back what the last compile in this process was told.
void forgetCompile(ArrayRef<BeginCompile> Plugins) {
  cl::ResetAllOptionOccurrences();
  for (BeginCompile Begin : Plugins)
    Begin();
}

// A compile in this process takes the memory of the one before, instead of pages that the kernel has to
// clear.
void keepHeap() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20); // glibc takes no more
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 16 << 20);
}

double seconds(const timeval &Time) { return double(Time.tv_sec) + 1e-6 * double(Time.tv_usec); }

double cpuSeconds(const rusage &Usage) { return seconds(Usage.ru_utime) + seconds(Usage.ru_stime); }

Expected<Request> parseRequest(StringRef Line) {
  Expected<json::Value> Parsed = json::parse(Line);
  if (!Parsed)
    return Parsed.takeError();
  const json::Object *Object = Parsed->getAsObject();
  const json::Array *Arguments = Object ? Object->getArray("arguments") : nullptr;
  if (!Arguments)
    return createStringError("a request is an object with a list of \"arguments\"");
  Request Result;
  for (const json::Value &Each : *Arguments) {
    auto Text = Each.getAsString();
    if (!Text)
      return createStringError("\"arguments\" must be strings");
    Result.Arguments.push_back(Text->str());
  }
  Result.Fork = Object->getBoolean("fork").value_or(true);
  Result.LimitSeconds = Object->getNumber("limit_s").value_or(600);
  return Result;
}

std::string contents(int File) {
  std::string Text;
  off_t Size = lseek(File, 0, SEEK_END);
  if (Size > 0) {
    Text.resize(size_t(Size));
    ssize_t Got = pread(File, Text.data(), Text.size(), 0);
    Text.resize(Got > 0 ? size_t(Got) : 0);
  }
  return Text;
}

Reply compileHere(const Request &Asked) {
  Reply Result;
  rusage Before{}, After{};
  getrusage(RUSAGE_SELF, &Before);
  int Stderr = memfd_create("stderr", MFD_CLOEXEC), Own = dup(STDERR_FILENO);
  dup2(Stderr, STDERR_FILENO);
  Result.ReturnCode = pymlgo::compile(Asked.Arguments, errs(), pymlgo::Memory::Freed) ? 0 : 1;
  errs().flush();
  dup2(Own, STDERR_FILENO);
  Result.Stderr = contents(Stderr);
  close(Stderr);
  close(Own);
  getrusage(RUSAGE_SELF, &After);
  Result.CpuSeconds = cpuSeconds(After) - cpuSeconds(Before);
  return Result;
}

[[noreturn]] void compileInChild(const Request &Asked, int Stderr) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(Stderr, 1);
  dup2(Stderr, 2);
  bool Ok = pymlgo::compile(Asked.Arguments, errs(), pymlgo::Memory::Left);
  errs().flush();
  _exit(Ok ? 0 : 1); // the image is this process's only heap: freeing it page by page would cost milliseconds
}

Reply compileInFork(const Request &Asked) {
  Reply Result;
  int Stderr = memfd_create("stderr", MFD_CLOEXEC);
  pid_t Child = fork();
  if (Child == 0)
    compileInChild(Asked, Stderr);
  if (Child < 0 || Stderr < 0) {
    Result.Stderr = "the engine cannot fork";
    return Result;
  }
  int Exited = int(syscall(SYS_pidfd_open, Child, 0));
  pollfd Wait{Exited, POLLIN, 0};
  int Ready;
  do
    Ready = poll(&Wait, 1, int(Asked.LimitSeconds * 1000));
  while (Ready < 0 && errno == EINTR);
  if (Ready == 0) {
    Result.Timeout = true;
    kill(Child, SIGKILL);
  }
  int Status = 0;
  rusage Usage{};
  wait4(Child, &Status, 0, &Usage);
  Result.ReturnCode = WIFEXITED(Status) ? WEXITSTATUS(Status) : -WTERMSIG(Status);
  Result.CpuSeconds = cpuSeconds(Usage);
  Result.Stderr = contents(Stderr);
  close(Exited);
  close(Stderr);
  return Result;
}

void send(raw_ostream &Out, json::Object Object) {
  Out << json::Value(std::move(Object)) << '\n';
  Out.flush();
}

void serve(std::FILE *In, raw_ostream &Out, ArrayRef<BeginCompile> Plugins) {
  send(Out, json::Object{{"engine", 1}, {"llvm", LLVM_VERSION_STRING}});
  char *Line = nullptr;
  size_t Capacity = 0;
  for (ssize_t Length; (Length = getline(&Line, &Capacity, In)) > 0;) {
    Expected<Request> Asked = parseRequest(StringRef(Line, size_t(Length)).rtrim('\n'));
    if (!Asked) {
      send(Out, json::Object{{"error", toString(Asked.takeError())}});
      continue;
    }
    forgetCompile(Plugins);
    Reply Result = Asked->Fork ? compileInFork(*Asked) : compileHere(*Asked);
    send(Out, json::Object{{"returncode", Result.ReturnCode},
                           {"cpu_s", Result.CpuSeconds},
                           {"timeout", Result.Timeout},
                           {"stderr", json::fixUTF8(Result.Stderr)}});
  }
  std::free(Line);
}

} // namespace

int main(int Count, char **Values) {
  // What LLVM or a pass prints must not reach the protocol: the replies get a descriptor of their own.
  int Replies = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  std::signal(SIGPIPE, SIG_DFL);
  pymlgo::initializeCompiler();
  keepHeap();
  std::vector<BeginCompile> Plugins;
  for (int I = 1; I < Count; ++I) {
    void *Plugin = dlopen(Values[I], RTLD_NOW | RTLD_LOCAL);
    void *Begin = Plugin ? dlsym(Plugin, "mlgo_begin_compile") : nullptr;
    if (!Begin) {
      errs() << "error: " << dlerror() << "\n";
      return 1;
    }
    Plugins.push_back(reinterpret_cast<BeginCompile>(Begin));
  }
  raw_fd_ostream Out(Replies, /*shouldClose=*/true);
  serve(stdin, Out, Plugins);
}
