"""`--json`: the dataclass that the API returned, with its schema's name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np


def print_json(schema: str, value: object) -> None:
    """Print a dataclass or mapping as one JSON object whose first key is `"schema": "pymlgo/<schema>"`.

    Args:
        schema: name and version of the form, e.g. `"corpus-extract-1"`.
        value: dataclass instance or mapping; paths become strings, numpy scalars numbers, non-UTF-8 names escapes.
    """
    plain = jsonable(value)
    print(json.dumps({"schema": f"pymlgo/{schema}", **plain}, indent=2, allow_nan=False))


def jsonable(value: Any) -> Any:
    """`value` made of dicts, lists, strings, numbers, bools and None only."""
    match value:
        case Enum():
            return value.value
        case None | bool() | int() | str():
            return value
        case float():
            return value if np.isfinite(value) else None
        case Path() | bytes():
            return str(value) if isinstance(value, Path) else value.decode(errors="backslashreplace")
        case np.generic():
            return jsonable(value.item())
        case np.ndarray():
            return jsonable(value.tolist())
        case Mapping():
            return {str(jsonable(key)): jsonable(each) for key, each in value.items()}
        case _ if dataclasses.is_dataclass(value):
            return {field.name: jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            return [jsonable(each) for each in value]
