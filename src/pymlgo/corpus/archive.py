"""Static libraries: the members of `.a` files in GNU's, BSD's and the thin form.

Source: ar(5); "Thin archives" in GNU binutils' ar manual; llvm/Object/Archive.h (LLVM 22).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from pymlgo.corpus.object_file import ObjectError, Source

MAGIC, THIN_MAGIC = b"!<arch>\n", b"!<thin>\n"
HEADER_BYTES = 60
LONGEST_NAME_BYTES = 1 << 16
SYMBOL_TABLES = frozenset({"/", "/SYM64/", "__.SYMDEF", "__.SYMDEF SORTED", "__.SYMDEF_64", "__.SYMDEF_64 SORTED"})


@dataclass(frozen=True, slots=True)
class Member:
    """A member: its content is `size` bytes at `offset`, or, in a thin archive (`offset` None), the file `name`."""

    name: str
    offset: int | None
    size: int


def members(source: Source) -> Iterator[Member]:
    """The members of an archive, without its symbol tables.

    Raises:
        ObjectError: it is no archive, or damaged; members before the damage were yielded.
    """
    magic = source.read(0, 8) if source.size >= 8 else b""
    if magic not in (MAGIC, THIN_MAGIC):
        raise ObjectError("expected an archive")
    thin = magic == THIN_MAGIC
    position, long_names = 8, b""
    while position + 1 < source.size:
        raw_name, size = _header(source, position)
        content = position + HEADER_BYTES
        special = raw_name in SYMBOL_TABLES or raw_name == "//"
        stored = special or not thin
        if stored and content + size > source.size:
            raise ObjectError(f"damaged archive: a member of {size} bytes at {content} of {source.size}")
        if raw_name == "//":
            long_names = source.read(content, size)
        elif not special:
            member = _member(source, raw_name, content, size, long_names)
            if member.name not in SYMBOL_TABLES:
                yield Member(member.name, None, size) if thin else member
        position = content + (size + size % 2 if stored else 0)


def _header(source: Source, position: int) -> tuple[str, int]:
    header = source.read(position, HEADER_BYTES)
    if header[58:] != b"`\n":
        raise ObjectError(f"damaged archive: no member begins at byte {position}")
    digits = header[48:58].strip()
    if not digits.isdigit():
        raise ObjectError(f"damaged archive: a member's size is {digits!r}")
    return os.fsdecode(header[:16].rstrip(b" ")), int(digits)


def _member(source: Source, raw_name: str, content: int, size: int, long_names: bytes) -> Member:
    if raw_name.startswith("#1/") and raw_name[3:].isdigit():
        length = int(raw_name[3:])
        if length > min(size, LONGEST_NAME_BYTES):
            raise ObjectError(f"damaged archive: a name of {length} bytes in a member of {size}")
        name = os.fsdecode(source.read(content, length).rstrip(b"\0"))
        return Member(name, content + length, size - length)
    if raw_name.startswith("/") and raw_name[1:].isdigit():
        start = int(raw_name[1:])
        end = long_names.find(b"\n", start)
        if start >= len(long_names) or end < 0:
            raise ObjectError(f"damaged archive: a name at {start} of {len(long_names)}")
        return Member(os.fsdecode(long_names[start:end].removesuffix(b"/")), content, size)
    return Member(raw_name.removesuffix("/"), content, size)
