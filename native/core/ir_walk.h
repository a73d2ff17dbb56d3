// LLVM IR (bitcode or text) as a Walk.
#pragma once

#include "walk.h"

namespace mlgo {

struct IRWalkOptions {
  bool WithDefinitions = true; // needed by flow-aware embeddings
  bool WithLoops = false;
  bool WithRegions = false;
};

/// The module in `Data`; `Name` stands for it in messages. Throws ReadError.
///
/// Departure from llvm::parseIRFile: functions are materialized one by one and the verifier does not run, so
/// debug information that is broken is no reason to abort.
Walk walkIR(std::string_view Data, const std::string &Name, const IRWalkOptions &Options);

} // namespace mlgo
