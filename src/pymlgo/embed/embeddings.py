"""Vectors with what they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pymlgo.arrays import AnyArray, Float64Array, Int32Array

NONE = -1
"""In an index array: there is no such thing at this level, e.g. no block for a function's vector."""


class Level(StrEnum):
    """What a vector stands for."""

    INSTRUCTION = "instruction"
    BLOCK = "block"
    FUNCTION = "function"
    MODULE = "module"
    LOOP = "loop"
    REGION = "region"


class Kind(StrEnum):
    """How an operand that an instruction defines is counted.

    The first two are LLVM's `IR2VecKind`. The third is ours: order-independent and of bounded length.
    """

    SYMBOLIC = "symbolic"
    FLOW_AWARE = "flow-aware"
    FLOW_NORMALIZED = "flow-normalized"


class Precision(StrEnum):
    """How the numbers were made."""

    EXACT = "exact"
    """LLVM's order of additions: the same bits."""

    FAST = "fast"
    """Counts times table: equal up to rounding."""

    TWO_DECIMALS = "two decimals"
    """Read from what llvm-ir2vec prints."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Embeddings:
    """One vector a row, and an index that no two rows share: unnamed blocks and equal instructions are told apart.

    | level | `function` | `block` | `instruction` |
    |---|---|---|---|
    | instruction | its function | its block's number in the function | its number in the block |
    | block | its function | its number in the function | -1 |
    | function | itself | -1 | -1 |
    | module | -1 | -1 | -1 |
    | loop, region | its function | the header's or entry's number | -1 |
    """

    level: Level
    kind: Kind
    precision: Precision
    vectors: Float64Array
    """f64[n, dimension]"""

    function: Int32Array
    """i32[n]: the function's number in the module, where declarations count too."""

    block: Int32Array
    instruction: Int32Array
    function_names: tuple[str, ...]
    """By function number."""

    block_name: tuple[str, ...] = ()
    """The row's block's name, most of them empty; only at the levels below function."""

    parent: Int32Array | None = None
    """Loops and regions: the row of the one around it, or -1."""

    depth: Int32Array | None = None
    """Loops and regions: nesting depth as LLVM counts (outermost loop 1, whole function 0)."""

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def names(self) -> list[str]:
        """The function's name for each row; empty for a module's."""
        return [self.function_names[number] if number >= 0 else "" for number in self.function]

    @property
    def overflowed(self) -> int:
        """Rows that hold an infinity or NaN: flow-aware vectors grow exponentially along chains of instructions."""
        return int((~np.isfinite(self.vectors)).any(axis=1).sum()) if self.vectors.size else 0

    def of_function(self, name: str) -> Float64Array:
        """The vectors of one function, in order."""
        number = self.function_names.index(name)
        rows: Float64Array = self.vectors[self.function == number]
        return rows

    def columns(self) -> Mapping[str, AnyArray]:
        """The arrays that files hold: `embeddings`, then the index as `function` (names), numbers and structure."""
        found: dict[str, AnyArray] = {
            "embeddings": self.vectors,
            "function": np.array(self.names, dtype=np.str_),
            "function_number": self.function,
            "block": self.block,
            "instruction": self.instruction,
        }
        if self.block_name:
            found["block_name"] = np.array(self.block_name, dtype=np.str_)
        if self.parent is not None and self.depth is not None:
            found |= {"parent": self.parent, "depth": self.depth}
        return found


def as_index(values: Sequence[int] | AnyArray) -> Int32Array:
    """An index array; the value that the walk has for "none" becomes -1."""
    return np.asarray(values).astype(np.uint32, copy=False).view(np.int32).copy()


def no_index(count: int) -> Int32Array:
    """An index array of nothing."""
    return np.full(count, NONE, np.int32)
