// One compile of the exact cc1 pipeline inside this process.
#ifndef PYMLGO_ENGINE_COMPILE_H
#define PYMLGO_ENGINE_COMPILE_H

#include "llvm/ADT/ArrayRef.h"
#include <string>

namespace llvm {
class raw_ostream;
}

namespace pymlgo {

// Prepares all targets of the loaded LLVM. Call once, before the first compile or fork.
void initializeCompiler();

// What becomes of a compile's memory: freed, because another compile follows in this process, or left to the
// end of the process, which is near.
enum class Memory { Freed, Left };

// Compiles what `Arguments` (those of `clang -cc1`, without "-cc1") say; diagnostics go to `Diagnostics`.
// Returns whether it went well. The invocation is built and executed by clang's own code, so the object is
// the one that `clang -cc1 Arguments` writes. Source: clang/tools/driver/cc1_main.cpp (LLVM 22), of which the
// parts that outlive one compile are left out.
bool compile(llvm::ArrayRef<std::string> Arguments, llvm::raw_ostream &Diagnostics, Memory After);

} // namespace pymlgo

#endif
