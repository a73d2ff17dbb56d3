#include "mir_walk.h"

#include "ir_module.h"
#include "mir_target.h"
#include "read_error.h"

#include "llvm/ADT/DepthFirstIterator.h"
#include "llvm/CodeGen/MIRParser/MIRParser.h"
#include "llvm/CodeGen/MachineFunction.h"
#include "llvm/CodeGen/MachineFunctionPass.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/InitializePasses.h"
#include "llvm/PassRegistry.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>

using namespace llvm;

namespace mlgo {

namespace {

class MIRWalker {
public:
  MIRWalker(const TargetMachine &Machine, SetOptions Sets) : Machine(Machine), Sets(Sets) {}

  void add(MachineFunction &Function) {
    const MIRTarget &Target = start(Function);
    Builder->beginFunction(view(Function.getName()), Function.empty());
    auto First = static_cast<uint32_t>(Builder->walk().blocks());
    BlockNumbers<MachineBasicBlock> Number;
    for (const MachineBasicBlock &Block : Function) {
      Number[&Block] = First++;
      const BasicBlock *Origin = Block.getBasicBlock();
      Builder->beginBlock(Origin ? view(Origin->getName()) : std::string_view());
      for (const MachineInstr &Instruction : Block)
        add(Instruction, Target, Function.getRegInfo());
    }
    if (!Function.empty()) {
      for (const MachineBasicBlock *Block : depth_first(&Function))
        Builder->addVisit(Number.lookup(Block));
      addSets(Function, Sets, Number, Builder->walk());
    }
    Builder->endFunction();
  }

  /// Throws ReadError when there was no function to see.
  Walk finish(const std::string &Name) {
    if (!Builder)
      throw ReadError(Name + ": no machine functions found in module");
    return Builder->finish();
  }

private:
  static std::string_view view(StringRef Text) { return {Text.data(), Text.size()}; }

  const MIRTarget &start(const MachineFunction &Function) {
    const MIRTarget &Target = mirTarget(Machine, Function.getSubtarget());
    if (!Builder) {
      Builder.emplace(Form::MIR, static_cast<uint32_t>(Target.entityNames().size()), Target.absentEntity(),
                      /*WithDefinitions=*/false);
      Builder->walk().Target.push(Target.name());
      Builder->walk().Target.push(Machine.getTargetTriple().str());
    }
    return Target;
  }

  void add(const MachineInstr &Instruction, const MIRTarget &Target, const MachineRegisterInfo &Registers) {
    Operands.clear();
    if (Instruction.isDebugInstr()) {
      Builder->addInstruction(NoEntity, NoEntity, NoEntity, Operands, {}, /*IsSkipped=*/true);
      return;
    }
    for (const MachineOperand &Operand : Instruction.operands())
      Operands.push_back(Target.operand(Operand, Registers));
    Builder->addInstruction(Target.opcode(Instruction.getOpcode()), NoEntity, NoEntity, Operands, {},
                            /*IsSkipped=*/false);
  }

  const TargetMachine &Machine;
  SetOptions Sets;
  std::optional<WalkBuilder> Builder;
  std::vector<uint16_t> Operands;
};

/// Shows each machine function that reaches it to a walker.
class MachineWalkPass : public MachineFunctionPass {
public:
  static char ID;
  explicit MachineWalkPass(MIRWalker &Walker) : MachineFunctionPass(ID), Walker(Walker) {}

