// LLVM IR (bitcode or text) as a Walk.
#pragma once

#include "block_sets.h"
#include "walk.h"

namespace mlgo {

struct IRWalkOptions {
  bool WithDefinitions = true; // needed by flow-aware embeddings
  SetOptions Sets;
};

/// The module in `Data`; `Name` stands for it in messages. Throws ReadError.
///
/// Departures from llvm::parseIRFile: the bodies of bitcode are read one by one and dropped after their walk,
/// which is faster and keeps only the largest in memory; the verifier does not run, so debug information that
/// is broken is no reason to abort.
Walk walkIR(std::string_view Data, const std::string &Name, const IRWalkOptions &Options);

} // namespace mlgo
