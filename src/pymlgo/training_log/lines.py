"""The one-line JSON objects between the tensors: `{"context":…}`, `{"observation":N}`, `{"outcome":N}`."""

from __future__ import annotations

import json
from typing import Literal, TypeAlias

from pymlgo.training_log.header import shown, valid_name

LONGEST_LINE_BYTES = 16 << 20
"""A line beyond this is taken for damage. Real headers take 3 KiB, mangled C++ names rarely more."""

Line: TypeAlias = (
    tuple[Literal["context"], str] | tuple[Literal["observation", "outcome"], int] | tuple[Literal["header"], None]
)


def parse_line(line: bytes) -> Line:
    """What a line starts, in any JSON spelling; keys that mean nothing here are ignored.

    Raises:
        ValueError: it is none of the lines of a log; the message says what was found.
    """
    try:
        value = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected a context or an observation, found {shown(line)}") from error
    if isinstance(value, dict):
        if isinstance(name := value.get("context"), str):
            return "context", valid_name(name)
        for key in ("observation", "outcome"):
            if isinstance(number := value.get(key), int) and not isinstance(number, bool):
                return key, number
        if "features" in value:
            return "header", None
    raise ValueError(f"expected a context or an observation, found {shown(line)}")


def context_line(name: str) -> bytes:
    """The line that starts the context `name`, as LLVM prints it."""
    return b'{"context":%s}\n' % json.dumps(name, ensure_ascii=False).encode()
