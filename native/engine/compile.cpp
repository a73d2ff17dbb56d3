#include "compile.h"

#include "clang/Basic/Diagnostic.h"
#include "clang/Basic/DiagnosticOptions.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Frontend/TextDiagnosticPrinter.h"
#include "clang/FrontendTool/Utils.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/VirtualFileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>

namespace pymlgo {

void initializeCompiler() {
  llvm::InitializeAllTargets();
  llvm::InitializeAllTargetMCs();
  llvm::InitializeAllAsmPrinters();
  llvm::InitializeAllAsmParsers();
}

bool compile(llvm::ArrayRef<std::string> Arguments, llvm::raw_ostream &Diagnostics, Memory After) {
  llvm::SmallVector<const char *, 64> Pointers;
  for (const std::string &Argument : Arguments)
    Pointers.push_back(Argument.c_str());

  clang::DiagnosticOptions Options;
  clang::TextDiagnosticPrinter Printer(Diagnostics, Options);
  clang::DiagnosticsEngine Engine(clang::DiagnosticIDs::create(), Options, &Printer,
                                  /*ShouldOwnClient=*/false);
  auto Invocation = std::make_shared<clang::CompilerInvocation>();
  if (!clang::CompilerInvocation::CreateFromArgs(*Invocation, Pointers, Engine, "clang"))
    return false;
  Invocation->getFrontendOpts().DisableFree = After == Memory::Left;
  Invocation->getCodeGenOpts().DisableFree = After == Memory::Left;

  clang::CompilerInstance Instance(std::move(Invocation));
  Instance.setVirtualFileSystem(llvm::vfs::getRealFileSystem());
  Instance.createDiagnostics(&Printer, /*ShouldOwnClient=*/false);
  return clang::ExecuteCompilerInvocation(&Instance) && !Printer.getNumErrors();
}

} // namespace pymlgo
