// A module in memory, and what LLVM said while it was read.
#pragma once

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <memory>
#include <string>
#include <string_view>

namespace mlgo {

/// Collects the errors that LLVM reports through a context, instead of printing them and ending the process.
class DiagnosticLog {
public:
  explicit DiagnosticLog(llvm::LLVMContext &Context);
  /// Throws ReadError with the first error, if there was one.
  void throwIfFailed() const;

private:
  std::shared_ptr<std::string> FirstError;
};

/// A module read from bitcode (function bodies still to be materialized) or text. Throws ReadError; a text
/// error names line and column.
std::unique_ptr<llvm::Module> readModule(std::string_view Data, const std::string &Name,
                                         llvm::LLVMContext &Context);

} // namespace mlgo
