// Entity tables of IR2Vec, taken from the LLVM that this library runs with.
#pragma once

#include <string>
#include <vector>

namespace mlgo {

/// Version of the LLVM that is linked, e.g. "22.1.8".
std::string llvmVersion();

/// Names of IR2Vec's entities; the index is the entity's id.
/// Source: ir2vec::Vocabulary::getStringKey (llvm/Analysis/IR2Vec.h, LLVM 22).
std::vector<std::string> irEntityNames();

/// A run of ids that one kind of entity owns.
struct EntityRange {
  std::string Name;
  unsigned First;
  unsigned Count;
};

/// The ranges "opcodes", "types", "operands" and "predicates" of irEntityNames(), in id order.
std::vector<EntityRange> irEntityRanges();

} // namespace mlgo
