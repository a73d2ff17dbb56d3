"""The operators of a graph: for each, what it accepts and the type of what it makes.

The arithmetic is float32 and is defined operation by operation (no fused multiply-add), so that the interpreter and
generated C++ agree bit for bit. Attributes stand in parentheses.

RESHAPE (shape), EXPAND_DIMS (axis), SQUEEZE (axes): the same elements, row-major.
TRANSPOSE (permutation), TILE (multiples), SLICE (begin, size), PACK (axis), CONCATENATION (axis): move elements.
GATHER (axis): table, integer indices; an index outside is clamped to the table.
CAST (type): C's conversion; float to integer saturates and takes NaN to 0; to bool is `x != 0`.
ADD, SUB, MUL, DIV: numpy's broadcasting; integers wrap; DIV is for floats only.
MAXIMUM, MINIMUM: `a > b ? a : b` and `a < b ? a : b`, so NaN in either gives b, as x86's maxps and minps do.
ABS, NEG, SQRT: elementwise. EXP, LOG, TANH, LOGISTIC, ELU: elementwise, as `elementary` defines them.
RELU: `0 > x ? 0 : x`, so NaN stays NaN and -0 stays -0.
EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL: make bool, by IEEE's rules. LOGICAL_AND, _OR, _NOT: of bool.
SELECT_V2: condition, then, else; all three broadcast.
BUCKETIZE: x, ascending constant boundaries f32[n]; makes int32, the number of boundaries ≤ float32(x); NaN gives n.
FULLY_CONNECTED (activation: none or relu): x f32[…, I], constant weights f32[O, I], constant bias f32[O] (optional:
    zeros); every output starts with its bias and adds x[i] * w[o, i] for i = 0…I-1 in order; then RELU where asked.
SUM, MEAN (axes, keep_dims): from 0, in row-major order of the reduced axes; MEAN then divides by the count.
REDUCE_MAX (axes, keep_dims): from the first element, `x > best ? x : best` in row-major order of the reduced axes.
SOFTMAX, LOG_SOFTMAX: over the last axis: m = REDUCE_MAX(x), s = SUM(EXP(x - m)); EXP(x - m) / s, or (x - m) - LOG(s).
ARG_MAX (axis, type): the first largest: starts at element 0, moves on where `x > best`; a NaN wins only at 0.
TreeEnsemble (base): see `infer_tree_ensemble`.

Source: the builtins of TensorFlow Lite that TF 2.15 emits for upstream's two policies, with its semantics. Departures:
integer overflow, GATHER outside the table and CAST out of range are defined here, where TFLite fails or leaves them
to the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError
from pymlgo.policy.values import BOOL, Attribute, ValueType

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """The rule of one operator: its number of operands, its attributes, and the type of its result."""

    least: int
    most: int | None
    attributes: Mapping[str, type]
    result: Callable[[Operands, Attributes], ValueType]

    def infer(self, operands: Operands, attributes: Attributes) -> ValueType:
        """The type of the result.

        Raises:
            PolicyError: wrong number of operands, a missing, unknown or ill-typed attribute, or types it refuses.
        """
        if len(operands) < self.least or (self.most is not None and len(operands) > self.most):
            wanted = str(self.least) if self.least == self.most else f"{self.least} to {self.most or 'many'}"
            raise PolicyError(f"takes {wanted} operands, found {len(operands)}")
        for key, kind in self.attributes.items():
            if key not in attributes:
                raise PolicyError(f"lacks the attribute {key!r}")
            if not _is_of(attributes[key], kind):
                raise PolicyError(f"attribute {key!r} must be {kind.__name__}, found {attributes[key]!r}")
        for key in attributes:
            if key not in self.attributes:
                raise PolicyError(f"has the unknown attribute {key!r}")
        return self.result(operands, attributes)


def _is_of(value: object, kind: type) -> bool:
    if kind is tuple:
        return isinstance(value, tuple) and all(type(each) is int for each in value)
    return type(value) is kind


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


# --- moving elements ----------------------------------------------------------------------------------------


def _reshape(operands: Operands, attributes: Attributes) -> ValueType:
    made = ValueType(operands[0].type.type, integers(attributes, "shape"))
    if made.element_count != operands[0].type.element_count:
        raise PolicyError(f"cannot make {made} from {operands[0].type}")
    return made


def _expand_dims(operands: Operands, attributes: Attributes) -> ValueType:
    shape = operands[0].type.shape
    axis = checked_axis(integer(attributes, "axis"), len(shape) + 1)
    return ValueType(operands[0].type.type, (*shape[:axis], 1, *shape[axis:]))


def _squeeze(operands: Operands, attributes: Attributes) -> ValueType:
    shape = operands[0].type.shape
    axes = distinct_axes(integers(attributes, "axes"), len(shape))
    if any(shape[axis] != 1 for axis in axes):
        raise PolicyError(f"axes {axes} of {operands[0].type} are not all 1")
    return ValueType(operands[0].type.type, tuple(size for axis, size in enumerate(shape) if axis not in axes))


def _transpose(operands: Operands, attributes: Attributes) -> ValueType:
    shape, permutation = operands[0].type.shape, integers(attributes, "permutation")
    if sorted(permutation) != list(range(len(shape))):
        raise PolicyError(f"permutation {list(permutation)} does not fit {operands[0].type}")
    return ValueType(operands[0].type.type, tuple(shape[axis] for axis in permutation))


def _tile(operands: Operands, attributes: Attributes) -> ValueType:
    shape, multiples = operands[0].type.shape, integers(attributes, "multiples")
    if len(multiples) != len(shape) or any(each < 1 for each in multiples):
        raise PolicyError(f"multiples {list(multiples)} do not fit {operands[0].type}")
    return ValueType(operands[0].type.type, tuple(a * b for a, b in zip(shape, multiples, strict=True)))


def _slice(operands: Operands, attributes: Attributes) -> ValueType:
    shape, begin, size = operands[0].type.shape, integers(attributes, "begin"), integers(attributes, "size")
    fits = len(begin) == len(size) == len(shape) and all(
        first >= 0 and count >= 1 and first + count <= whole
        for first, count, whole in zip(begin, size, shape, strict=True)
    )
    if not fits:
        raise PolicyError(f"begin {list(begin)}, size {list(size)} leave {operands[0].type}")
    return ValueType(operands[0].type.type, size)


def _pack(operands: Operands, attributes: Attributes) -> ValueType:
    first = operands[0].type
    if any(each.type != first for each in operands):
        raise PolicyError(f"operands differ: {', '.join(str(each.type) for each in operands[:8])}")
    axis = checked_axis(integer(attributes, "axis"), first.rank + 1)
    return ValueType(first.type, (*first.shape[:axis], len(operands), *first.shape[axis:]))


def _concatenation(operands: Operands, attributes: Attributes) -> ValueType:
    first = operands[0].type
    axis = checked_axis(integer(attributes, "axis"), first.rank)
    rest = first.shape[:axis] + first.shape[axis + 1 :]
    total = 0
    for each in (operand.type for operand in operands):
        if each.type != first.type or each.rank != first.rank or each.shape[:axis] + each.shape[axis + 1 :] != rest:
            raise PolicyError(f"operands {first} and {each} do not join along axis {axis}")
        total += each.shape[axis]
    return ValueType(first.type, (*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _gather(operands: Operands, attributes: Attributes) -> ValueType:
    table, indices = operands[0].type, operands[1].type
    _require_type(indices, INDEX_TYPES, "indices")
    axis = checked_axis(integer(attributes, "axis"), table.rank)
    return ValueType(table.type, table.shape[:axis] + indices.shape + table.shape[axis + 1 :])


def _cast(operands: Operands, attributes: Attributes) -> ValueType:
    return ValueType(str(attributes["type"]), operands[0].type.shape)


# --- elementwise --------------------------------------------------------------------------------------------


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that numpy's rules give.

    Raises:
        PolicyError: they do not fit together.
    """
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise PolicyError(f"shapes {', '.join(str(list(each)) for each in shapes)} do not broadcast") from error


