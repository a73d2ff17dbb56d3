// The errors of this folder: a sentence that a user reads.
#pragma once

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

namespace mlgo {

inline llvm::Error failure(const llvm::Twine &Message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), Message);
}

} // namespace mlgo
