"""Whether two objects are the same: to the byte, or up to the names of private symbols."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TypeVar

from pymlgo.corpus.coff import BIG_MAGIC
from pymlgo.corpus.elf_contents import Contents, Piece, read_contents
from pymlgo.corpus.embedded import BITCODE_SECTION, COMMAND_SECTION, MACHO_SECTIONS
from pymlgo.corpus.object_file import MemorySource, ObjectFile
from pymlgo.corpus.objects import Kind, kind_of, read_object

EMBEDDED_SECTIONS = frozenset({BITCODE_SECTION, COMMAND_SECTION, *MACHO_SECTIONS.values()})
"""They hold what a module was compiled from, not what came out."""


Key = TypeVar("Key")


class Verdict(StrEnum):
    """How two objects compare."""

    IDENTICAL = "identical"
    SYMBOL_NAMES_ONLY = "symbol_names_only"
    DIFFERENT = "different"


def compare_objects(left: bytes, right: bytes) -> tuple[Verdict, str]:
    """The verdict on two objects, and for `DIFFERENT` what differs first.

    Sections with embedded bitcode and command lines are left out, as a replay may name other paths there, and the time
    in a COFF object's header.
    `SYMBOL_NAMES_ONLY` means that all sections are equal, and every relocation refers to the same place of the same
    section; only names of symbols that are private to the object (`.L…`) differ. Mach-O and COFF objects that are not
    equal to the byte are compared by their sections, relocation tables and functions.

    Raises:
        ObjectError: one of them is no object file, or a damaged one.
    """
    if left == right or _without_time(left) == _without_time(right):
        return Verdict.IDENTICAL, ""
    if kind_of(left[:32]) is Kind.ELF and kind_of(right[:32]) is Kind.ELF:
        ours, theirs = (read_contents(MemorySource(data), EMBEDDED_SECTIONS) for data in (left, right))
        if ours == theirs:
            return Verdict.IDENTICAL, ""
    else:
        ours, theirs = (_plain_contents(read_object(MemorySource(data), with_functions=True)) for data in (left, right))
    difference = _difference(ours, theirs)
    return (Verdict.DIFFERENT, difference) if difference else (Verdict.SYMBOL_NAMES_ONLY, "")


def _without_time(data: bytes) -> bytes:
    """A COFF object without the time of its making, which clang writes into the header."""
    if kind_of(data[:32]) is not Kind.COFF:
        return data
    place = 8 if data[:4] == BIG_MAGIC else 4
    return data[:place] + data[place + 4 :]


def _difference(ours: Contents, theirs: Contents) -> str:
    """What differs first, private names aside; "" if nothing does."""
    names, other_names = ([each.section for each in contents.pieces] for contents in (ours, theirs))
    if names != other_names:
        return f"sections: {_first(Counter(names), Counter(other_names)) or 'their order'}"
    for left, right in zip(ours.pieces, theirs.pieces, strict=True):
        if left != right:
            what = "relocations of " if left.content == right.content else ""
            return f"{what}section {left.section}"
    if ours.public_symbols != theirs.public_symbols:
        return f"symbols: {_first(ours.public_symbols, theirs.public_symbols)}"
    return "private symbols" if ours.private_symbols != theirs.private_symbols else ""


def _first(left: Counter[Key], right: Counter[Key]) -> str:
    for key in (left - right) or (right - left):
        return str(key)
    return ""


def _plain_contents(found: ObjectFile) -> Contents:
    pieces = []
    for section in found.sections:
        if section.name not in EMBEDDED_SECTIONS:
            relocations = found.source.read(*section.relocations)
            pieces.append(Piece(section.name, (), (section.size, found.content(section), relocations)))
    functions = Counter((each.name, (str(each.section), each.address, 0, 0)) for each in found.functions)
    return Contents(tuple(pieces), functions)