def _binary(accepted: tuple[str, ...], made: str | None = None) -> Callable[[Operands, Attributes], ValueType]:
    def result(operands: Operands, attributes: Attributes) -> ValueType:
        left, right = operands[0].type, operands[1].type
        _require_type(left, accepted, "operands")
        if right.type != left.type:
            raise PolicyError(f"operands are of different types: {left} and {right}", hint="CAST one of them")
        return ValueType(made or left.type, broadcast(left.shape, right.shape))

    return result


def _unary(accepted: tuple[str, ...]) -> Callable[[Operands, Attributes], ValueType]:
    def result(operands: Operands, attributes: Attributes) -> ValueType:
        _require_type(operands[0].type, accepted, "the operand")
        return operands[0].type

    return result


def _last_axis(operands: Operands, attributes: Attributes) -> ValueType:
    _require_type(operands[0].type, (FLOAT,), "the operand")
    if operands[0].type.rank == 0:
        raise PolicyError("needs at least one axis, found a scalar")
    return operands[0].type


def _select(operands: Operands, attributes: Attributes) -> ValueType:
    condition, then, other = (operand.type for operand in operands)
    _require_type(condition, (BOOL,), "the condition")
    if then.type != other.type:
        raise PolicyError(f"choices are of different types: {then} and {other}", hint="CAST one of them")
    return ValueType(then.type, broadcast(condition.shape, then.shape, other.shape))


# --- the model's own ----------------------------------------------------------------------------------------


def _bucketize(operands: Operands, attributes: Attributes) -> ValueType:
    value, boundaries = operands
    _require_type(value.type, ARITHMETIC_TYPES, "the operand")
    if boundaries.constant is None or boundaries.type.type != FLOAT or boundaries.type.rank != 1:
        raise PolicyError(f"boundaries must be a constant float vector, found {boundaries.type}")
    if np.any(np.diff(boundaries.constant) < 0):
        raise PolicyError("boundaries do not ascend")
    return ValueType("int32_t", value.type.shape)


