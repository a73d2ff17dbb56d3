"""Numbers and names as C++ writes them, exactly. LLVM's spelling of an element type is C++'s."""

from __future__ import annotations

import math

import numpy as np

from pymlgo.arrays import AnyArray


def literal(value: object, type_name: str) -> str:
    """One element, with every bit; NaN becomes the quiet one."""
    if type_name == "bool":
        return "true" if value else "false"
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, float):
        return _floating(number, "f" if type_name == "float" else "")
    if not isinstance(number, int):
        raise TypeError(f"no number: {value!r}")
    if type_name == "int64_t":
        return f"INT64_C({number})" if number > -(2**63) else "(-INT64_C(9223372036854775807) - 1)"
    if type_name == "uint64_t":
        return f"UINT64_C({number})"
    return str(number)


def _floating(value: float, suffix: str) -> str:
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    # Whole numbers read better in decimal, and are exact there; the sign of zero must stay.
    if value.is_integer() and abs(value) < 1 << 20:
        return f"{value:.1f}{suffix}"
    mantissa, exponent = value.hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}{suffix}"


def literals(array: AnyArray, type_name: str) -> str:
    """The elements, separated by commas, in lines of about 120 characters."""
    lines, line = [], ""
    for each in array.ravel().tolist():
        text = literal(each, type_name)
        if line and len(line) + len(text) > 116:
            lines.append(line)
            line = ""
        line += f"{text}, "
    lines.append(line)
    return "\n".join(f"    {each.rstrip()}" for each in lines)


def quoted(text: str) -> str:
    """A string literal of printable text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
