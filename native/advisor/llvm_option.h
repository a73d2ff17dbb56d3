// Options of LLVM's own that the plugin reads and sets.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CommandLine.h"

#include <string>

namespace mlgo {

/// The option of that name; null where this LLVM has none.
inline llvm::cl::Option *findOption(llvm::StringRef Name) {
  auto &Options = llvm::cl::getRegisteredOptions();
  auto Found = Options.find(Name);
  return Found == Options.end() ? nullptr : Found->second;
}

/// The value of an option that holds a text; empty where it was not given.
inline std::string givenText(llvm::StringRef Name) {
  const llvm::cl::Option *Option = findOption(Name);
  return Option && Option->getNumOccurrences()
             ? static_cast<const llvm::cl::opt<std::string> *>(Option)->getValue()
             : "";
}

} // namespace mlgo
