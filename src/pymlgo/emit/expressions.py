"""Elementwise operators as C++ expressions, each exactly one IEEE operation or one call of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pymlgo.emit.literals import literal
from pymlgo.policy.values import VALUE_TYPES

_COMPARISONS = {
    "EQUAL": "==",
    "NOT_EQUAL": "!=",
    "LESS": "<",
    "LESS_EQUAL": "<=",
    "GREATER": ">",
    "GREATER_EQUAL": ">=",
}
_LOGICAL = {"LOGICAL_AND": "&&", "LOGICAL_OR": "||"}
_ARITHMETIC = {"ADD": ("+", "wrap_add"), "SUB": ("-", "wrap_sub"), "MUL": ("*", "wrap_mul"), "DIV": ("/", "")}
_CALLS: Mapping[str, Callable[[str], str]] = {
    "SQRT": lambda x: f"__builtin_sqrtf({x})",
    "EXP": lambda x: f"exp_f32({x})",
    "LOG": lambda x: f"log_f32({x})",
    "TANH": lambda x: f"tanh_f32({x})",
    "LOGISTIC": lambda x: f"logistic_f32({x})",
    "ELU": lambda x: f"elu_f32({x})",
}
ELEMENTARY = frozenset({"EXP", "LOG", "TANH", "LOGISTIC", "ELU"})


def expression(op: str, operands: Sequence[str], source_type: str, made_type: str) -> str:
    """The result of an elementwise operator.

    Args:
        op: the operator's name.
        operands: C++ of the operands: names, elements or literals.
        source_type: element type of the first operand.
        made_type: element type of the result.
    """
    floats = source_type == "float"
    match op, operands:
        case "COPY", [x]:
            return x
        case "CAST", [x]:
            return cast(x, source_type, made_type)
        case (("ADD" | "SUB" | "MUL" | "DIV"), [a, b]):
            sign, call = _ARITHMETIC[op]
            return f"{a} {sign} {b}" if floats else f"{call}({a}, {b})"
        case "MAXIMUM", [a, b]:
            return f"{a} > {b} ? {a} : {b}"
        case "MINIMUM", [a, b]:
            return f"{a} < {b} ? {a} : {b}"
        case "ABS", [x]:
            return f"__builtin_fabsf({x})" if floats else f"wrap_abs({x})"
        case "NEG", [x]:
            return f"-{x}" if floats else f"wrap_sub({source_type}(0), {x})"
        case "RELU", [x]:
            return f"{x} < 0.0f ? 0.0f : {x}"
        case "LOGICAL_NOT", [x]:
            return f"!{x}"
        case "SELECT_V2", [condition, then, other]:
            return f"{condition} ? {then} : {other}"
        case _, [a, b] if op in _COMPARISONS:
            return f"{a} {_COMPARISONS[op]} {b}"
        case _, [a, b] if op in _LOGICAL:
            return f"{a} {_LOGICAL[op]} {b}"
        case _, [x]:
            return _CALLS[op](x)
        case _:
            raise AssertionError(f"{op} of {len(operands)} operands is not elementwise")


def cast(x: str, source_type: str, made_type: str) -> str:
    """C's conversion, but from floating point to integers, where it saturates."""
    source, made = VALUE_TYPES[source_type], VALUE_TYPES[made_type]
    if made_type == "bool":
        return f"{x} != {literal(source.type(0), source_type)}"
    if saturates(source_type, made_type):
        limits = np.iinfo(made)
        above = source.type(float(limits.max) + (limits.bits < 53))
        least = source.type(limits.min)
        return f"saturate<{made_type}>({x}, {literal(above, source_type)}, {literal(least, source_type)})"
    return f"static_cast<{made_type}>({x})"


def saturates(source_type: str, made_type: str) -> bool:
    """Whether a CAST goes from floating point to integers."""
    return VALUE_TYPES[source_type].kind == "f" and VALUE_TYPES[made_type].kind in "iu"
