// The entry point that clang, opt, llc and lld call after loading the plugin.
#include "inlining_advisor.h"
#include "per_compile.h"
#include "regalloc_takeover.h"
#include "report.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Passes/PassBuilder.h"
#if LLVM_VERSION_MAJOR >= 22
#include "llvm/Plugins/PassPlugin.h"
#else
#include "llvm/Passes/PassPlugin.h"
#endif

#include <atomic>
#include <dlfcn.h>
#include <unistd.h>

using namespace llvm;

static std::atomic<unsigned> CompileNumber{0};

unsigned mlgo::compileNumber() { return CompileNumber; }

/// The compile server says that another compile begins in this process.
extern "C" __attribute__((visibility("default"))) void mlgo_begin_compile() { ++CompileNumber; }

static bool announce() {
  mlgo::reportLine(json::Object{{"event", "active"},
                                {"schema", "pymlgo/advisor-1"},
                                {"llvm", LLVM_VERSION_STRING},
                                {"process", static_cast<int64_t>(::getpid())}});
  mlgo::reportCrashes();
  return true;
}

/// Once per compile, when options have been parsed.
static void start() {
  static mlgo::PerCompile<bool> Announced(announce);
  Announced.get();
}

namespace {
/// Shows a module to a function and changes nothing.
struct ShowModule : PassInfoMixin<ShowModule> {
  using Viewer = void (*)(const Module &);
  explicit ShowModule(Viewer View) : View(View) {}
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    View(M);
    return PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }
  Viewer View;
};
} // namespace

static void addLastPass(PassBuilder &Builder, ShowModule::Viewer View) {
#if LLVM_VERSION_MAJOR >= 20
  auto AddPass = [View](ModulePassManager &Passes, OptimizationLevel, ThinOrFullLTOPhase) {
    Passes.addPass(ShowModule(View));
  };
#else
  auto AddPass = [View](ModulePassManager &Passes, OptimizationLevel) { Passes.addPass(ShowModule(View)); };
#endif
  Builder.registerOptimizerLastEPCallback(AddPass);
  Builder.registerFullLinkTimeOptimizationLastEPCallback(
      [View](ModulePassManager &Passes, OptimizationLevel) { Passes.addPass(ShowModule(View)); });
}

static void registerCallbacks(PassBuilder &Builder) {
  start();
  if (mlgo::inliningIsWanted())
    Builder.registerAnalysisRegistrationCallback([](ModuleAnalysisManager &MAM) {
      mlgo::rememberModuleAnalysisManager(MAM);
      MAM.registerPass([] { return PluginInlineAdvisorAnalysis(mlgo::createInliningAdvisor); });
    });
  mlgo::takeOverRegisterAllocation();
  // Code is generated in the thread that optimized the module, right after.
  if (mlgo::registerAllocationIsWanted())
    addLastPass(Builder, [](const Module &M) { mlgo::rememberFunctionSizes(M); });
}

#if LLVM_VERSION_MAJOR >= 22
/// llc runs no optimization pipeline, only this.
static bool beforeCodeGeneration(Module &M, TargetMachine &, CodeGenFileType, raw_pwrite_stream &) {
  start();
  mlgo::takeOverRegisterAllocation();
  mlgo::rememberFunctionSizes(M);
  return false;
}
#endif

/// True when `Address` lies in the LLVM that this plugin's references were bound to.
static bool isInOurLLVM(const void *Address) {
  Dl_info Theirs, Ours;
  return ::dladdr(Address, &Theirs) && ::dladdr(reinterpret_cast<void *>(&PassPlugin::Load), &Ours) &&
         Theirs.dli_fbase == Ours.dli_fbase;
}

/// In a compiler that is linked statically and does not export its LLVM, ours is a second one: what we would
/// register there nobody asks, and objects of one LLVM mean nothing to the other.
static void refuse(PassBuilder &) {
  mlgo::reportFallback("plugin", "", "this compiler has an LLVM of its own, which it does not share");
}

extern "C" LLVM_ATTRIBUTE_WEAK __attribute__((visibility("default"))) PassPluginLibraryInfo
llvmGetPassPluginInfo() {
  PassPluginLibraryInfo Info{};
  Info.APIVersion = LLVM_PLUGIN_API_VERSION;
  Info.PluginName = "pymlgo-advisor";
  Info.PluginVersion = LLVM_VERSION_STRING;
  Info.RegisterPassBuilderCallbacks = refuse;
  if (!isInOurLLVM(__builtin_return_address(0)))
    return Info;
  Info.RegisterPassBuilderCallbacks = registerCallbacks;
#if LLVM_VERSION_MAJOR >= 22
  Info.PreCodeGenCallback = beforeCodeGeneration;
#endif
  return Info;
}
