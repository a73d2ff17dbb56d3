"""`Embedder`: the interface of LLVM's document, for one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Self

import numpy as np

from pymlgo.arrays import Float64Array
from pymlgo.embed.core import core
from pymlgo.embed.embeddings import Kind
from pymlgo.embed.levels import KIND_NUMBER, AnyVocabulary, AnyWeights, weighted_table
from pymlgo.embed.module import ParsedFunction, StaleEmbedding
from pymlgo.errors import SpecError


class Embedder:
    """Vectors of one function at three levels, refused or recomputed once the code has changed.

    Source: ir2vec::Embedder (llvm/Analysis/IR2Vec.h, LLVM 22). Departure: a getter's result does not depend on which
    getters were called before; a flow-aware block or instruction is what a fresh embedder gives that visits the blocks
    in layout order, as llvm-ir2vec does.
    """

    def __init__(
        self,
        kind: Kind,
        function: ParsedFunction,
        vocabulary: AnyVocabulary,
        weights: AnyWeights | None,
        on_change: Literal["refuse", "recompute"],
    ) -> None:
        self._kind = kind
        self._function = function
        self._vocabulary = vocabulary
        self._table = weighted_table(function.module, vocabulary, weights)
        self._content_hash = function.content_hash
        self._on_change = on_change

    @classmethod
    def create(
        cls,
        kind: Kind | str,
        function: ParsedFunction,
        vocabulary: AnyVocabulary,
        *,
        weights: AnyWeights | None = None,
        on_change: Literal["refuse", "recompute"] = "refuse",
    ) -> Self:
        """An embedder for `function`, whose code it remembers by a hash.

        `on_change` says what the getters do when the file holds other code for the function than was read: raise
        `StaleEmbedding`, or compute from the new code.

        Raises:
            SpecError: an unknown kind, or one that the function's form or reading does not have.
            VocabularyError: the vocabulary is for the other form of IR.
        """
        if kind not in tuple(Kind):
            raise SpecError(f"unknown kind {kind!r}", hint=f"kinds: {', '.join(Kind)}")
        chosen = Kind(kind)
        if chosen != Kind.SYMBOLIC and not function.module.walk.has_definitions:
            raise SpecError(f"{function.module.name} was read without definitions, which kind {chosen} needs")
        return cls(chosen, function, vocabulary, weights, on_change)

    def get_function_vector(self) -> Float64Array:
        """f64[dimension]: the function's vector; zeros for a declaration.

        Raises:
            StaleEmbedding: the code has changed.
        """
        self._require_current()
        vector: Float64Array = self._filled(core().embed_functions, 1)[0]
        return vector

    def get_bb_vector(self, block: int) -> Float64Array:
        """f64[dimension]: the vector of block number `block`, in layout order.

        Raises:
            StaleEmbedding: the code has changed.
            SpecError: there is no such block.
        """
        return self._one(self.get_bb_vectors(), block, "block")

    def get_inst_vector(self, block: int, instruction: int) -> Float64Array:
        """f64[dimension]: the vector of an instruction by its number in its block.

        Raises:
            StaleEmbedding: the code has changed.
            SpecError: there is no such instruction.
        """
        return self._one(self.get_inst_vectors()[self._checked(block)], instruction, "instruction")

    def get_bb_vectors(self) -> Float64Array:
        """f64[n_blocks, dimension]: all blocks in layout order, unreachable ones too.

        Raises:
            StaleEmbedding: the code has changed.
        """
        self._require_current()
        return self._filled(core().embed_blocks, self._function.block_count)

    def get_inst_vectors(self) -> list[Float64Array]:
        """For each block f64[n_instructions, dimension], all views of one array.

        Raises:
            StaleEmbedding: the code has changed.
        """
        self._require_current()
        walk, number = self._function.module.walk, self._function.number
        blocks = walk.first_block[number : number + 2]
        firsts = walk.first_instruction[int(blocks[0]) : int(blocks[1]) + 1].astype(np.int64)
        rows = self._filled(core().embed_instructions, int(firsts[-1] - firsts[0]))
        return np.split(rows, firsts[1:-1] - firsts[0]) if len(firsts) > 1 else []

    def _filled(self, fill: Callable[..., None], count: int) -> Float64Array:
        out = np.empty((count, self._table.shape[1]))
        number = self._function.number
        fill(self._function.module.walk, self._table, KIND_NUMBER[self._kind], number, number + 1, out)
        return out

    def _require_current(self) -> None:
        if self._function.module.is_current():
            return
        now = self._function.module.reread().function(self._function.name)
        if now.content_hash != self._content_hash and self._on_change == "refuse":
            raise StaleEmbedding(
                f"function {now.name} of {now.module.name} has changed since the embedder was created",
                hint="create a new embedder, or one with on_change='recompute'",
            )
        self._function = now
        self._content_hash = now.content_hash

    @property
    def content_hash(self) -> int:
        """Of the function's code that the vectors are for."""
        return self._content_hash

    def _checked(self, block: int) -> int:
        if not 0 <= block < self._function.block_count:
            raise SpecError(
                f"function {self._function.name} has {self._function.block_count} blocks, found number {block}"
            )
        return block

    def _one(self, rows: Float64Array, number: int, what: str) -> Float64Array:
        if not 0 <= number < len(rows):
            raise SpecError(f"function {self._function.name} has no {what} number {number}: there are {len(rows)}")
        row: Float64Array = rows[number]
        return row


class MIREmbedder(Embedder):
    """Vectors of one machine function, under the names that LLVM's document has for them.

    Source: mir2vec::MIREmbedder (llvm/CodeGen/MIR2Vec.h, LLVM 22), whose only kind is symbolic.
    """

    def get_m_function_vector(self) -> Float64Array:
        """f64[dimension]: see `get_function_vector`."""
        return self.get_function_vector()

    def get_mbb_vector(self, block: int) -> Float64Array:
        """f64[dimension]: see `get_bb_vector`."""
        return self.get_bb_vector(block)

    def get_m_inst_vector(self, block: int, instruction: int) -> Float64Array:
        """f64[dimension]: see `get_inst_vector`."""
        return self.get_inst_vector(block, instruction)