  StringRef getPassName() const override { return "pymlgo machine walk"; }
  void getAnalysisUsage(AnalysisUsage &Usage) const override {
    Usage.setPreservesAll();
    MachineFunctionPass::getAnalysisUsage(Usage);
  }
  bool runOnMachineFunction(MachineFunction &Function) override {
    Walker.add(Function);
    return false;
  }

private:
  MIRWalker &Walker;
};

char MachineWalkPass::ID = 0;

void initializePasses() {
  PassRegistry &Registry = *PassRegistry::getPassRegistry();
  initializeCore(Registry);
  initializeCodeGen(Registry);
  initializeGlobalISel(Registry);
  initializeScalarOpts(Registry);
  initializeTransformUtils(Registry);
  initializeAnalysis(Registry);
  initializeTarget(Registry);
}

/// LLVM reads the stop pass from its own command line option.
void setStopAfter(const std::string &Pass) {
  StringRef PassName = StringRef(Pass).split(',').first;
  if (!PassRegistry::getPassRegistry()->getPassInfo(PassName))
    throw ReadError("LLVM has no pass named '" + PassName.str() + "' to stop after");
  auto &Registered = cl::getRegisteredOptions();
  auto Found = Registered.find("stop-after");
  if (Found == Registered.end())
    throw ReadError("this LLVM has no option -stop-after");
  Found->second->reset();
  Found->second->addOccurrence(0, "stop-after", Pass);
}

void requireValid(Module &M, const std::string &Name) {
  std::string Problem;
  raw_string_ostream Stream(Problem);
  bool BrokenDebugInfo = false;
  if (verifyModule(M, &Stream, &BrokenDebugInfo))
    throw ReadError(Name + ": " + StringRef(Problem).rtrim().str());
}

} // namespace

Walk walkMIR(std::string_view Data, const std::string &Name, const MIRWalkOptions &Options) {
  LLVMContext Context;
  DiagnosticLog Log(Context);
  auto Buffer = MemoryBuffer::getMemBufferCopy(StringRef(Data.data(), Data.size()), Name);
  std::unique_ptr<MIRParser> Parser = createMIRParser(std::move(Buffer), Context);
  if (!Parser)
    throw ReadError(Name + ": is not MIR");
  std::unique_ptr<TargetMachine> Machine;
  auto SetLayout = [&](StringRef TripleText, StringRef) -> std::optional<std::string> {
    Machine = createTargetMachine(TripleText.str(), CodeGenOptLevel::Default);
    return Machine->createDataLayout().getStringRepresentation();
  };
  std::unique_ptr<Module> M = Parser->parseIRModule(SetLayout);
  Log.throwIfFailed();
  if (!M || !Machine)
    throw ReadError(Name + ": is not MIR");
  M->setTargetTriple(Machine->getTargetTriple());
  MachineModuleInfo Functions(Machine.get());
  bool Failed = Parser->parseMachineFunctions(*M, Functions);
  Log.throwIfFailed();
  if (Failed)
    throw ReadError(Name + ": is not MIR");
  MIRWalker Walker(*Machine, Options.Sets);
  for (Function &F : *M)
    if (MachineFunction *Function = Functions.getMachineFunction(F))
      Walker.add(*Function);
  return Walker.finish(Name);
}

Walk walkIRAsMIR(std::string_view Data, const std::string &Name, const MIRWalkOptions &Options) {
  LLVMContext Context;
  DiagnosticLog Log(Context);
  std::unique_ptr<Module> M = readModule(Data, Name, Context);
  if (Error Problem = M->materializeAll())
    throw ReadError(Name + ": " + toString(std::move(Problem)));
  requireValid(*M, Name);
  std::optional<CodeGenOptLevel> Level = CodeGenOpt::getLevel(static_cast<int>(Options.OptLevel));
  if (!Level)
    throw ReadError("the optimization level is 0 to 3, found " + std::to_string(Options.OptLevel));
  std::unique_ptr<TargetMachine> Machine = createTargetMachine(M->getTargetTriple().str(), *Level);
  M->setTargetTriple(Machine->getTargetTriple());
  M->setDataLayout(Machine->createDataLayout());
  initializePasses();
  setStopAfter(Options.StopAfter);
  MIRWalker Walker(*Machine, Options.Sets);
  legacy::PassManager Passes;
  TargetPassConfig *Config = Machine->createPassConfig(Passes);
  if (!Config)
    throw ReadError("LLVM has no code generator for " + M->getTargetTriple().str());
  Config->setDisableVerify(true);
  Passes.add(Config);
  Passes.add(new MachineModuleInfoWrapperPass(Machine.get()));
  if (Config->addISelPasses())
    throw ReadError("LLVM has no code generator for " + M->getTargetTriple().str());
  Config->addMachinePasses();
  Config->setInitialized();
  Passes.add(new MachineWalkPass(Walker));
  Passes.add(createFreeMachineFunctionPass());
  Passes.run(*M);
  Log.throwIfFailed();
  return Walker.finish(Name);
}

} // namespace mlgo
