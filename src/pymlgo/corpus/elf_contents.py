"""An ELF object as comparable content: what each section holds and refers to, without the numbers of their tables.

Source: System V ABI, "Object Files"; llvm/BinaryFormat/ELF.h (LLVM 22) for SHT_LLVM_ADDRSIG.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field

from pymlgo.corpus.elf import (
    SHN_LORESERVE,
    SHN_XINDEX,
    SHT_NOBITS,
    SHT_SYMTAB,
    ElfClass,
    SectionHeader,
    section_table,
)
from pymlgo.corpus.object_file import ObjectError, Source, name_at

SHT_STRTAB, SHT_RELA, SHT_REL, SHT_GROUP, SHT_SYMTAB_SHNDX, SHT_LLVM_ADDRSIG = 3, 4, 9, 17, 18, 0x6FFF4C03
PRIVATE_PREFIX = ".L"

Place = tuple[str, int, int, int]
"""What a symbol stands for: its section (a name with its number among the kept sections), value, size and kind."""

Reference = tuple[str, Place]
"""A symbol as something refers to it: its name, empty if that is private, and its place."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One section.

    Attributes:
        section: its name.
        kind: type, flags, alignment and entry size.
        content: its bytes; for tables of sections or symbols, what they name.
        relocations: offset, type, addend and target of each, sorted.
    """

    section: str
    kind: tuple[int, ...]
    content: bytes | tuple[object, ...]
    relocations: tuple[tuple[int, int, int, Reference], ...] = ()


@dataclass(frozen=True, slots=True)
class Contents:
    """An object without the numbering of its sections and symbols."""

    pieces: tuple[Piece, ...]
    public_symbols: Counter[Reference] = field(default_factory=Counter)
    private_symbols: Counter[Place] = field(default_factory=Counter)
    private_names: Counter[str] = field(default_factory=Counter)


def read_contents(source: Source, leave_out: frozenset[str]) -> Contents:
    """The contents of an ELF object without the sections named in `leave_out`.

    Raises:
        ObjectError: it is damaged.
    """
    return _Reader(source, leave_out).contents()


class _Reader:
    """Reads one object."""

    def __init__(self, source: Source, leave_out: frozenset[str]) -> None:
        self.source = source
        self.layout: ElfClass
        self.layout, self.headers, strings = section_table(source)
        self.names = [name_at(strings, each.name) if strings else "" for each in self.headers]
        self.kept = [
            number
            for number, header in enumerate(self.headers)
            if number and self.names[number] not in leave_out and header.type not in _TABLES
        ]
        # Section 0, absolute and common symbols keep their number as a name.
        self.labels = {number: f"{self.names[number]}#{place}" for place, number in enumerate(self.kept)}
        self.symbols = self._read_symbols()

    def contents(self) -> Contents:
        relocations: dict[int, list[tuple[int, int, int, Reference]]] = {}
        for header in self.headers:
            if header.type in (SHT_RELA, SHT_REL):
                relocations.setdefault(header.info, []).extend(self._relocations(header))
        pieces = tuple(
            Piece(
                self.names[number],
                _kind(self.headers[number]),
                self._content(self.headers[number]),
                tuple(sorted(relocations.get(number, []))),
            )
            for number in self.kept
        )
        public = Counter(each for each in self.symbols if each[0] and not each[0].startswith(PRIVATE_PREFIX))
        private = [each for each in self.symbols if each[0].startswith(PRIVATE_PREFIX)]
        return Contents(pieces, public, Counter(each[1] for each in private), Counter(each[0] for each in private))

    def _content(self, header: SectionHeader) -> bytes | tuple[object, ...]:
        if header.type == SHT_NOBITS:
            return (header.size,)
        data = self.source.read(header.offset, header.size)
        if header.type == SHT_GROUP:
            words = struct.unpack(f"{self.layout.order}{len(data) // 4}I", data[: len(data) // 4 * 4])
            members = tuple(self.labels.get(each, "") for each in words[1:])
            return (*words[:1], *members, self._reference(header.info))
        if header.type == SHT_LLVM_ADDRSIG:
            return tuple(sorted(self._reference(each) for each in _uleb128(data)))
        return data

    def _reference(self, symbol: int) -> Reference:
        if symbol >= len(self.symbols):
            raise ObjectError(f"damaged ELF: symbol {symbol} of {len(self.symbols)}")
        name, place = self.symbols[symbol]
        return ("" if name.startswith(PRIVATE_PREFIX) else name, place)

    def _read_symbols(self) -> list[Reference]:
        table = next((each for each in self.headers if each.type == SHT_SYMTAB), None)
        if table is None:
            return []
        if table.link >= len(self.headers) or table.size % self.layout.symbol.size:
            raise ObjectError("damaged ELF: symbol table")
        strings = self.source.read(self.headers[table.link].offset, self.headers[table.link].size)
        extended = next((each for each in self.headers if each.type == SHT_SYMTAB_SHNDX), None)
        numbers = self.source.read(extended.offset, extended.size) if extended else b""
        found = []
        for place, symbol in enumerate(self.layout.symbols(self.source.read(table.offset, table.size))):
            section = symbol.section
            if section == SHN_XINDEX and len(numbers) >= 4 * place + 4:
                (section,) = struct.unpack_from(f"{self.layout.order}I", numbers, 4 * place)
                label = self.labels.get(section, f"#{section}")
            else:
                label = f"reserved {section}" if section >= SHN_LORESERVE else self.labels.get(section, "")
            found.append((name_at(strings, symbol.name), (label, symbol.value, symbol.size, symbol.info)))
        return found

    def _relocations(self, header: SectionHeader) -> list[tuple[int, int, int, Reference]]:
        with_addend = header.type == SHT_RELA
        entry = self.layout.relocation(with_addend=with_addend)
        data = self.source.read(header.offset, header.size)
        if len(data) % entry.size:
            raise ObjectError("damaged ELF: relocations")
        shift, mask = (32, 0xFFFFFFFF) if self.layout.wide else (8, 0xFF)
        return [
            (fields[0], fields[1] & mask, fields[2] if with_addend else 0, self._reference(fields[1] >> shift))
            for fields in entry.iter_unpack(data)
        ]


_TABLES = frozenset({SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_REL, SHT_SYMTAB_SHNDX})


def _kind(header: SectionHeader) -> tuple[int, ...]:
    return header.type, header.flags, header.align, header.entry_size


def _uleb128(data: bytes) -> list[int]:
    numbers, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise ObjectError("damaged ELF: a number of more than 64 bits")
        if not byte & 0x80:
            numbers.append(value)
            value = shift = 0
    return numbers
