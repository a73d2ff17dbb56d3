"""Object files of every format, read in process: sections, and the sizes that policies are judged by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pymlgo.corpus import coff, elf, macho
from pymlgo.corpus.object_file import MemorySource, ObjectError, ObjectFile, Source, sizes_from_neighbours


class Kind(Enum):
    """What the first bytes of a file say it is."""

    ELF = "ELF"
    MACHO = "Mach-O"
    COFF = "COFF"
    UNIVERSAL = "universal Mach-O"
    BITCODE = "LLVM bitcode"
    ARCHIVE = "archive"
    THIN_ARCHIVE = "thin archive"
    EMPTY = "empty file"
    TEXT = "text"
    UNKNOWN = "no object file"


START_BYTES = 32
"""As many first bytes as `kind_of` looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSizes:
    """The two sizes of an object that pymlgo reports.

    `text_bytes`: all executable sections. `berkeley_bytes`: the first column of `llvm-size`, which for ELF also counts
    read-only data and unwind tables.
    """

    text_bytes: int
    berkeley_bytes: int


def kind_of(start: bytes) -> Kind:
    """The kind of file that starts with the bytes `start` (`START_BYTES` of them, if there are as many)."""
    magic = start[:4]
    if magic == elf.MAGIC:
        return Kind.ELF
    if magic in (b"BC\xc0\xde", b"\xde\xc0\x17\x0b"):
        return Kind.BITCODE
    if magic in macho.MAGICS:
        return Kind.MACHO
    if magic in macho.UNIVERSAL_MAGICS:
        return Kind.UNIVERSAL
    if start[:8] == b"!<arch>\n":
        return Kind.ARCHIVE
    if start[:8] == b"!<thin>\n":
        return Kind.THIN_ARCHIVE
    if coff.looks_like_coff(start):
        return Kind.COFF
    if not start:
        return Kind.EMPTY
    return Kind.TEXT if all(0x20 <= each < 0x7F or each in b"\t\n\r" for each in start) else Kind.UNKNOWN


def read_object(source: Source, *, with_functions: bool = False) -> ObjectFile:
    """The object file in `source`, with its functions if asked.

    Raises:
        ObjectError: it is no ELF, Mach-O or COFF object, or a damaged one.
    """
    kind = kind_of(source.read(0, min(START_BYTES, source.size)))
    match kind:
        case Kind.ELF:
            return elf.read_elf(source, with_functions=with_functions)
        case Kind.MACHO:
            return macho.read_macho(source, with_functions=with_functions)
        case Kind.COFF:
            return coff.read_coff(source, with_functions=with_functions)
        case _:
            raise ObjectError(f"expected an ELF, Mach-O or COFF object, found {kind.value}")


def object_sizes(data: bytes) -> ObjectSizes:
    """The sizes of the object file whose content is `data`.

    Raises:
        ObjectError: it is no object file, or a damaged one.
    """
    return sizes_of(read_object(MemorySource(data)))


def sizes_of(found: ObjectFile) -> ObjectSizes:
    """The sizes of an object that was read."""
    return ObjectSizes(
        text_bytes=sum(each.size for each in found.sections if each.is_code),
        berkeley_bytes=sum(each.size for each in found.sections if each.is_berkeley_text),
    )


def function_sizes(data: bytes) -> dict[str, int]:
    """The size in bytes of each function defined in the object file `data`, by its symbol's name.

    Aliases of a function (C++ constructors have them) are there with its size too. ELF keeps sizes; in Mach-O and COFF
    a function reaches to the next one, padding included. Functions with equal names, which only a merged object has,
    are added.

    Raises:
        ObjectError: it is no object file, or a damaged one.
    """
    found = read_object(MemorySource(data), with_functions=True)
    if found.format != "ELF":
        ends = {number: section.size for number, section in enumerate(found.sections)}
        return sizes_from_neighbours(found.functions, ends)
    sizes: dict[str, int] = {}
    for function in found.functions:
        sizes[function.name] = sizes.get(function.name, 0) + (function.size or 0)
    return sizes
