// LLVM's own MIR2Vec vectors and register classes, at full precision.
//   mir2vec_oracle tables TRIPLE          opcodes, register classes and each register's smallest class, by LLVM's tables
//   mir2vec_oracle vectors V.json F.mir   for each function that 22.1.8 does not crash on: its name, a newline, a 64-bit count,
//                                         then function, block and instruction vectors as raw doubles
#include "llvm/ADT/DepthFirstIterator.h"
#include "llvm/CodeGen/MIR2Vec.h"
#include "llvm/CodeGen/MIRParser/MIRParser.h"
#include "llvm/CodeGen/MachineFunction.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/TargetInstrInfo.h"
#include "llvm/CodeGen/TargetRegisterInfo.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;
using Vectors = std::map<std::string, mir2vec::Embedding>;

static std::unique_ptr<TargetMachine> machine(const Triple &T) {
  InitializeAllTargetInfos();
  InitializeAllTargets();
  InitializeAllTargetMCs();
  std::string Problem;
  const Target *Found = TargetRegistry::lookupTarget(T, Problem);
  return std::unique_ptr<TargetMachine>(Found->createTargetMachine(T, "", "", TargetOptions(), std::nullopt));
}

static int tables(const char *Text) {
  Triple T(Text);
  std::unique_ptr<TargetMachine> TM = machine(T);
  LLVMContext Context;
  Module M("m", Context);
  M.setTargetTriple(T);
  M.setDataLayout(TM->createDataLayout());
  auto *F = Function::Create(FunctionType::get(Type::getVoidTy(Context), false), Function::ExternalLinkage, "f", M);
  const TargetSubtargetInfo *Subtarget = TM->getSubtargetImpl(*F);
  const TargetInstrInfo *Instructions = Subtarget->getInstrInfo();
  const TargetRegisterInfo *Registers = Subtarget->getRegisterInfo();
  for (unsigned I = 0; I < Instructions->getNumOpcodes(); ++I)
    outs() << "O\t" << Instructions->getName(I) << "\n";
  for (unsigned I = 0; I < Registers->getNumRegClasses(); ++I)
    outs() << "C\t" << Registers->getRegClassName(Registers->getRegClass(I)) << "\n";
  // By the definition, not by getMinimalPhysRegClass: the first class in order that no later one with the register narrows.
  for (unsigned R = 1; R < Registers->getNumRegs(); ++R) {
    const TargetRegisterClass *Kept = nullptr;
    for (const TargetRegisterClass *Class : Registers->regclasses())
      if (Class->contains(R) && (!Kept || Kept->hasSubClass(Class)))
        Kept = Class;
    outs() << "R\t" << StringRef(Registers->getName(R)).lower() << "\t" << (Kept ? Registers->getRegClassName(Kept) : "-") << "\n";
  }
  return 0;
}

static Vectors section(const json::Object &Root, StringRef Name) {
  Vectors Result;
  for (const auto &[Key, Value] : *Root.getObject(Name)) {
    std::vector<double> Row;
    for (const json::Value &Each : *Value.getAsArray())
      Row.push_back(*Each.getAsNumber());
    Result[std::string(Key.str())] = mir2vec::Embedding(std::move(Row));
  }
  return Result;
}

static bool hasClasslessRegister(const MachineFunction &MF) {
  const TargetRegisterInfo *Registers = MF.getSubtarget().getRegisterInfo();
  for (const MachineBasicBlock &B : MF)
    for (const MachineInstr &I : B)
      for (const MachineOperand &O : I.operands())
        if (O.isReg() && O.getReg().isPhysical() && !Registers->getMinimalPhysRegClass(O.getReg().asMCReg()))
          return true;
  return false;
}

static void append(std::vector<double> &To, const mir2vec::Embedding &From) {
  To.insert(To.end(), From.begin(), From.end());
}

static int vectors(const char *VocabularyPath, const char *Path) {
  auto Buffer = MemoryBuffer::getFile(VocabularyPath);
  auto Root = json::parse((*Buffer)->getBuffer());
  const json::Object &Sections = *Root->getAsObject();
  LLVMContext Context;
  SMDiagnostic Problem;
  auto Parser = createMIRParserFromFile(Path, Problem, Context);
  std::unique_ptr<TargetMachine> TM;
  auto M = Parser->parseIRModule([&](StringRef T, StringRef) -> std::optional<std::string> {
    TM = machine(Triple(T));
    return TM->createDataLayout().getStringRepresentation();
  });
  MachineModuleInfo MMI(TM.get());
  if (Parser->parseMachineFunctions(*M, MMI))
    return 1;
  for (Function &F : *M) {
    MachineFunction *MF = MMI.getMachineFunction(F);
    if (!MF || hasClasslessRegister(*MF))
      continue;
    // A vocabulary of its own for each function: 22.1.8 looks registers up in the first one's table otherwise.
    auto V = mir2vec::MIRVocabulary::create(section(Sections, "Opcodes"), section(Sections, "CommonOperands"),
                                            section(Sections, "PhysicalRegisters"), section(Sections, "VirtualRegisters"),
                                            *MF->getSubtarget().getInstrInfo(), *MF->getSubtarget().getRegisterInfo(),
                                            MF->getRegInfo());
    if (!V) {
      errs() << toString(V.takeError()) << "\n";
      return 2;
    }
    auto E = mir2vec::MIREmbedder::create(MIR2VecKind::Symbolic, *MF, *V);
    std::vector<double> Rows;
    append(Rows, E->getMFunctionVector());
    for (MachineBasicBlock &B : *MF)
      append(Rows, E->getMBBVector(B));
    for (MachineBasicBlock &B : *MF)
      for (MachineInstr &I : B)
        append(Rows, E->getMInstVector(I));
    uint64_t Size = Rows.size();
    outs() << F.getName() << "\n";
    outs().write(reinterpret_cast<const char *>(&Size), sizeof(Size));
    outs().write(reinterpret_cast<const char *>(Rows.data()), Size * sizeof(double));
  }
  return 0;
}

int main(int Count, char **Arguments) {
  if (Count == 3 && StringRef(Arguments[1]) == "tables")
    return tables(Arguments[2]);
  return Count == 4 ? vectors(Arguments[2], Arguments[3]) : 3;
}
