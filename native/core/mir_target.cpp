#include "mir_target.h"

#include "read_error.h"

#include "llvm/CodeGen/TargetInstrInfo.h"
#include "llvm/CodeGen/TargetRegisterInfo.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>
#include <map>
#include <mutex>

using namespace llvm;

namespace mlgo {

namespace {

// By type of operand less one; LLVM keeps its own list private. The assertion makes another LLVM's list fail
// to compile.
constexpr StringLiteral CommonOperandNames[] = {
    "Immediate",       "CImmediate",        "FPImmediate",  "MBB",
    "FrameIndex",      "ConstantPoolIndex", "TargetIndex",  "JumpTableIndex",
    "ExternalSymbol",  "GlobalAddress",     "BlockAddress", "RegisterMask",
    "RegisterLiveOut", "Metadata",          "MCSymbol",     "CFIIndex",
    "IntrinsicID",     "Predicate",         "ShuffleMask",  "LaneMask"};
static_assert(MachineOperand::MO_Last == std::size(CommonOperandNames) + 1 &&
              MachineOperand::MO_Immediate == 1 && MachineOperand::MO_ShuffleMask == 19 &&
              MachineOperand::MO_DbgInstrRef == 20 && MachineOperand::MO_LaneMask == 21);

void initializeTargets() {
  static std::once_flag Once;
  std::call_once(Once, [] {
    InitializeAllTargetInfos();
    InitializeAllTargets();
    InitializeAllTargetMCs();
    InitializeAllAsmPrinters();
    InitializeAllAsmParsers();
  });
}

bool isNamePart(char C) { return (C >= 'A' && C <= 'Z') || (C >= 'a' && C <= 'z') || C == '_'; }

} // namespace

std::string baseOpcodeName(std::string_view Instruction) {
  auto Begin = std::find_if(Instruction.begin(), Instruction.end(), isNamePart);
  auto End = std::find_if_not(Begin, Instruction.end(), isNamePart);
  if (Begin == End)
    return std::string(Instruction);
  std::string Name(Begin, End);
  size_t Last = Name.find_last_not_of('_');
  return Name.substr(0, Last + 1);
}

std::unique_ptr<TargetMachine> createTargetMachine(const std::string &TripleText, CodeGenOptLevel Level) {
  initializeTargets();
  Triple Wanted(TripleText.empty() ? sys::getDefaultTargetTriple() : Triple::normalize(TripleText));
  std::string Problem;
  const Target *Found = TargetRegistry::lookupTarget(Wanted, Problem);
  if (!Found)
    throw ReadError(Problem);
  std::unique_ptr<TargetMachine> Machine(
      Found->createTargetMachine(Wanted, "", "", TargetOptions(), std::nullopt, std::nullopt, Level));
  if (!Machine)
    throw ReadError("LLVM has no code generator for " + Wanted.str());
  return Machine;
}

MIRTarget::MIRTarget(const std::string &Name, const TargetSubtargetInfo &Subtarget) : TargetName(Name) {
  const TargetInstrInfo &Instructions = *Subtarget.getInstrInfo();
  const TargetRegisterInfo &Registers = *Subtarget.getRegisterInfo();
  std::vector<std::string> Bases;
  for (unsigned Opcode = 0; Opcode < Instructions.getNumOpcodes(); ++Opcode) {
    StringRef Full = Instructions.getName(Opcode);
    Bases.push_back(baseOpcodeName({Full.data(), Full.size()}));
  }
  Names = Bases;
  std::sort(Names.begin(), Names.end());
  Names.erase(std::unique(Names.begin(), Names.end()), Names.end());
  for (const std::string &Base : Bases)
    OpcodeEntity.push_back(
        static_cast<uint16_t>(std::lower_bound(Names.begin(), Names.end(), Base) - Names.begin()));
  FirstCommon = static_cast<uint32_t>(Names.size());
  for (StringRef Operand : CommonOperandNames)
    Names.push_back(Operand.str());
  for (uint32_t *First : {&FirstPhysical, &FirstVirtual}) {
    *First = static_cast<uint32_t>(Names.size());
    const char *Prefix = First == &FirstPhysical ? "PhyReg_" : "VirtReg_";
    for (unsigned Class = 0; Class < Registers.getNumRegClasses(); ++Class)
      Names.push_back(Prefix + std::string(Registers.getRegClassName(Registers.getRegClass(Class))));
  }
  if (Names.size() >= NoEntity)
    throw ReadError("target " + Name + " has too many entities");
  PhysicalEntity.assign(Registers.getNumRegs(), NoEntity);
  for (unsigned Number = 1; Number < Registers.getNumRegs(); ++Number)
    if (const TargetRegisterClass *Class = Registers.getMinimalPhysRegClass(Number))
      PhysicalEntity[Number] = static_cast<uint16_t>(FirstPhysical + Class->getID());
}

std::vector<EntityRange> MIRTarget::ranges() const {
  auto Count = static_cast<uint32_t>(Names.size());
  return {{"opcodes", 0, FirstCommon},
          {"common_operands", FirstCommon, FirstPhysical - FirstCommon},
          {"physical_registers", FirstPhysical, FirstVirtual - FirstPhysical},
          {"virtual_registers", FirstVirtual, Count - FirstVirtual}};
}

uint16_t MIRTarget::operand(const MachineOperand &Operand, const MachineRegisterInfo &Registers) const {
  if (!Operand.isReg()) {
    if (Operand.getType() == MachineOperand::MO_DbgInstrRef)
      return NoEntity;
    unsigned Index = Operand.getType() == MachineOperand::MO_LaneMask ? std::size(CommonOperandNames) - 1
                                                                      : Operand.getType() - 1u;
    return static_cast<uint16_t>(FirstCommon + Index);
  }
  Register R = Operand.getReg();
  if (R.isPhysical())
    return R.id() < PhysicalEntity.size() ? PhysicalEntity[R.id()] : NoEntity;
  if (!R.isVirtual())
    return NoEntity; // no register, or a stack slot
  const TargetRegisterClass *Class = Registers.getRegClassOrNull(R);
  return Class ? static_cast<uint16_t>(FirstVirtual + Class->getID()) : NoEntity;
}

const MIRTarget &mirTarget(const TargetMachine &Machine, const TargetSubtargetInfo &Subtarget) {
  static std::mutex Guard;
  static std::map<std::string, std::unique_ptr<MIRTarget>> Known;
  std::lock_guard<std::mutex> Hold(Guard);
  std::string Name = Machine.getTarget().getName();
  std::unique_ptr<MIRTarget> &Entry = Known[Name];
  if (!Entry)
    Entry = std::make_unique<MIRTarget>(Name, Subtarget);
  return *Entry;
}

const MIRTarget &mirTarget(const std::string &TripleText) {
  std::unique_ptr<TargetMachine> Machine = createTargetMachine(TripleText, CodeGenOptLevel::Default);
  LLVMContext Context;
  Module M("", Context);
  M.setTargetTriple(Machine->getTargetTriple());
  M.setDataLayout(Machine->createDataLayout());
  auto *Type = FunctionType::get(Type::getVoidTy(Context), false);
  Function *F = Function::Create(Type, Function::ExternalLinkage, "f", M);
  const TargetSubtargetInfo *Subtarget = Machine->getSubtargetImpl(*F);
  if (!Subtarget)
    throw ReadError("LLVM has no code generator for " + TripleText);
  return mirTarget(*Machine, *Subtarget);
}

} // namespace mlgo
