// The knowledge graph's triplets, as llvm-ir2vec lists them.
#pragma once

#include "walk.h"

namespace mlgo {

/// Relations. IR: 0 Type, 1 Next, 2 + k Arg k. MIR: 0 Next, 1 + k Arg k.
struct Triplets {
  std::vector<int32_t> Rows; // head, tail, relation, one after the other, in llvm-ir2vec's order
  int32_t MaxRelation;       // as llvm-ir2vec prints it
};

/// A predicate's triplets get this relation until the whole corpus is known; it is not one of LLVM's.
constexpr int32_t PredicateRelation = -1;

/// All triplets of `W`; with `WithPredicates`, also `opcode, predicate, PredicateRelation` after each
/// comparison's.
Triplets triplets(const Walk &W, bool WithPredicates);

/// "MAX_RELATION=N" and a line for each triplet, byte for byte what `llvm-ir2vec triplets` prints.
std::string tripletsText(const Walk &W);

} // namespace mlgo
