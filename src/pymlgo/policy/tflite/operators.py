"""How a TFLite operator becomes operators of the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError
from pymlgo.policy.builder import GraphBuilder, Value
from pymlgo.policy.tflite import schema
from pymlgo.policy.tflite.flatbuffer import Table
from pymlgo.policy.values import LARGEST_RANK, ValueType


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One operator of the file.

    Attributes:
        make: where the graph grows.
        operands: the values it reads; None where an optional one is absent.
        constants: the elements of those that are constants.
        options: its builtin options, if it has any.
        result: the type that the file gives to what it makes.
    """

    make: GraphBuilder
    operands: tuple[Value | None, ...]
    constants: tuple[AnyArray | None, ...]
    options: Table | None
    result: ValueType

    def operand(self, index: int) -> Value:
        """An operand that must be there."""
        if index >= len(self.operands):
            raise PolicyError(f"has {len(self.operands)} operands, expected more")
        value = self.operands[index]
        if value is None:
            raise PolicyError(f"operand {index} is absent")
        return value

    def all_operands(self) -> tuple[Value, ...]:
        """The operands, all of which must be there."""
        return tuple(self.operand(index) for index in range(len(self.operands)))

    def integers(self, index: int) -> tuple[int, ...]:
        """A constant operand of a few integers (a shape, axes)."""
        elements = self.constants[index] if index < len(self.constants) else None
        if elements is None or elements.dtype.kind != "i":
            raise PolicyError(f"operand {index} must be a constant of integers")
        if elements.size > LARGEST_RANK:
            raise PolicyError(f"operand {index} has {elements.size} elements, more than {LARGEST_RANK}")
        return tuple(int(each) for each in elements.ravel())

    def integer(self, index: int) -> int:
        """A constant operand of one integer."""
        found = self.integers(index)
        if len(found) != 1:
            raise PolicyError(f"operand {index} must be one integer, found {list(found)}")
        return found[0]

    def option(self, field: int, kind: str, default: int = 0) -> int:
        """A number among the options."""
        return self.options.scalar(field, kind, default) if self.options else default

    def activated(self, value: Value, field: int = 0) -> Value:
        """`value` after the fused activation that the options name."""
        match self.option(field, "b"):
            case schema.ACTIVATION_NONE:
                return value
            case schema.ACTIVATION_RELU:
                return self.make.apply("RELU", value)
            case schema.ACTIVATION_TANH:
                return self.make.apply("TANH", value)
            case code:
                raise PolicyError(f"fused activation {code} is not supported", hint="supported are none, relu and tanh")


Importer = Callable[[Imported], Value]


def _plain(op: str) -> Importer:
    return lambda given: given.make.apply(op, *given.all_operands())


def _arithmetic(op: str) -> Importer:
    return lambda given: given.activated(given.make.apply(op, *given.all_operands()))


