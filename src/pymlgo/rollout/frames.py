"""Python objects over a pipe between this process and its own workers: eight bytes of length, then a pickle."""

from __future__ import annotations

import pickle
import struct
from typing import IO

_LENGTH = struct.Struct("<Q")


def write_frame(stream: IO[bytes], value: object) -> None:
    """Send `value`; an OSError means that the other side is gone."""
    body = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(body)) + body)
    stream.flush()


def read_frame(stream: IO[bytes]) -> object:
    """The next object.

    Raises:
        EOFError: the other side closed the pipe, perhaps in the middle of an object.
    """
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (size,) = _LENGTH.unpack(head)
    body = stream.read(size)
    if len(body) < size:
        raise EOFError
    return pickle.loads(body)
