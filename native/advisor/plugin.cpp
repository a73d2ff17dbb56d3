// The entry point that clang, opt, llc and lld call after loading the plugin.
#include "inlining_advisor.h"
#include "report.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Passes/PassBuilder.h"
#if LLVM_VERSION_MAJOR >= 22
#include "llvm/Plugins/PassPlugin.h"
#else
#include "llvm/Passes/PassPlugin.h"
#endif

#include <mutex>
#include <unistd.h>

using namespace llvm;

/// Once per process, when options have been parsed.
static void start() {
  static std::once_flag Started;
  std::call_once(Started, [] {
    mlgo::reportLine(json::Object{{"event", "active"},
                                  {"schema", "pymlgo/advisor-1"},
                                  {"llvm", LLVM_VERSION_STRING},
                                  {"process", static_cast<int64_t>(::getpid())}});
  });
}

static void registerCallbacks(PassBuilder &Builder) {
  start();
  if (!mlgo::inliningIsWanted())
    return;
  Builder.registerAnalysisRegistrationCallback([](ModuleAnalysisManager &MAM) {
    mlgo::rememberModuleAnalysisManager(MAM);
    MAM.registerPass([] { return PluginInlineAdvisorAnalysis(mlgo::createInliningAdvisor); });
  });
}

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
  PassPluginLibraryInfo Info{};
  Info.APIVersion = LLVM_PLUGIN_API_VERSION;
  Info.PluginName = "pymlgo-advisor";
  Info.PluginVersion = LLVM_VERSION_STRING;
  Info.RegisterPassBuilderCallbacks = registerCallbacks;
  return Info;
}
