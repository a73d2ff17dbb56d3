// Machine IR as a Walk: from .mir text, or from IR through LLVM's code generator.
#pragma once

#include "block_sets.h"
#include "walk.h"

namespace mlgo {

struct MIRWalkOptions {
  SetOptions Sets;
  /// The pass after which the code generator stops, for IR input.
  std::string StopAfter = "finalize-isel";
  /// 0 … 3, for IR input.
  unsigned OptLevel = 2;
};

/// The machine functions of a .mir file. Throws ReadError.
Walk walkMIR(std::string_view Data, const std::string &Name, const MIRWalkOptions &Options);

/// The machine functions that the code generator makes of a module (bitcode or text). Throws ReadError. Sets
/// options of LLVM that the whole process shares, so one call at a time.
Walk walkIRAsMIR(std::string_view Data, const std::string &Name, const MIRWalkOptions &Options);

} // namespace mlgo
