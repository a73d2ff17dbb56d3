"""COFF objects, also the "big" ones with more than 65,279 sections.

Source: Microsoft's "PE Format"; llvm/BinaryFormat/COFF.h (LLVM 22) for the big header.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pymlgo.corpus.object_file import FunctionSymbol, ObjectError, ObjectFile, Section, Source, name_at

MACHINES = {0x14C, 0x8664, 0x1C0, 0x1C4, 0xAA64, 0xA641, 0xA64E, 0x5032, 0x5064, 0x6232, 0x6264}
BIG_MAGIC = b"\x00\x00\xff\xff"
BIG_UUID = bytes.fromhex("c7a1bad1eebaa94baf20faf66aa4dcb8")

CNT_CODE, CNT_INITIALIZED_DATA, CNT_UNINITIALIZED_DATA = 0x20, 0x40, 0x80
MEM_WRITE = 0x80000000
FUNCTION_TYPE = 0x20
RELOCATION_BYTES = 10

_SECTION = struct.Struct("<8sIIIIIIHHI")


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the tables of an object are."""

    sections_at: int
    section_count: int
    symbols_at: int
    symbol_count: int
    symbol: struct.Struct


def looks_like_coff(start: bytes) -> bool:
    """COFF has no magic: a known machine type, or the header of a big object."""
    if len(start) < 20:
        return False
    is_big = start[:4] == BIG_MAGIC and start[12:28] == BIG_UUID
    return is_big or int.from_bytes(start[:2], "little") in MACHINES


def read_coff(source: Source, *, with_functions: bool = False) -> ObjectFile:
    """The sections of a COFF object.

    Raises:
        ObjectError: it is damaged.
    """
    layout = _layout(source)
    strings = _strings(source, layout)
    raw = source.read(layout.sections_at, layout.section_count * _SECTION.size)
    sections = tuple(_section(fields, strings) for fields in _SECTION.iter_unpack(raw))
    functions = _functions(source, layout, strings, len(sections)) if with_functions else ()
    return ObjectFile("COFF", source, sections, functions)


def _layout(source: Source) -> _Layout:
    if source.read(0, 4) == BIG_MAGIC:
        count, symbols_at, symbol_count = struct.unpack("<III", source.read(44, 12))
        return _Layout(56, count, symbols_at, symbol_count, struct.Struct("<8sIiHBB"))
    count, _time, symbols_at, symbol_count, optional = struct.unpack("<HIIIH", source.read(2, 16))
    return _Layout(20 + optional, count, symbols_at, symbol_count, struct.Struct("<8sIhHBB"))


def _strings(source: Source, layout: _Layout) -> bytes:
    if not layout.symbols_at:
        return b""
    start = layout.symbols_at + layout.symbol_count * layout.symbol.size
    (size,) = struct.unpack("<I", source.read(start, 4))
    return source.read(start, size) if size >= 4 else b""


def _section(fields: tuple[bytes, int, int, int, int, int, int, int, int, int], strings: bytes) -> Section:
    raw_name, _virtual_size, _address, size, offset, relocations, _lines, relocation_count, _, flags = fields
    return Section(
        name=_section_name(raw_name, strings),
        offset=offset,
        size=size,
        is_code=bool(flags & CNT_CODE),
        # llvm-size asks isBerkeleyText, which for COFF is isText: code only.
        is_berkeley_text=bool(flags & CNT_CODE),
        holds_data=bool(offset) and not flags & CNT_UNINITIALIZED_DATA,
        relocations=(relocations, relocation_count * RELOCATION_BYTES),
    )


def _section_name(raw: bytes, strings: bytes) -> str:
    # A name beyond eight bytes is `/123`, its offset in the string table; beyond seven digits, `//` and base 64.
    if raw[:2] == b"//":
        return name_at(strings, _base64(raw[2:].rstrip(b"\0")))
    if raw[:1] == b"/":
        digits = raw[1:].rstrip(b"\0")
        if not digits.isdigit():
            raise ObjectError(f"damaged COFF: section name {raw!r}")
        return name_at(strings, int(digits))
    return raw.rstrip(b"\0").decode("utf-8", "surrogateescape")


def _base64(digits: bytes) -> int:
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    value = 0
    for digit in digits:
        place = alphabet.find(digit)
        if place < 0:
            raise ObjectError(f"damaged COFF: section name //{digits!r}")
        value = value * 64 + place
    return value


def _functions(source: Source, layout: _Layout, strings: bytes, section_count: int) -> tuple[FunctionSymbol, ...]:
    entry = layout.symbol
    raw = source.read(layout.symbols_at, layout.symbol_count * entry.size)
    functions = []
    auxiliary = 0
    for name, value, section, kind, _storage, auxiliary_count in entry.iter_unpack(raw):
        if auxiliary:
            auxiliary -= 1
            continue
        auxiliary = auxiliary_count
        if kind == FUNCTION_TYPE and 1 <= section <= section_count:
            is_long = name[:4] == b"\0\0\0\0"
            text = (
                name_at(strings, int.from_bytes(name[4:], "little"))
                if is_long
                else name.rstrip(b"\0").decode("utf-8", "surrogateescape")
            )
            functions.append(FunctionSymbol(text, section - 1, value, None))
    return tuple(functions)
