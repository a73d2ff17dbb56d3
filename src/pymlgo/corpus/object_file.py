"""What an object file is made of, whatever its format; and bounded reading from one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from pymlgo.errors import CorpusError

LARGEST_READ_BYTES = 1 << 30
"""A sparse file can claim sections larger than memory; clang's largest modules have some hundred MB."""


class ObjectError(CorpusError):
    """The bytes are no object file, or a damaged one."""


class Source(Protocol):
    """Bytes that can be read in pieces; nothing is mapped, so that a file cut short meanwhile cannot kill us."""

    @property
    def size(self) -> int:
        """Bytes in all."""

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes from `offset` on.

        Raises:
            ObjectError: they are not all there.
        """


@dataclass(frozen=True, slots=True)
class MemorySource:
    """A source in memory."""

    data: bytes | memoryview

    @property
    def size(self) -> int:
        """Bytes in all."""
        return len(self.data)

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes from `offset` on, or an ObjectError."""
        if offset < 0 or size < 0 or offset + size > len(self.data):
            raise out_of_bounds(offset, size, len(self.data))
        return bytes(self.data[offset : offset + size])


@dataclass(frozen=True, slots=True)
class FileSource:
    """A stretch of an open file: `length` bytes from `start` on; `stamp` is the file's size and modification time."""

    descriptor: int
    start: int
    length: int
    stamp: tuple[int, int] = (0, 0)

    @property
    def size(self) -> int:
        """Bytes in all."""
        return self.length

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes from `offset` on, or an ObjectError."""
        if offset < 0 or size < 0 or offset + size > self.length:
            raise out_of_bounds(offset, size, self.length)
        if size > LARGEST_READ_BYTES:
            raise ObjectError(f"{size} bytes in one piece, more than any object's section has")
        data = os.pread(self.descriptor, size, self.start + offset)
        if len(data) != size:
            data += self._read_rest(offset + len(data), size - len(data))
        return data

    def _read_rest(self, offset: int, size: int) -> bytes:
        # One pread gives at most 2 GiB; and a file may shrink while we read it.
        pieces = []
        while size:
            piece = os.pread(self.descriptor, size, self.start + offset)
            if not piece:
                raise out_of_bounds(offset, size, self.length)
            pieces.append(piece)
            offset, size = offset + len(piece), size - len(piece)
        return b"".join(pieces)


@dataclass(frozen=True, slots=True)
class Section:
    """One section. `is_code` and `is_berkeley_text` say into which sum of `llvm-size` its size goes.

    `name` has the segment before a comma in Mach-O (`__LLVM,__bitcode`), as llvm-objcopy takes it. `relocations` is the
    offset and size of the section's relocation table in the formats that keep it apart (Mach-O, COFF).
    """

    name: str
    offset: int
    size: int
    is_code: bool
    is_berkeley_text: bool
    holds_data: bool = True
    relocations: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class FunctionSymbol:
    """A defined function; `size` is None where the format keeps none."""

    name: str
    section: int
    address: int
    size: int | None


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """The sections and functions of an object, with the source that their bytes are read from."""

    format: str
    source: Source
    sections: tuple[Section, ...]
    functions: tuple[FunctionSymbol, ...] = ()

    def find(self, name: str) -> Section | None:
        """The first section with that name."""
        return next((each for each in self.sections if each.name == name), None)

    def content(self, section: Section) -> bytes:
        """The bytes of a section.

        Raises:
            ObjectError: the section reaches beyond the end of the file.
        """
        return self.source.read(section.offset, section.size) if section.holds_data else b""


def out_of_bounds(offset: int, size: int, total: int) -> ObjectError:
    """The error for a reference beyond the end of the file."""
    return ObjectError(f"damaged object: {size} bytes at offset {offset} of a file of {total} bytes")


def name_at(strings: bytes, offset: int) -> str:
    """The NUL-terminated string at `offset` of a string table; what is no UTF-8 is escaped as file names are."""
    if not 0 <= offset <= len(strings):
        raise ObjectError(f"damaged object: a name at offset {offset} of a string table of {len(strings)} bytes")
    end = strings.find(b"\0", offset)
    return strings[offset : end if end >= 0 else len(strings)].decode("utf-8", "surrogateescape")


def sizes_from_neighbours(functions: Iterable[FunctionSymbol], ends: dict[int, int]) -> dict[str, int]:
    """The sizes of functions in a format without symbol sizes: up to the next function or the section's end.

    Args:
        functions: with an address each.
        ends: the end address of each section, by its number.
    """
    by_section: dict[int, list[FunctionSymbol]] = {}
    for function in functions:
        by_section.setdefault(function.section, []).append(function)
    sizes: dict[str, int] = {}
    for section, members in by_section.items():
        addresses = [*sorted({each.address for each in members}), ends[section]]
        following = dict(itertools.pairwise(addresses))
        for each in members:
            sizes[each.name] = max(0, following.get(each.address, each.address) - each.address)
    return sizes
