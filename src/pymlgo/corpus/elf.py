"""ELF objects, 32 and 64 bits, both byte orders.

Source: System V ABI, chapter 4 "Object Files"; `llvm-size`'s sums as in ELFObjectFile::isBerkeleyText (LLVM 22).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pymlgo.corpus.object_file import FunctionSymbol, ObjectError, ObjectFile, Section, Source, name_at

MAGIC = b"\x7fELF"

SHT_SYMTAB, SHT_NOBITS = 2, 8
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
SHN_XINDEX, SHN_LORESERVE = 0xFFFF, 0xFF00
STT_FUNC, STT_GNU_IFUNC = 2, 10


class Symbol(NamedTuple):
    """One entry of the symbol table."""

    name: int
    info: int
    section: int
    value: int
    size: int


@dataclass(frozen=True, slots=True)
class ElfClass:
    """The layouts of one class (32 or 64 bits: `wide`) in one byte order."""

    order: str
    wide: bool
    header: struct.Struct
    section: struct.Struct
    symbol: struct.Struct

    def symbols(self, table: bytes) -> Iterator[Symbol]:
        """The entries of a symbol table."""
        for fields in self.symbol.iter_unpack(table):
            if self.wide:
                name, info, _other, section, value, size = fields
            else:
                name, value, size, info, _other, section = fields
            yield Symbol(name, info, section, value, size)

    def relocation(self, *, with_addend: bool) -> struct.Struct:
        """The layout of a relocation: offset, symbol and type in one number, addend."""
        form = ("QQq" if with_addend else "QQ") if self.wide else ("IIi" if with_addend else "II")
        return struct.Struct(self.order + form)


_CLASSES = {
    (bits, order): ElfClass(
        order=order,
        wide=bits == 2,
        # From e_type on: type, machine, version, entry, phoff, shoff, flags, ehsize, phentsize, phnum, shentsize, …
        header=struct.Struct(order + ("HHIQQQIHHHHHH" if bits == 2 else "HHIIIIIHHHHHH")),
        section=struct.Struct(order + ("IIQQQQIIQQ" if bits == 2 else "IIIIIIIIII")),
        symbol=struct.Struct(order + ("IBBHQQ" if bits == 2 else "IIIBBH")),
    )
    for bits in (1, 2)
    for order in "<>"
}


class SectionHeader(NamedTuple):
    """One entry of the section table; a named tuple, because thousands are made for one object."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


def read_elf(source: Source, *, with_functions: bool = False) -> ObjectFile:
    """The sections of an ELF file; its function symbols only if asked, as they cost the most.

    Raises:
        ObjectError: it is damaged.
    """
    layout, headers, names = section_table(source)
    sections = tuple(_section(each, names) for each in headers)
    functions = _functions(source, layout, headers) if with_functions else ()
    return ObjectFile("ELF", source, sections, functions)


def read_sections(source: Source, wanted: tuple[str, ...]) -> list[bytes | None]:
    """The content of the first section of each wanted name, None where there is none.

    This is what extraction does for every object, so it looks at nothing else: an object compiled with
    `-ffunction-sections` has thousands of sections.

    Raises:
        ObjectError: the file is damaged.
    """
    layout, raw, names_index = _raw_table(source)
    size = layout.section.size
    if not raw:
        return [None] * len(wanted)
    strings = SectionHeader._make(layout.section.unpack_from(raw, names_index * size))
    names = source.read(strings.offset, strings.size) if names_index else b""
    # Where a name stands in the string table is looked up once; sections may share a longer name's end.
    places: dict[int, int] = {}
    for number, name in enumerate(wanted):
        key = name.encode("utf-8", "surrogateescape") + b"\0"
        places |= {match.start(): number for match in re.finditer(re.escape(key), names)}
    found: list[bytes | None] = [None] * len(wanted)
    for fields in layout.section.iter_unpack(raw):
        if fields[0] in places and found[places[fields[0]]] is None:
            header = SectionHeader._make(fields)
            if header.type not in (0, SHT_NOBITS):
                found[places[header.name]] = source.read(header.offset, header.size)
    return found


def section_table(source: Source) -> tuple[ElfClass, list[SectionHeader], bytes]:
    """The object's class, its section headers, and the string table with their names.

    Raises:
        ObjectError: the file is damaged.
    """
    layout, raw, names_index = _raw_table(source)
    headers = [SectionHeader._make(each) for each in layout.section.iter_unpack(raw)]
    if not headers or not names_index:
        return layout, headers, b""
    names = headers[names_index]
    return layout, headers, source.read(names.offset, names.size)


def _raw_table(source: Source) -> tuple[ElfClass, bytes, int]:
    """The object's class, the bytes of its section table, and which section has the names (0: none has)."""
    start = source.read(0, min(64, source.size))
    try:
        layout = _CLASSES[start[4], "<" if start[5] == 1 else ">" if start[5] == 2 else ""]
        header = layout.header.unpack_from(start, 16)
    except (KeyError, IndexError, struct.error):
        raise ObjectError("damaged ELF: its header is cut off, or of no known class") from None
    table, entry_size, count, names_index = header[5], header[10], header[11], header[12]
    if not table:
        return layout, b"", 0
    if entry_size != layout.section.size:
        raise ObjectError(f"damaged ELF: section headers of {entry_size} bytes")
    if not count or names_index == SHN_XINDEX:
        # More sections than the header's 16 bits hold are counted in the first entry, which is otherwise empty.
        first = SectionHeader._make(layout.section.unpack(source.read(table, entry_size)))
        count = count or first.size
        names_index = first.link if names_index == SHN_XINDEX else names_index
    raw = source.read(table, count * entry_size)
    if names_index and names_index >= count:
        raise ObjectError(f"damaged ELF: section names in section {names_index} of {count}")
    return layout, raw, names_index


def _section(header: SectionHeader, names: bytes) -> Section:
    allocated, executable = bool(header.flags & SHF_ALLOC), bool(header.flags & SHF_EXECINSTR)
    return Section(
        name=name_at(names, header.name),
        offset=header.offset,
        size=header.size,
        is_code=executable,
        is_berkeley_text=allocated and (executable or not header.flags & SHF_WRITE),
        holds_data=header.type not in (0, SHT_NOBITS),
    )


def _functions(source: Source, layout: ElfClass, headers: list[SectionHeader]) -> tuple[FunctionSymbol, ...]:
    table = next((each for each in headers if each.type == SHT_SYMTAB), None)
    if table is None:
        return ()
    if table.link >= len(headers) or table.size % layout.symbol.size:
        raise ObjectError("damaged ELF: symbol table")
    names = source.read(headers[table.link].offset, headers[table.link].size)
    functions = []
    for symbol in layout.symbols(source.read(table.offset, table.size)):
        # Section 0 means "defined elsewhere"; the reserved numbers are absolute and common symbols.
        is_defined = symbol.section != 0 and (symbol.section < SHN_LORESERVE or symbol.section == SHN_XINDEX)
        if symbol.info & 0xF in (STT_FUNC, STT_GNU_IFUNC) and is_defined:
            functions.append(FunctionSymbol(name_at(names, symbol.name), symbol.section, symbol.value, symbol.size))
    return tuple(functions)
