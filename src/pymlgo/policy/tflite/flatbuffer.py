"""Reading a flatbuffer that nobody vouches for: every offset is checked against the file before it is followed.

A table starts with a signed offset back to its vtable. The vtable holds its own size, the table's size, and for each
field its place in the table (0: absent). Vectors and strings start with their length. Numbers are little-endian.

Source: https://flatbuffers.dev/internals, written down here as the subset that TFLite models use.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError

LARGEST_TEXT_BYTES = 1024
"""Names are short, and many tables of a hostile file may point to one string."""

_INT32 = struct.Struct("<i")
_UINT16 = struct.Struct("<H")
_UINT32 = struct.Struct("<I")
_SCALARS = {kind: struct.Struct(f"<{kind}") for kind in "bBhHiIqQf?"}


@dataclass(frozen=True, slots=True)
class Table:
    """A table at byte `position` of `data`; fields are numbered from 0 as in the schema.

    Raises:
        PolicyError: from every method, where an offset or length leaves the file.
    """

    data: memoryview
    position: int

    @classmethod
    def root(cls, data: memoryview, identifier: bytes) -> Table:
        """The table that a file with this 4-byte identifier starts with."""
        if len(data) < 8 or bytes(data[4:8]) != identifier:
            raise PolicyError(f"not a flatbuffer with identifier {identifier.decode()}, found {bytes(data[4:8])!r}")
        return cls(data, _read(data, _UINT32, 0))

    def scalar(self, field: int, kind: str, default: float = 0) -> int:
        """A number; `kind` is its letter in `struct`."""
        at = self._place(field)
        return int(default) if at is None else _read(self.data, _SCALARS[kind], at)

    def real(self, field: int, default: float = 0.0) -> float:
        """A float."""
        at = self._place(field)
        return default if at is None else float(_read(self.data, _SCALARS["f"], at))

    def table(self, field: int) -> Table | None:
        """A table that this one points to; None where it is absent."""
        at = self._place(field)
        return None if at is None else Table(self.data, self._follow(at))

    def tables(self, field: int, limit: int) -> tuple[Table, ...]:
        """A vector of at most `limit` tables; empty where it is absent."""
        start, count = self._vector(field, 4)
        if count > limit:
            raise PolicyError(f"a vector of {count} tables, more than {limit}")
        return tuple(Table(self.data, self._follow(start + 4 * index)) for index in range(count))

    def numbers(self, field: int, dtype: str) -> AnyArray:
        """A vector of numbers, a view of the file; empty where it is absent."""
        kind = np.dtype(dtype).newbyteorder("<")
        start, count = self._vector(field, kind.itemsize)
        return np.frombuffer(self.data, kind, count, start)

    def integers(self, field: int, limit: int) -> tuple[int, ...]:
        """A vector of at most `limit` int32."""
        found = self.numbers(field, "i4")
        if len(found) > limit:
            raise PolicyError(f"a vector of {len(found)} integers, more than {limit}")
        return tuple(int(each) for each in found)

    def text(self, field: int) -> str:
        """A string of at most `LARGEST_TEXT_BYTES`; empty where it is absent."""
        start, count = self._vector(field, 1)
        if count > LARGEST_TEXT_BYTES:
            raise PolicyError(f"a string of {count} bytes at byte {start}")
        return bytes(self.data[start : start + count]).decode(errors="backslashreplace")

    def has(self, field: int) -> bool:
        """True if the field is there."""
        return self._place(field) is not None

    def _place(self, field: int) -> int | None:
        """Where the field's bytes are; None where it is absent."""
        vtable = self.position - _read(self.data, _INT32, self.position)
        size = _read(self.data, _UINT16, vtable)
        slot = 4 + 2 * field
        if slot + 2 > size:
            return None
        offset = _read(self.data, _UINT16, vtable + slot)
        return self.position + offset if offset else None

    def _follow(self, at: int) -> int:
        return at + _read(self.data, _UINT32, at)

    def _vector(self, field: int, item_bytes: int) -> tuple[int, int]:
        """First byte and length of a vector whose items all lie in the file."""
        at = self._place(field)
        if at is None:
            return 0, 0
        start = self._follow(at)
        count = _read(self.data, _UINT32, start)
        if start + 4 + count * item_bytes > len(self.data):
            raise PolicyError(f"byte {start}: a vector of {count} items of {item_bytes} bytes leaves the file")
        return start + 4, count


def _read(data: memoryview, form: struct.Struct, at: int) -> int:
    if at < 0 or at + form.size > len(data):
        raise PolicyError(f"an offset leads to byte {at} of a file of {len(data)}")
    return int(form.unpack_from(data, at)[0]) if form.format != "<f" else form.unpack_from(data, at)[0]
