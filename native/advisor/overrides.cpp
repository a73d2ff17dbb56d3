#include "overrides.h"

#include "failure.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/LineIterator.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace mlgo {

Expected<Overrides> Overrides::read(const std::string &Path) {
  auto unusable = [&](const Twine &What) {
    return failure("overrides " + Twine(Path) + " are not usable: " + What);
  };
  ErrorOr<std::unique_ptr<MemoryBuffer>> Buffer = MemoryBuffer::getFile(Path, /*IsText=*/true);
  if (!Buffer)
    return unusable(Buffer.getError().message());
  Overrides Result;
  for (line_iterator Line(**Buffer, /*SkipBlanks=*/true, '#'); !Line.is_at_end(); ++Line) {
    auto [KeyText, AdviceText] = Line->trim().split(' ');
    if (KeyText.empty())
      continue;
    uint64_t Key;
    double Advice;
    if (KeyText.size() != 16 || KeyText.getAsInteger(16, Key) || AdviceText.trim().getAsDouble(Advice))
      return unusable("line " + Twine(Line.line_number()) + " is not `<16 hexadecimal digits> <number>`");
    Result.Advice[Key] = Advice;
  }
  return Result;
}

} // namespace mlgo
