#include "embed.h"

#include <algorithm>
#include <cmath>

namespace mlgo {

namespace {

void addTo(double *__restrict To, const double *__restrict From, size_t N) {
  for (size_t I = 0; I < N; ++I)
    To[I] += From[I];
}

/// Computes vectors of single instructions.
class InstructionSums {
public:
  InstructionSums(const Walk &W, const Table &T) : W(W), T(T), Zero(T.Dimension), Arguments(T.Dimension) {}

  const double *row(uint16_t Entity) const {
    return Entity == NoEntity ? Zero.data() : T.Rows + Entity * T.Dimension;
  }

  /// `Argument(k)` is the vector of operand k.
  template <typename ArgumentOf> void sum(uint32_t P, ArgumentOf &&Argument, double *Out) {
    const size_t N = T.Dimension;
    std::copy_n(row(W.Opcode[P]), N, Out);
    uint32_t Operands = W.FirstPatternOperand[P + 1] - W.FirstPatternOperand[P];
    if (W.form() == Form::MIR) {
      for (uint32_t K = 0; K < Operands; ++K)
        addTo(Out, Argument(K), N);
      return;
    }
    addTo(Out, row(W.Type[P]), N);
    std::fill(Arguments.begin(), Arguments.end(), 0.0);
    for (uint32_t K = 0; K < Operands; ++K)
      addTo(Arguments.data(), Argument(K), N);
    addTo(Out, Arguments.data(), N);
    if (W.Predicate[P] != NoEntity)
      addTo(Out, row(W.Predicate[P]), N);
  }

  const double *operandKind(uint32_t P, uint32_t K) const {
    return row(W.PatternOperand[W.FirstPatternOperand[P] + K]);
  }

  void symbolic(uint32_t P, double *Out) {
    sum(P, [&](uint32_t K) { return operandKind(P, K); }, Out);
  }

private:
  const Walk &W;
  const Table &T;
  std::vector<double> Zero;
  std::vector<double> Arguments;
};

/// Where an instruction's vector comes from; `begin(F)` is called before the instructions of function F are
/// asked for.
class SymbolicSource {
public:
  SymbolicSource(const Walk &W, const Table &T) : W(W), N(T.Dimension), Sums(W, T), Known(W.patterns()) {
    Rows.resize(W.patterns() * N);
  }
  void begin(size_t) {}
  const double *vector(uint32_t I) {
    uint32_t P = W.Pattern[I];
    double *Row = Rows.data() + P * N;
    if (!Known[P]) {
      Sums.symbolic(P, Row);
      Known[P] = 1;
    }
    return Row;
  }

private:
  const Walk &W;
  size_t N;
  InstructionSums Sums;
  std::vector<double> Rows;
  std::vector<uint8_t> Known;
};

/// LLVM's flow-aware kind: an operand counts as its defining instruction's vector if that was asked for
/// before.
class FlowAwareSource {
public:
  FlowAwareSource(const Walk &W, const Table &T) : W(W), N(T.Dimension), Sums(W, T) {}

  void begin(size_t F) {
    First = W.FirstInstruction[W.FirstBlock[F]];
    size_t Count = W.FirstInstruction[W.FirstBlock[F + 1]] - First;
    if (Memo.size() < Count * N)
      Memo.resize(Count * N);
    Known.assign(Count, 0);
  }

  const double *vector(uint32_t I) {
    double *Row = Memo.data() + (I - First) * N;
    if (Known[I - First])
      return Row;
    uint32_t P = W.Pattern[I];
    const uint32_t *Definition = W.Definition.data() + W.FirstOperand[I];
    Sums.sum(
        P,
        [&](uint32_t K) -> const double * {
          uint32_t D = Definition[K];
          return D != NoIndex && Known[D - First] ? Memo.data() + (D - First) * N : Sums.operandKind(P, K);
        },
        Row);
    Known[I - First] = 1;
    return Row;
  }

private:
  const Walk &W;
  size_t N;
  InstructionSums Sums;
  uint32_t First = 0;
  std::vector<double> Memo;
  std::vector<uint8_t> Known;
};

double length(const double *Row, size_t N) {
  double Squares = 0;
  for (size_t I = 0; I < N; ++I)
    Squares += Row[I] * Row[I];
  return std::sqrt(Squares);
}

/// Our kind: in every round an operand counts as its defining instruction's vector of the round before,
/// rescaled to the length of the operand's own kind. The order of visits does not matter and lengths stay
/// those of symbolic vectors.
class FlowNormalizedSource {
public:
  FlowNormalizedSource(const Walk &W, const Table &T) : W(W), N(T.Dimension), Sums(W, T), Scaled(N) {}

  void begin(size_t F) {
    First = W.FirstInstruction[W.FirstBlock[F]];
    size_t Count = W.FirstInstruction[W.FirstBlock[F + 1]] - First;
    Now.resize(Count * N);
    Before.resize(Count * N);
    Lengths.resize(Count);
    for (size_t I = 0; I < Count; ++I)
      Sums.symbolic(W.Pattern[First + I], Now.data() + I * N);
    for (unsigned Round = 0; Round < DefaultRounds; ++Round) {
      Now.swap(Before);
      for (size_t I = 0; I < Count; ++I)
        Lengths[I] = length(Before.data() + I * N, N);
      for (size_t I = 0; I < Count; ++I)
        pass(static_cast<uint32_t>(First + I), Now.data() + I * N);
    }
  }

