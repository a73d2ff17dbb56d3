"""Mach-O objects, 32 and 64 bits, both byte orders, and the slices of universal files.

Source: <mach-o/loader.h>, <mach-o/fat.h>, <mach-o/nlist.h>.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pymlgo.corpus.object_file import FunctionSymbol, ObjectError, ObjectFile, Section, Source, name_at

MAGICS = {
    b"\xcf\xfa\xed\xfe": ("<", True),
    b"\xfe\xed\xfa\xcf": (">", True),
    b"\xce\xfa\xed\xfe": ("<", False),
    b"\xfe\xed\xfa\xce": (">", False),
}
UNIVERSAL_MAGICS = {b"\xca\xfe\xba\xbe": struct.Struct(">IIIII"), b"\xca\xfe\xba\xbf": struct.Struct(">IIQQII")}
MOST_SLICES = 64
"""A universal file shares its magic with Java classes, where the count's place holds a version, 45 and more; a real
one has a handful."""

LC_SEGMENT, LC_SEGMENT_64, LC_SYMTAB = 0x1, 0x19, 0x2
SECTION_TYPE_MASK = 0xFF
ZEROFILL_TYPES = {0x1, 0xC, 0x12}
PURE_INSTRUCTIONS = 0x80000000
RELOCATION_BYTES = 8
N_STAB, N_TYPE, N_SECT = 0xE0, 0x0E, 0x0E
ASSEMBLER_LABELS = ("l", "L")
"""Private and linker-private labels; functions of C and C++ begin with an underscore."""


def read_macho(source: Source, *, with_functions: bool = False) -> ObjectFile:
    """The sections of a Mach-O object; names are `segment,section`.

    Raises:
        ObjectError: it is damaged.
    """
    order, wide = MAGICS[source.read(0, 4)]
    sections: list[Section] = []
    addresses: list[int] = []
    functions: tuple[FunctionSymbol, ...] = ()
    for command, data in _load_commands(source, order, wide):
        if command in (LC_SEGMENT, LC_SEGMENT_64):
            _read_segment(data, order, command == LC_SEGMENT_64, sections, addresses)
        elif command == LC_SYMTAB and with_functions:
            functions = _functions(source, data, order, wide, sections)
    return ObjectFile("Mach-O", source, tuple(sections), _relative(functions, addresses))


def universal_slices(source: Source) -> list[tuple[int, int]]:
    """Offset and size of each architecture's file in a universal one.

    Raises:
        ObjectError: it is damaged, or a Java class, which has the same magic.
    """
    entry = UNIVERSAL_MAGICS[source.read(0, 4)]
    (count,) = struct.unpack(">I", source.read(4, 4))
    if count > MOST_SLICES or (count >= 45 and source.size < 8 + count * entry.size):
        raise ObjectError("a Java class, or a damaged universal file")
    return [(each[2], each[3]) for each in entry.iter_unpack(source.read(8, count * entry.size))]


def _load_commands(source: Source, order: str, wide: bool) -> Iterator[tuple[int, bytes]]:
    count, total = struct.unpack(order + "II", source.read(16, 8))
    data = source.read(32 if wide else 28, total)
    position = 0
    for _ in range(count):
        if position + 8 > len(data):
            raise ObjectError("damaged Mach-O: load commands reach beyond their table")
        command, size = struct.unpack_from(order + "II", data, position)
        if size < 8 or position + size > len(data):
            raise ObjectError(f"damaged Mach-O: a load command of {size} bytes")
        yield command, data[position : position + size]
        position += size


def _read_segment(data: bytes, order: str, wide: bool, sections: list[Section], addresses: list[int]) -> None:
    start = 72 if wide else 56
    layout = struct.Struct(order + ("16s16sQQIIIIIIII" if wide else "16s16sIIIIIIIII"))
    if len(data) < start:
        raise ObjectError("damaged Mach-O: a segment command is too short")
    (count,) = struct.unpack_from(order + "I", data, start - 8)
    if start + count * layout.size > len(data):
        raise ObjectError(f"damaged Mach-O: {count} sections in a segment command of {len(data)} bytes")
    for number in range(count):
        name, segment, address, size, offset, _align, relocations, relocation_count, flags, *_ = layout.unpack_from(
            data, start + number * layout.size
        )
        segment_name, section_name = (each.rstrip(b"\0").decode("utf-8", "surrogateescape") for each in (segment, name))
        sections.append(
            Section(
                name=f"{segment_name},{section_name}",
                offset=offset,
                size=size,
                is_code=bool(flags & PURE_INSTRUCTIONS),
                is_berkeley_text=segment_name == "__TEXT",
                holds_data=flags & SECTION_TYPE_MASK not in ZEROFILL_TYPES,
                relocations=(relocations, relocation_count * RELOCATION_BYTES),
            )
        )
        addresses.append(address)


def _functions(
    source: Source, data: bytes, order: str, wide: bool, sections: list[Section]
) -> tuple[FunctionSymbol, ...]:
    if len(data) < 24:
        raise ObjectError("damaged Mach-O: the symbol table command is too short")
    symbols_at, count, strings_at, strings_size = struct.unpack_from(order + "IIII", data, 8)
    entry = struct.Struct(order + ("IBBHQ" if wide else "IBBHI"))
    strings = source.read(strings_at, strings_size)
    functions = []
    for name, kind, section, _description, value in entry.iter_unpack(source.read(symbols_at, count * entry.size)):
        is_local_definition = not kind & N_STAB and kind & N_TYPE == N_SECT and 1 <= section <= len(sections)
        if is_local_definition and sections[section - 1].is_code:
            symbol = name_at(strings, name)
            if not symbol.startswith(ASSEMBLER_LABELS):
                functions.append(FunctionSymbol(symbol, section - 1, value, None))
    return tuple(functions)


def _relative(functions: tuple[FunctionSymbol, ...], addresses: list[int]) -> tuple[FunctionSymbol, ...]:
    # Mach-O gives addresses in the whole object; the sizes are worked out within a section.
    return tuple(
        FunctionSymbol(each.name, each.section, each.address - addresses[each.section], None) for each in functions
    )