def _axis(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


def _axes(given: Imported, rank: int) -> tuple[int, ...]:
    return tuple(sorted({_axis(axis, rank) for axis in given.integers(1)}))


def _reshape(given: Imported) -> Value:
    # The target may hold -1 and may be an operand or an option; the result's own type always says it.
    return given.make.apply("RESHAPE", given.operand(0), shape=given.result.shape)


def _expand_dims(given: Imported) -> Value:
    value = given.operand(0)
    return given.make.apply("EXPAND_DIMS", value, axis=_axis(given.integer(1), value.type.rank + 1))


def _squeeze(given: Imported) -> Value:
    value = given.operand(0)
    named = given.options.integers(0, LARGEST_RANK) if given.options else ()
    axes = sorted({_axis(axis, value.type.rank) for axis in named})
    if not axes:
        axes = [axis for axis, size in enumerate(value.type.shape) if size == 1]
    return given.make.apply("SQUEEZE", value, axes=tuple(axes))


def _slice(given: Imported) -> Value:
    value, begin, size = given.operand(0), given.integers(1), given.integers(2)
    if not len(begin) == len(size) == value.type.rank:
        raise PolicyError(f"begin {list(begin)}, size {list(size)} do not fit {value.type}")
    whole = tuple(
        length - first if count == -1 else count
        for first, count, length in zip(begin, size, value.type.shape, strict=True)
    )
    return value.slice(begin, whole)


def _strided_slice(given: Imported) -> Value:
    """Strides of 1 only; an index that drops its axis becomes a window of 1 and a RESHAPE."""
    value = given.operand(0)
    begin, end, strides = (given.integers(index) for index in (1, 2, 3))
    masks = [given.option(field, "i") for field in range(5)]
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask = masks
    if not len(begin) == len(end) == len(strides) == value.type.rank or ellipsis_mask or new_axis_mask:
        raise PolicyError(f"window {list(begin)}…{list(end)} of {value.type} is of a kind that is not supported")
    first, size = [], []
    for axis, length in enumerate(value.type.shape):
        start = 0 if begin_mask >> axis & 1 else min(max(_axis(begin[axis], length), 0), length)
        stop = length if end_mask >> axis & 1 else min(max(_axis(end[axis], length), 0), length)
        if strides[axis] != 1:
            raise PolicyError(f"stride {strides[axis]} is not supported")
        first.append(start)
        size.append(1 if shrink_mask >> axis & 1 else stop - start)
    window = value.slice(first, size)
    return window.reshape(*given.result.shape) if shrink_mask else window


def _concatenation(given: Imported) -> Value:
    values = given.all_operands()
    axis = _axis(given.option(0, "i"), values[0].type.rank if values else 0)
    return given.activated(given.make.apply("CONCATENATION", *values, axis=axis), field=1)


def _pack(given: Imported) -> Value:
    values = given.all_operands()
    rank = values[0].type.rank + 1 if values else 1
    return given.make.apply("PACK", *values, axis=_axis(given.option(1, "i"), rank))


def _gather(given: Imported) -> Value:
    table, indices = given.operand(0), given.operand(1)
    if given.option(1, "i") != 0:
        raise PolicyError("batched gathering is not supported")
    return given.make.apply("GATHER", table, indices, axis=_axis(given.option(0, "i"), table.type.rank))


def _embedding_lookup(given: Imported) -> Value:
    return given.make.apply("GATHER", given.operand(1), given.operand(0), axis=0)


def _fully_connected(given: Imported) -> Value:
    value, weights = given.operand(0), given.operand(1)
    if given.option(1, "b") != 0:
        raise PolicyError("shuffled weights are not supported")
    if weights.type.rank != 2:
        raise PolicyError(f"weights must have two dimensions, found {weights.type}")
    keeps_dimensions = bool(given.option(2, "?"))
    columns = weights.type.shape[1]
    if not keeps_dimensions and value.type.rank != 2 and value.type.element_count % columns == 0:
        value = value.reshape(value.type.element_count // columns, columns)
    bias = given.operands[2:3] if given.operands[2:3] != (None,) else ()
    relu = given.option(0, "b") == schema.ACTIVATION_RELU
    operands = (value, weights, *(each for each in bias if each is not None))
    made = given.make.apply("FULLY_CONNECTED", *operands, activation="relu" if relu else "none")
    return made if relu else given.activated(made)


def _bucketize(given: Imported) -> Value:
    if given.options is None:
        raise PolicyError("has no boundaries")
    return given.operand(0).bucketize(given.options.numbers(0, "f4"))


def _reduction(op: str) -> Importer:
    def convert(given: Imported) -> Value:
        value = given.operand(0)
        keep = bool(given.option(0, "?"))
        return given.make.apply(op, value, axes=_axes(given, value.type.rank), keep_dims=keep)

    return convert


def _softmax(given: Imported) -> Value:
    beta = given.options.real(0) if given.options else 0.0
    if beta != 1.0:
        raise PolicyError(f"beta {beta} is not supported, expected 1")
    return given.make.apply("SOFTMAX", given.operand(0))


def _arg_max(given: Imported) -> Value:
    value = given.operand(0)
    return given.make.apply("ARG_MAX", value, axis=_axis(given.integer(1), value.type.rank), type=given.result.type)


def _zeros_like(given: Imported) -> Value:
    return _repeated(given, np.zeros((), given.result.dtype))


def _fill(given: Imported) -> Value:
    elements = given.constants[1] if len(given.constants) == 2 else None
    if elements is None or elements.size != 1:
        raise PolicyError("fills with what is no constant")
    return _repeated(given, elements.reshape(()).astype(given.result.dtype))


def _repeated(given: Imported, element: AnyArray) -> Value:
    # Not spelled out as a constant: a small file could ask for many large ones.
    single = given.make.constant(element.reshape((1,) * given.result.rank))
    return single if given.result.element_count == 1 else single.tile(*given.result.shape)


_PLAIN = """
    MAXIMUM MINIMUM ABS NEG SQRT EXP LOG TANH LOGISTIC ELU RELU EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL
    LOGICAL_AND LOGICAL_OR LOGICAL_NOT SELECT_V2 LOG_SOFTMAX
"""

IMPORTERS: Mapping[str, Importer] = {
    **{op: _plain(op) for op in _PLAIN.split()},
    **{op: _arithmetic(op) for op in ("ADD", "SUB", "MUL", "DIV")},
    **{op: _reduction(op) for op in ("SUM", "MEAN", "REDUCE_MAX")},
    "RESHAPE": _reshape,
    "EXPAND_DIMS": _expand_dims,
    "SQUEEZE": _squeeze,
    "TRANSPOSE": lambda given: given.make.apply("TRANSPOSE", given.operand(0), permutation=given.integers(1)),
    "TILE": lambda given: given.operand(0).tile(*given.integers(1)),
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
    "CONCATENATION": _concatenation,
    "PACK": _pack,
    "GATHER": _gather,
    "EMBEDDING_LOOKUP": _embedding_lookup,
    "CAST": lambda given: given.make.apply("CAST", given.operand(0), type=given.result.type),
    "SELECT": _plain("SELECT_V2"),
    "SQUARE": lambda given: given.operand(0) * given.operand(0),
    "FULLY_CONNECTED": _fully_connected,
    "BUCKETIZE": _bucketize,
    "SOFTMAX": _softmax,
    "ARG_MAX": _arg_max,
    "ZEROS_LIKE": _zeros_like,
    "FILL": _fill,
}
"""By the operator's name."""