  const double *vector(uint32_t I) { return Now.data() + (I - First) * N; }

private:
  void pass(uint32_t I, double *Out) {
    uint32_t P = W.Pattern[I];
    const uint32_t *Definition = W.Definition.data() + W.FirstOperand[I];
    Sums.sum(
        P,
        [&](uint32_t K) -> const double * {
          const double *Own = Sums.operandKind(P, K);
          uint32_t D = Definition[K];
          if (D == NoIndex || !(Lengths[D - First] > 0))
            return Own;
          double Factor = length(Own, N) / Lengths[D - First];
          const double *Row = Before.data() + (D - First) * N;
          for (size_t J = 0; J < N; ++J)
            Scaled[J] = Row[J] * Factor;
          return Scaled.data();
        },
        Out);
  }

  const Walk &W;
  size_t N;
  InstructionSums Sums;
  std::vector<double> Scaled;
  uint32_t First = 0;
  std::vector<double> Now, Before, Lengths;
};

template <typename Work> void withSource(const Walk &W, const Table &T, Kind K, Work &&Do) {
  switch (K) {
  case Kind::Symbolic:
    return Do(SymbolicSource(W, T));
  case Kind::FlowAware:
    return Do(FlowAwareSource(W, T));
  case Kind::FlowNormalized:
    return Do(FlowNormalizedSource(W, T));
  }
}

template <typename Source> void addBlock(const Walk &W, Source &From, uint32_t Block, size_t N, double *Out) {
  for (uint32_t I = W.FirstInstruction[Block]; I < W.FirstInstruction[Block + 1]; ++I)
    if (!W.Skipped[I])
      addTo(Out, From.vector(I), N);
}

} // namespace

void embedInstructions(const Walk &W, const Table &T, Kind K, FunctionRange Range, double *Out) {
  withSource(W, T, K, [&](auto From) {
    for (size_t F = Range.Begin; F < Range.End; ++F) {
      From.begin(F);
      uint32_t End = W.FirstInstruction[W.FirstBlock[F + 1]];
      for (uint32_t I = W.FirstInstruction[W.FirstBlock[F]]; I < End; ++I, Out += T.Dimension)
        std::copy_n(From.vector(I), T.Dimension, Out);
    }
  });
}

void embedBlocks(const Walk &W, const Table &T, Kind K, FunctionRange Range, double *Out) {
  withSource(W, T, K, [&](auto From) {
    for (size_t F = Range.Begin; F < Range.End; ++F) {
      From.begin(F);
      for (uint32_t B = W.FirstBlock[F]; B < W.FirstBlock[F + 1]; ++B, Out += T.Dimension) {
        std::fill_n(Out, T.Dimension, 0.0);
        addBlock(W, From, B, T.Dimension, Out);
      }
    }
  });
}

void embedFunctions(const Walk &W, const Table &T, Kind K, FunctionRange Range, double *Out) {
  std::vector<double> Block(T.Dimension);
  withSource(W, T, K, [&](auto From) {
    for (size_t F = Range.Begin; F < Range.End; ++F, Out += T.Dimension) {
      From.begin(F);
      std::fill_n(Out, T.Dimension, 0.0);
      for (uint32_t V = W.FirstVisit[F]; V < W.FirstVisit[F + 1]; ++V) {
        std::fill(Block.begin(), Block.end(), 0.0);
        addBlock(W, From, W.Visit[V], T.Dimension, Block.data());
        addTo(Out, Block.data(), T.Dimension);
      }
    }
  });
}

void sumRows(const double *Rows, size_t Dimension, const uint32_t *First, size_t Sets,
             const uint32_t *Members, double *Out) {
  for (size_t S = 0; S < Sets; ++S, Out += Dimension) {
    std::fill_n(Out, Dimension, 0.0);
    for (uint32_t M = First[S]; M < First[S + 1]; ++M)
      addTo(Out, Rows + Members[M] * Dimension, Dimension);
  }
}

std::vector<uint32_t> usedEntities(const Walk &W) {
  std::vector<uint8_t> Used(W.entityCount());
  for (const auto *Entities : {&W.Opcode, &W.Type, &W.Predicate, &W.PatternOperand})
    for (uint16_t Entity : *Entities)
      if (Entity != NoEntity)
        Used[Entity] = 1;
  std::vector<uint32_t> Result;
  for (uint32_t Entity = 0; Entity < Used.size(); ++Entity)
    if (Used[Entity])
      Result.push_back(Entity);
  return Result;
}

void countEntities(const Walk &W, const std::vector<uint32_t> &Entities, double *Out) {
  std::vector<uint32_t> Column(W.entityCount(), NoIndex);
  for (size_t I = 0; I < Entities.size(); ++I)
    Column[Entities[I]] = static_cast<uint32_t>(I);
  auto Count = [&](double *Row, uint16_t Entity) {
    if (Entity != NoEntity && Column[Entity] != NoIndex)
      Row[Column[Entity]] += 1;
  };
  for (size_t B = 0; B < W.blocks(); ++B, Out += Entities.size()) {
    std::fill_n(Out, Entities.size(), 0.0);
    for (uint32_t I = W.FirstInstruction[B]; I < W.FirstInstruction[B + 1]; ++I) {
      if (W.Skipped[I])
        continue;
      uint32_t P = W.Pattern[I];
      for (uint16_t Entity : {W.Opcode[P], W.Type[P], W.Predicate[P]})
        Count(Out, Entity);
      for (uint32_t O = W.FirstPatternOperand[P]; O < W.FirstPatternOperand[P + 1]; ++O)
        Count(Out, W.PatternOperand[O]);
    }
  }
}

} // namespace mlgo
