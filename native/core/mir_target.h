// MIR2Vec's entities of a target, from LLVM's own tables.
#pragma once

#include "entities.h"
#include "walk.h"

#include "llvm/CodeGen/MachineOperand.h"
#include "llvm/CodeGen/MachineRegisterInfo.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>

namespace mlgo {

/// A machine for `Triple`, or for this host's triple where `Triple` is empty. Throws ReadError for a triple
/// that LLVM does not know.
std::unique_ptr<llvm::TargetMachine> createTargetMachine(const std::string &Triple,
                                                         llvm::CodeGenOptLevel Level);

/// Layout: base opcodes (sorted, unique), common operands, physical register classes, virtual register
/// classes; the last two in order of class id.
///
/// Source: llvm/CodeGen/MIR2Vec.h, MIRVocabulary (LLVM 22). Departures: a register without a class is no
/// entity, where 22.1.8 crashes; a lane mask gets the id of its name, where 22.1.8 counts one too far.
class MIRTarget {
public:
  /// The table of the target that `Subtarget` belongs to.
  MIRTarget(const std::string &Name, const llvm::TargetSubtargetInfo &Subtarget);

  const std::string &name() const { return TargetName; }
  const std::vector<std::string> &entityNames() const { return Names; }
  std::vector<EntityRange> ranges() const;

  uint16_t opcode(unsigned Opcode) const { return OpcodeEntity[Opcode]; }
  /// `Registers` must be those of the function that holds the operand.
  uint16_t operand(const llvm::MachineOperand &Operand, const llvm::MachineRegisterInfo &Registers) const;
  /// What triplets name where an operand is no entity.
  uint32_t absentEntity() const { return FirstVirtual; }

private:
  std::string TargetName;
  std::vector<std::string> Names;
  std::vector<uint16_t> OpcodeEntity;
  std::vector<uint16_t> PhysicalEntity; // by register number
  uint32_t FirstCommon, FirstPhysical, FirstVirtual;
};

/// The name that instructions of one meaning share: the first run of letters and underscores, without
/// trailing underscores.
std::string baseOpcodeName(std::string_view Instruction);

/// The table of `Triple`'s target; made once in a process.
const MIRTarget &mirTarget(const llvm::TargetMachine &Machine, const llvm::TargetSubtargetInfo &Subtarget);

/// The table of a triple's target, for who has no module. Throws ReadError.
const MIRTarget &mirTarget(const std::string &Triple);

} // namespace mlgo
