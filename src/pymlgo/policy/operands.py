"""What an operator knows of its operands and attributes, and the checks that rules share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError
from pymlgo.policy.values import Attribute, ValueType

FLOAT = "float"
INDEX_TYPES = ("int32_t", "int64_t")
ARITHMETIC_TYPES = (FLOAT, *INDEX_TYPES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """What an operator knows of one operand: its type, and its elements where it is a constant."""

    type: ValueType
    constant: AnyArray | None = None


Operands: TypeAlias = tuple[Operand, ...]
Attributes: TypeAlias = Mapping[str, Attribute]


def integers(attributes: Attributes, key: str) -> tuple[int, ...]:
    """The attribute that is known to be a tuple of integers."""
    value = attributes[key]
    if not isinstance(value, tuple):
        raise PolicyError(f"attribute {key!r} must be a list of integers, found {value!r}")
    return value


def integer(attributes: Attributes, key: str) -> int:
    """The attribute that is known to be an integer."""
    value = attributes[key]
    if type(value) is not int:
        raise PolicyError(f"attribute {key!r} must be an integer, found {value!r}")
    return value


def real(attributes: Attributes, key: str) -> float:
    """The attribute that is known to be a float."""
    value = attributes[key]
    if type(value) is not float:
        raise PolicyError(f"attribute {key!r} must be a float, found {value!r}")
    return value


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that numpy's rules give.

    Raises:
        PolicyError: they do not fit together.
    """
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise PolicyError(f"shapes {', '.join(str(list(each)) for each in shapes)} do not broadcast") from error


def checked_axis(axis: int, rank: int) -> int:
    """`axis`, which must be in 0…rank-1 (a graph has no negative axes).

    Raises:
        PolicyError: it is not.
    """
    if not 0 <= axis < rank:
        raise PolicyError(f"axis {axis} is outside 0…{rank - 1}")
    return axis


def distinct_axes(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """`axes`, which must be ascending and in 0…rank-1.

    Raises:
        PolicyError: they are not.
    """
    if list(axes) != sorted(set(axes)):
        raise PolicyError(f"axes {list(axes)} do not ascend")
    return tuple(checked_axis(axis, rank) for axis in axes)


def require_type(found: ValueType, accepted: tuple[str, ...], what: str) -> None:
    """Accept a value of one of the types.

    Raises:
        PolicyError: it is of another; `what` says which operand it is.
    """
    if found.type not in accepted:
        raise PolicyError(f"{what} must be of {' or '.join(accepted)}, found {found}", hint="CAST it")
