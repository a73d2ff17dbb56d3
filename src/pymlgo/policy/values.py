"""What a value of a graph is: an element type and a static shape."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError
from pymlgo.tensor_spec import ELEMENT_TYPES, TensorSpec

BOOL = "bool"
"""The type of comparisons; it exists inside a graph only, never at its inputs or outputs."""

VALUE_TYPES: Mapping[str, np.dtype[Any]] = MappingProxyType({**ELEMENT_TYPES, BOOL: np.dtype(np.bool_)})

LARGEST_VALUE_ELEMENTS = 1 << 22
LARGEST_GRAPH_ELEMENTS = 1 << 24
LARGEST_ELEMENTS_READ = 1 << 26
LARGEST_NODE_COUNT = 20_000
LARGEST_RANK = 8
"""Limits that no model of a compiler comes near, so that a hostile file cannot make us allocate or work without end."""

Attribute: TypeAlias = int | float | str | bool | tuple[int, ...]
"""What a node may carry beside its operands."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}\Z")


def check_identifier(name: str, what: str) -> None:
    """Accept a C identifier of at most 200 characters.

    Raises:
        PolicyError: it is none; `what` says whose name it is.
    """
    if not _IDENTIFIER.match(name):
        shown = name if len(name) <= 80 else f"{name[:77]}…"
        raise PolicyError(
            f"{what}: {shown!r} is not a C identifier",
            hint="names become fields of generated C++; use letters, digits and '_', not a digit first",
        )


@dataclass(frozen=True, slots=True)
class ValueType:
    """Element type (LLVM's spelling, or `bool`) and row-major static shape; `()` is a scalar."""

    type: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.type not in VALUE_TYPES:
            raise PolicyError(f"unknown element type {self.type!r}", hint=f"known are {', '.join(VALUE_TYPES)}")
        if len(self.shape) > LARGEST_RANK:
            raise PolicyError(f"shape {list(self.shape)} has more than {LARGEST_RANK} dimensions")
        if any(dimension < 1 for dimension in self.shape):
            raise PolicyError(
                f"shape {list(self.shape)} has a dimension below 1", hint="only static shapes are supported"
            )
        if self.element_count > LARGEST_VALUE_ELEMENTS:
            raise PolicyError(f"shape {list(self.shape)} has more than {LARGEST_VALUE_ELEMENTS} elements")

    def __str__(self) -> str:
        return f"{self.type}[{', '.join(map(str, self.shape))}]"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of one element."""
        return VALUE_TYPES[self.type]

    @property
    def element_count(self) -> int:
        """Elements in the value."""
        return math.prod(self.shape)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def spec(self, name: str) -> TensorSpec:
        """The value as a tensor that leaves the graph.

        Raises:
            SpecError: it is of type `bool`, which LLVM does not have.
        """
        return TensorSpec(name, self.type, self.shape)

    @classmethod
    def of(cls, array: AnyArray) -> ValueType:
        """The type of an array.

        Raises:
            PolicyError: its dtype is none of LLVM's.
        """
        for name, dtype in VALUE_TYPES.items():
            if array.dtype == dtype:
                return cls(name, array.shape)
        raise PolicyError(f"element type {array.dtype} is not supported", hint=f"known are {', '.join(VALUE_TYPES)}")
