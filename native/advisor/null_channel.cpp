#include "null_channel.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ManagedStatic.h"
#include "llvm/Support/Signals.h"

#include <unistd.h>

using namespace llvm;

namespace mlgo {

namespace {

/// The folder, while it is there.
class Folder {
public:
  Folder() {
    if (sys::fs::createUniqueDirectory("pymlgo", Path))
      return;
    Base = (Path + "/channel").str();
    for (const char *End : {".in", ".out"}) {
      // A crash of the compiler removes the links, the empty folder stays.
      sys::RemoveFileOnSignal(Base + End);
      Whole &= ::symlink("/dev/null", (Base + End).c_str()) == 0;
    }
  }
  ~Folder() {
    for (const char *End : {".in", ".out"}) {
      (void)::unlink((Base + End).c_str());
      sys::DontRemoveFileOnSignal(Base + End);
    }
    (void)::rmdir(Path.c_str());
  }
  std::optional<std::string> base() const {
    return Whole && !Base.empty() ? std::optional<std::string>(Base) : std::nullopt;
  }

private:
  SmallString<128> Path;
  std::string Base;
  bool Whole = true;
};

} // namespace

// lld leaves with _exit, but not without llvm_shutdown, which destroys these.
static ManagedStatic<Folder> TheFolder;

std::optional<std::string> nullChannel() { return TheFolder->base(); }

} // namespace mlgo