def _fully_connected(operands: Operands, attributes: Attributes) -> ValueType:
    value, weights, *bias = (operand.type for operand in operands)
    if attributes["activation"] not in ("none", "relu"):
        raise PolicyError(f"unknown activation {attributes['activation']!r}", hint="known are none and relu")
    _require_type(value, (FLOAT,), "the operand")
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


def _reduce(operands: Operands, attributes: Attributes) -> ValueType:
    value = operands[0].type
    _require_type(value, (FLOAT,), "the operand")
    axes = distinct_axes(integers(attributes, "axes"), value.rank)
    if not axes:
        raise PolicyError("reduces no axis")
    if attributes["keep_dims"]:
        return ValueType(FLOAT, tuple(1 if axis in axes else size for axis, size in enumerate(value.shape)))
    return ValueType(FLOAT, tuple(size for axis, size in enumerate(value.shape) if axis not in axes))


def _arg_max(operands: Operands, attributes: Attributes) -> ValueType:
    value = operands[0].type
    _require_type(value, ARITHMETIC_TYPES, "the operand")
    axis = checked_axis(integer(attributes, "axis"), value.rank)
    made = str(attributes["type"])
    if made not in INDEX_TYPES:
        raise PolicyError(f"makes {made}, expected {' or '.join(INDEX_TYPES)}")
    return ValueType(made, value.shape[:axis] + value.shape[axis + 1 :])


def infer_tree_ensemble(operands: Operands, attributes: Attributes) -> ValueType:
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
    _require_type(value, (FLOAT,), "the operand")
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


# --- what they share ----------------------------------------------------------------------------------------


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


def _require_type(found: ValueType, accepted: tuple[str, ...], what: str) -> None:
    if found.type not in accepted:
        raise PolicyError(f"{what} must be of {' or '.join(accepted)}, found {found}", hint="CAST it")


def _operator(
    count: int | tuple[int, int | None],
    result: Callable[[Operands, Attributes], ValueType],
    **attributes: type,
) -> Operator:
    least, most = count if isinstance(count, tuple) else (count, count)
    return Operator(least=least, most=most, attributes=attributes, result=result)


_ARITHMETIC = _operator(2, _binary(ARITHMETIC_TYPES))
_COMPARISON = _operator(2, _binary(ARITHMETIC_TYPES, made=BOOL))
_FLOAT_UNARY = _operator(1, _unary((FLOAT,)))
_LOGICAL = _operator(2, _binary((BOOL,)))
_REDUCTION = _operator(1, _reduce, axes=tuple, keep_dims=bool)

OPERATORS: Mapping[str, Operator] = {
    "RESHAPE": _operator(1, _reshape, shape=tuple),
    "EXPAND_DIMS": _operator(1, _expand_dims, axis=int),
    "SQUEEZE": _operator(1, _squeeze, axes=tuple),
    "TRANSPOSE": _operator(1, _transpose, permutation=tuple),
    "TILE": _operator(1, _tile, multiples=tuple),
    "SLICE": _operator(1, _slice, begin=tuple, size=tuple),
    "PACK": _operator((1, None), _pack, axis=int),
    "CONCATENATION": _operator((1, None), _concatenation, axis=int),
    "GATHER": _operator(2, _gather, axis=int),
    "CAST": _operator(1, _cast, type=str),
    "ADD": _ARITHMETIC,
    "SUB": _ARITHMETIC,
    "MUL": _ARITHMETIC,
    "DIV": _operator(2, _binary((FLOAT,))),
    "MAXIMUM": _ARITHMETIC,
    "MINIMUM": _ARITHMETIC,
    "ABS": _operator(1, _unary(ARITHMETIC_TYPES)),
    "NEG": _operator(1, _unary(ARITHMETIC_TYPES)),
    "SQRT": _FLOAT_UNARY,
    "EXP": _FLOAT_UNARY,
    "LOG": _FLOAT_UNARY,
    "TANH": _FLOAT_UNARY,
    "LOGISTIC": _FLOAT_UNARY,
    "ELU": _FLOAT_UNARY,
    "RELU": _FLOAT_UNARY,
    "EQUAL": _COMPARISON,
    "NOT_EQUAL": _COMPARISON,
    "LESS": _COMPARISON,
    "LESS_EQUAL": _COMPARISON,
    "GREATER": _COMPARISON,
    "GREATER_EQUAL": _COMPARISON,
    "LOGICAL_AND": _LOGICAL,
    "LOGICAL_OR": _LOGICAL,
    "LOGICAL_NOT": _operator(1, _unary((BOOL,))),
    "SELECT_V2": _operator(3, _select),
    "BUCKETIZE": _operator(2, _bucketize),
    "FULLY_CONNECTED": _operator((2, 3), _fully_connected, activation=str),
    "SUM": _REDUCTION,
    "MEAN": _REDUCTION,
    "REDUCE_MAX": _REDUCTION,
    "SOFTMAX": _operator(1, _last_axis),
    "LOG_SOFTMAX": _operator(1, _last_axis),
    "ARG_MAX": _operator(1, _arg_max, axis=int, type=str),
    "TreeEnsemble": _operator(7, infer_tree_ensemble, base=float),
}
