#include "decision_key.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MD5.h"

using namespace llvm;

namespace mlgo {

static void joinNames(SmallString<256> &Text, StringRef Caller, StringRef Callee) {
  Text += Caller;
  Text.push_back('\0');
  Text += Callee;
  Text.push_back('\0');
}

uint64_t decisionKey(StringRef Caller, StringRef Callee, uint32_t Occurrence) {
  SmallString<256> Text;
  joinNames(Text, Caller, Callee);
  Text += utostr(Occurrence);
  return MD5Hash(Text);
}

uint64_t OccurrenceCounter::next(StringRef Caller, StringRef Callee) {
  SmallString<256> Text;
  joinNames(Text, Caller, Callee);
  Text += utostr(Seen[Text]++);
  return MD5Hash(Text);
}

} // namespace mlgo
