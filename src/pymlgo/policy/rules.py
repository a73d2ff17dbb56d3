"""For each operator what it accepts and the type of what it makes; `ops` says what they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from pymlgo.errors import PolicyError
from pymlgo.policy.operands import (
    ARITHMETIC_TYPES,
    FLOAT,
    INDEX_TYPES,
    Attributes,
    Operands,
    broadcast,
    checked_axis,
    distinct_axes,
    integer,
    integers,
    real,
    require_type,
)
from pymlgo.policy.values import BOOL, ValueType

Rule: TypeAlias = Callable[[Operands, Attributes], ValueType]

# --- moving elements ----------------------------------------------------------------------------------------


def reshape(operands: Operands, attributes: Attributes) -> ValueType:
    """As many elements in the shape `shape`."""
    made = ValueType(operands[0].type.type, integers(attributes, "shape"))
    if made.element_count != operands[0].type.element_count:
        raise PolicyError(f"cannot make {made} from {operands[0].type}")
    return made


def expand_dims(operands: Operands, attributes: Attributes) -> ValueType:
    """An axis of 1 at `axis`."""
    shape = operands[0].type.shape
    axis = checked_axis(integer(attributes, "axis"), len(shape) + 1)
    return ValueType(operands[0].type.type, (*shape[:axis], 1, *shape[axis:]))


def squeeze(operands: Operands, attributes: Attributes) -> ValueType:
    """Without the axes `axes`, which are 1."""
    shape = operands[0].type.shape
    axes = distinct_axes(integers(attributes, "axes"), len(shape))
    if any(shape[axis] != 1 for axis in axes):
        raise PolicyError(f"axes {axes} of {operands[0].type} are not all 1")
    return ValueType(operands[0].type.type, tuple(size for axis, size in enumerate(shape) if axis not in axes))


def transpose(operands: Operands, attributes: Attributes) -> ValueType:
    """Axes in the order of `permutation`."""
    shape, permutation = operands[0].type.shape, integers(attributes, "permutation")
    if sorted(permutation) != list(range(len(shape))):
        raise PolicyError(f"permutation {list(permutation)} does not fit {operands[0].type}")
    return ValueType(operands[0].type.type, tuple(shape[axis] for axis in permutation))


def tile(operands: Operands, attributes: Attributes) -> ValueType:
    """`multiples` times along each axis."""
    shape, multiples = operands[0].type.shape, integers(attributes, "multiples")
    if len(multiples) != len(shape) or any(each < 1 for each in multiples):
        raise PolicyError(f"multiples {list(multiples)} do not fit {operands[0].type}")
    return ValueType(operands[0].type.type, tuple(a * b for a, b in zip(shape, multiples, strict=True)))


def slice_of(operands: Operands, attributes: Attributes) -> ValueType:
    """A window inside the operand."""
    shape, begin, size = operands[0].type.shape, integers(attributes, "begin"), integers(attributes, "size")
    fits = len(begin) == len(size) == len(shape) and all(
        first >= 0 and count >= 1 and first + count <= whole
        for first, count, whole in zip(begin, size, shape, strict=True)
    )
    if not fits:
        raise PolicyError(f"begin {list(begin)}, size {list(size)} leave {operands[0].type}")
    return ValueType(operands[0].type.type, size)


def pack(operands: Operands, attributes: Attributes) -> ValueType:
    """Equal types, joined along a new axis."""
    first = operands[0].type
    if any(each.type != first for each in operands):
        raise PolicyError(f"operands differ: {', '.join(str(each.type) for each in operands[:8])}")
    axis = checked_axis(integer(attributes, "axis"), first.rank + 1)
    return ValueType(first.type, (*first.shape[:axis], len(operands), *first.shape[axis:]))


def concatenation(operands: Operands, attributes: Attributes) -> ValueType:
    """Equal types and shapes, but for the axis that joins them."""
    first = operands[0].type
    axis = checked_axis(integer(attributes, "axis"), first.rank)
    rest = first.shape[:axis] + first.shape[axis + 1 :]
    total = 0
    for each in (operand.type for operand in operands):
        if each.type != first.type or each.rank != first.rank or each.shape[:axis] + each.shape[axis + 1 :] != rest:
            raise PolicyError(f"operands {first} and {each} do not join along axis {axis}")
        total += each.shape[axis]
    return ValueType(first.type, (*first.shape[:axis], total, *first.shape[axis + 1 :]))


def gather(operands: Operands, attributes: Attributes) -> ValueType:
    """The indices' shape in the place of the table's axis."""
    table, indices = operands[0].type, operands[1].type
    require_type(indices, INDEX_TYPES, "indices")
    axis = checked_axis(integer(attributes, "axis"), table.rank)
    return ValueType(table.type, table.shape[:axis] + indices.shape + table.shape[axis + 1 :])


def cast(operands: Operands, attributes: Attributes) -> ValueType:
    """Another element type."""
    return ValueType(str(attributes["type"]), operands[0].type.shape)


# --- elementwise --------------------------------------------------------------------------------------------


def binary(accepted: tuple[str, ...], made: str | None = None) -> Rule:
    """The rule of two operands that broadcast, of one type that is `accepted`; the result has it, or is `made`."""

    def result(operands: Operands, attributes: Attributes) -> ValueType:
        left, right = operands[0].type, operands[1].type
        require_type(left, accepted, "operands")
        if right.type != left.type:
            raise PolicyError(f"operands are of different types: {left} and {right}", hint="CAST one of them")
        return ValueType(made or left.type, broadcast(left.shape, right.shape))

    return result


def unary(accepted: tuple[str, ...]) -> Rule:
    """The rule of one operand of a type that is `accepted`; the result has it too."""

    def result(operands: Operands, attributes: Attributes) -> ValueType:
        require_type(operands[0].type, accepted, "the operand")
        return operands[0].type

    return result


def last_axis(operands: Operands, attributes: Attributes) -> ValueType:
    """Floats with at least one axis."""
    require_type(operands[0].type, (FLOAT,), "the operand")
    if operands[0].type.rank == 0:
        raise PolicyError("needs at least one axis, found a scalar")
    return operands[0].type


def select(operands: Operands, attributes: Attributes) -> ValueType:
    """Three operands that broadcast, the first of bool."""
    condition, then, other = (operand.type for operand in operands)
    require_type(condition, (BOOL,), "the condition")
    if then.type != other.type:
        raise PolicyError(f"choices are of different types: {then} and {other}", hint="CAST one of them")
    return ValueType(then.type, broadcast(condition.shape, then.shape, other.shape))


# --- the model's own ----------------------------------------------------------------------------------------


def bucketize(operands: Operands, attributes: Attributes) -> ValueType:
    """A number and ascending constant boundaries."""
    value, boundaries = operands
    require_type(value.type, ARITHMETIC_TYPES, "the operand")
    if boundaries.constant is None or boundaries.type.type != FLOAT or boundaries.type.rank != 1:
        raise PolicyError(f"boundaries must be a constant float vector, found {boundaries.type}")
    if np.any(np.diff(boundaries.constant) < 0):
        raise PolicyError("boundaries do not ascend")
    return ValueType("int32_t", value.type.shape)


def fully_connected(operands: Operands, attributes: Attributes) -> ValueType:
    """Rows that fit constant, finite weights and bias."""
    value, weights, *bias = (operand.type for operand in operands)
    if attributes["activation"] not in ("none", "relu"):
        raise PolicyError(f"unknown activation {attributes['activation']!r}", hint="known are none and relu")
    require_type(value, (FLOAT,), "the operand")
    if weights.type != FLOAT or weights.rank != 2:
        raise PolicyError(f"weights must be float[outputs, inputs], found {weights}")
    if value.rank == 0 or value.shape[-1] != weights.shape[1]:
        raise PolicyError(f"weights {weights} want {weights.shape[1]} inputs a row, found {value}")
    if bias and bias[0] != ValueType(FLOAT, (weights.shape[0],)):
        raise PolicyError(f"bias must be float[{weights.shape[0]}], found {bias[0]}")
    for operand in operands[1:]:
        if operand.constant is None:
            raise PolicyError("weights and bias must be constants")
        if not np.isfinite(operand.constant).all():
            raise PolicyError("weights or bias are not finite", hint="the training that made them diverged")
    return ValueType(FLOAT, (*value.shape[:-1], weights.shape[0]))


def reduce(operands: Operands, attributes: Attributes) -> ValueType:
    """Floats without the axes `axes`, or with 1 in their place."""
    value = operands[0].type
    require_type(value, (FLOAT,), "the operand")
    axes = distinct_axes(integers(attributes, "axes"), value.rank)
    if not axes:
        raise PolicyError("reduces no axis")
    if attributes["keep_dims"]:
        return ValueType(FLOAT, tuple(1 if axis in axes else size for axis, size in enumerate(value.shape)))
    return ValueType(FLOAT, tuple(size for axis, size in enumerate(value.shape) if axis not in axes))


def arg_max(operands: Operands, attributes: Attributes) -> ValueType:
    """An index type without the axis `axis`."""
    value = operands[0].type
    require_type(value, ARITHMETIC_TYPES, "the operand")
    axis = checked_axis(integer(attributes, "axis"), value.rank)
    made = str(attributes["type"])
    if made not in INDEX_TYPES:
        raise PolicyError(f"makes {made}, expected {' or '.join(INDEX_TYPES)}")
    return ValueType(made, value.shape[:axis] + value.shape[axis + 1 :])


def tree_ensemble(operands: Operands, attributes: Attributes) -> ValueType:
    """Sum of trees over rows of features: f32[…, F] to f32[…, 1].

    Operands after the features are constants, one entry for each inner node of all trees together, in the form of
    LightGBM's model text: `feature` i32[n], `threshold` f32[n], `left` i32[n], `right` i32[n]; then `leaf` f32[m] and
    `roots` i32[trees]. A child or root c ≥ 0 is an inner node, c < 0 is leaf ~c. At a node, `x <= threshold` goes left,
    everything else (NaN too) right. The result is `base` plus the leaves' values in the order of `roots`, in float32.

    Raises:
        PolicyError: a table of another type or length, an index outside, a child at or before its parent (which
            forbids cycles), or leaves and thresholds that are not finite.
    """
    value, tables = operands[0].type, operands[1:]
    require_type(value, (FLOAT,), "the operand")
    if value.rank == 0:
        raise PolicyError("needs rows of features, found a scalar")
    for operand, (name, kind) in zip(tables, _TREE_TABLES.items(), strict=True):
        if operand.constant is None or operand.type.type != kind or operand.type.rank != 1:
            raise PolicyError(f"{name} must be a constant {kind} vector, found {operand.type}")
    feature, threshold, left, right, leaf, roots = (
        operand.constant for operand in tables if operand.constant is not None
    )
    count = len(feature)
    if not len(threshold) == len(left) == len(right) == count:
        raise PolicyError("feature, threshold, left and right differ in length")
    if np.any(feature < 0) or np.any(feature >= value.shape[-1]):
        raise PolicyError(f"a node tests a feature outside 0…{value.shape[-1] - 1}")
    for name, children in (("left", left), ("right", right), ("roots", roots)):
        if np.any(children >= count) or np.any(~children >= len(leaf)):
            raise PolicyError(f"{name} names a node or leaf that does not exist")
    after = np.arange(count)
    if np.any((left >= 0) & (left <= after)) or np.any((right >= 0) & (right <= after)):
        raise PolicyError("a child stands at or before its parent", hint="trees are stored parents first")
    if not (np.isfinite(threshold).all() and np.isfinite(leaf).all() and np.isfinite(real(attributes, "base"))):
        raise PolicyError("a threshold, leaf or the base is not finite")
    return ValueType(FLOAT, (*value.shape[:-1], 1))


_TREE_TABLES = {
    "feature": "int32_t",
    "threshold": FLOAT,
    "left": "int32_t",
    "right": "int32_t",
    "leaf": FLOAT,
    "roots": "int32_t",
}
