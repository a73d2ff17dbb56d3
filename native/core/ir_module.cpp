#include "ir_module.h"

#include "read_error.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace mlgo {

namespace {

struct CollectingHandler : DiagnosticHandler {
  explicit CollectingHandler(std::shared_ptr<std::string> FirstError) : FirstError(std::move(FirstError)) {}

  bool handleDiagnostics(const DiagnosticInfo &Info) override {
    if (Info.getSeverity() != DS_Error || !FirstError->empty())
      return true;
    raw_string_ostream Stream(*FirstError);
    DiagnosticPrinterRawOStream Printer(Stream);
    Info.print(Printer);
    return true;
  }

  std::shared_ptr<std::string> FirstError;
};

std::unique_ptr<Module> readBitcode(MemoryBufferRef Buffer, LLVMContext &Context) {
  Expected<std::unique_ptr<Module>> Read = getLazyBitcodeModule(Buffer, Context);
  if (!Read)
    throw ReadError(Buffer.getBufferIdentifier().str() + ": " + toString(Read.takeError()));
  return std::move(*Read);
}

std::unique_ptr<Module> readText(MemoryBufferRef Buffer, LLVMContext &Context) {
  SMDiagnostic Problem;
  if (std::unique_ptr<Module> Read = parseAssembly(Buffer, Problem, Context))
    return Read;
  throw ReadError(Problem.getFilename().str() + ":" + std::to_string(Problem.getLineNo()) + ":" +
                  std::to_string(Problem.getColumnNo() + 1) + ": " + Problem.getMessage().str());
}

} // namespace

DiagnosticLog::DiagnosticLog(LLVMContext &Context) : FirstError(std::make_shared<std::string>()) {
  Context.setDiagnosticHandler(std::make_unique<CollectingHandler>(FirstError), /*RespectFilters=*/false);
}

void DiagnosticLog::throwIfFailed() const {
  if (!FirstError->empty())
    throw ReadError(*FirstError);
}

std::unique_ptr<Module> readModule(std::string_view Data, const std::string &Name, LLVMContext &Context) {
  const auto *Start = reinterpret_cast<const unsigned char *>(Data.data());
  MemoryBufferRef Buffer(StringRef(Data.data(), Data.size()), Name);
  if (isBitcode(Start, Start + Data.size()))
    return readBitcode(Buffer, Context);
  // The text parser needs a terminating zero, which foreign memory lacks.
  auto Copy = MemoryBuffer::getMemBufferCopy(Buffer.getBuffer(), Name);
  return readText(Copy->getMemBufferRef(), Context);
}

} // namespace mlgo
