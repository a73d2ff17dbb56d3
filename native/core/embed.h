// Sums of vocabulary rows over a Walk, in LLVM's order of additions.
#pragma once

#include "walk.h"

namespace mlgo {

/// A vocabulary's weighted rows: row-major doubles [Entities, Dimension].
struct Table {
  const double *Rows;
  size_t Entities;
  size_t Dimension;
};

enum class Kind { Symbolic = 0, FlowAware = 1, FlowNormalized = 2 };

/// A run of functions of a Walk, [Begin, End).
struct FunctionRange {
  size_t Begin;
  size_t End;
};

/// How often FlowNormalized passes vectors from definitions to uses.
constexpr unsigned DefaultRounds = 3;

// Each fills a row for every instruction / block / function of the range, in order, into `Out` [n,
// Dimension].
//
// Symbolic and FlowAware give the bits that llvm::ir2vec::Embedder gives for getInstVector, getBBVector and
// getFunctionVector, each asked of a fresh embedder in layout order (as llvm-ir2vec does); for a MIR walk,
// those of llvm::mir2vec::SymbolicMIREmbedder. FlowNormalized is ours: see docs/spec/ir2vec.md.
void embedInstructions(const Walk &W, const Table &T, Kind K, FunctionRange Range, double *Out);
void embedBlocks(const Walk &W, const Table &T, Kind K, FunctionRange Range, double *Out);
void embedFunctions(const Walk &W, const Table &T, Kind K, FunctionRange Range, double *Out);

/// Out[S] = ((0 + Rows[m1]) + Rows[m2]) + … over Members[First[S] … First[S + 1]).
void sumRows(const double *Rows, size_t Dimension, const uint32_t *First, size_t Sets,
             const uint32_t *Members, double *Out);

/// How often each entity of `Entities` occurs in each block (counted ones only), into Out [blocks,
/// Entities.size()].
void countEntities(const Walk &W, const std::vector<uint32_t> &Entities, double *Out);

/// Entities that some pattern uses, ascending.
std::vector<uint32_t> usedEntities(const Walk &W);

} // namespace mlgo
