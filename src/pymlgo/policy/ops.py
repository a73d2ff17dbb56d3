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
TreeEnsemble (base): see `rules.tree_ensemble`.

Source: the builtins of TensorFlow Lite that TF 2.15 emits for upstream's two policies, with its semantics. Departures:
integer overflow, GATHER outside the table and CAST out of range are defined here, where TFLite fails or leaves them
to the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pymlgo.errors import PolicyError
from pymlgo.policy import rules
from pymlgo.policy.operands import ARITHMETIC_TYPES, FLOAT, Attributes, Operands
from pymlgo.policy.rules import Rule
from pymlgo.policy.values import BOOL, ValueType


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """The rule of one operator: its number of operands, its attributes, and the type of its result."""

    least: int
    most: int | None
    attributes: Mapping[str, type]
    rule: Rule

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
        return self.rule(operands, attributes)


def _is_of(value: object, kind: type) -> bool:
    if kind is tuple:
        return isinstance(value, tuple) and all(type(each) is int for each in value)
    return type(value) is kind


def _operator(
    count: int | tuple[int, int | None],
    rule: Rule,
    **attributes: type,
) -> Operator:
    least, most = count if isinstance(count, tuple) else (count, count)
    return Operator(least=least, most=most, attributes=attributes, rule=rule)


_ARITHMETIC = _operator(2, rules.binary(ARITHMETIC_TYPES))
_COMPARISON = _operator(2, rules.binary(ARITHMETIC_TYPES, made=BOOL))
_FLOAT_UNARY = _operator(1, rules.unary((FLOAT,)))
_LOGICAL = _operator(2, rules.binary((BOOL,)))
_REDUCTION = _operator(1, rules.reduce, axes=tuple, keep_dims=bool)

OPERATORS: Mapping[str, Operator] = {
    "RESHAPE": _operator(1, rules.reshape, shape=tuple),
    "EXPAND_DIMS": _operator(1, rules.expand_dims, axis=int),
    "SQUEEZE": _operator(1, rules.squeeze, axes=tuple),
    "TRANSPOSE": _operator(1, rules.transpose, permutation=tuple),
    "TILE": _operator(1, rules.tile, multiples=tuple),
    "SLICE": _operator(1, rules.slice_of, begin=tuple, size=tuple),
    "PACK": _operator((1, None), rules.pack, axis=int),
    "CONCATENATION": _operator((1, None), rules.concatenation, axis=int),
    "GATHER": _operator(2, rules.gather, axis=int),
    "CAST": _operator(1, rules.cast, type=str),
    "ADD": _ARITHMETIC,
    "SUB": _ARITHMETIC,
    "MUL": _ARITHMETIC,
    "DIV": _operator(2, rules.binary((FLOAT,))),
    "MAXIMUM": _ARITHMETIC,
    "MINIMUM": _ARITHMETIC,
    "ABS": _operator(1, rules.unary(ARITHMETIC_TYPES)),
    "NEG": _operator(1, rules.unary(ARITHMETIC_TYPES)),
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
    "LOGICAL_NOT": _operator(1, rules.unary((BOOL,))),
    "SELECT_V2": _operator(3, rules.select),
    "BUCKETIZE": _operator(2, rules.bucketize),
    "FULLY_CONNECTED": _operator((2, 3), rules.fully_connected, activation=str),
    "SUM": _REDUCTION,
    "MEAN": _REDUCTION,
    "REDUCE_MAX": _REDUCTION,
    "SOFTMAX": _operator(1, rules.last_axis),
    "LOG_SOFTMAX": _operator(1, rules.last_axis),
    "ARG_MAX": _operator(1, rules.arg_max, axis=int, type=str),
    "TreeEnsemble": _operator(7, rules.tree_ensemble, base=float),
}
