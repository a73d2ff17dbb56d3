// What the plugin tells: lines of JSON in the report file, and warnings on stderr.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

#include <cstdint>

namespace mlgo {

/// True when the user named a report file.
bool reportIsWanted();

/// Appends one line at once, so that nothing is lost when a linker leaves without running destructors, and so
/// that lines of several processes and threads do not mix.
void reportLine(llvm::json::Object Line);

/// Reports the event "crash" when LLVM's signal handlers run: who watches the compile can tell a crash from
/// an error.
void reportCrashes();

/// One warning on stderr, `warning: mlgo: …`, once per compile and text. No diagnostic of LLVM's: -Werror
/// must not stop a build.
void warnOnce(llvm::StringRef Text);

/// The policy decides no more in this module: warns, and reports the event "fallback". `Consequence` says who
/// does.
void reportFallback(llvm::StringRef Problem, llvm::StringRef Module, llvm::StringRef Reason,
                    llvm::StringRef Consequence = "LLVM's default decides");

/// Monotonic nanoseconds.
uint64_t nanoseconds();

/// Text that JSON can carry: bytes that are no UTF-8 are replaced.
std::string printable(llvm::StringRef Text);

} // namespace mlgo
