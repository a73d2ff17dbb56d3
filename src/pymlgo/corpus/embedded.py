"""The bitcode and command line that `-fembed-bitcode=all` put into an object file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pymlgo.corpus import elf
from pymlgo.corpus.bitcode import BitcodeError, is_bitcode, split_modules
from pymlgo.corpus.candidates import Reason
from pymlgo.corpus.description import join_command, split_command
from pymlgo.corpus.macho import universal_slices
from pymlgo.corpus.object_file import FileSource, MemorySource, ObjectError, Source
from pymlgo.corpus.objects import START_BYTES, Kind, kind_of, read_object

BITCODE_SECTION, COMMAND_SECTION = ".llvmbc", ".llvmcmd"
MACHO_SECTIONS = {BITCODE_SECTION: "__LLVM,__bitcode", COMMAND_SECTION: "__LLVM,__cmdline"}
FAT_LTO_SECTION = ".llvm.lto"
"""Where `-ffat-lto-objects` puts LLVM IR beside machine code."""

OBJCOPY_LIMIT_S = 120.0
"""llvm-objcopy takes 17 ms for a common object; this is for a giant one on a busy machine."""


class NoModule(Exception):
    """There is no module in an object, for the `reason` given."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Embedded:
    """One module of an object: its bitcode, and clang's `-cc1` arguments as `.cmd` files hold them.

    `command` is None for the LLVM IR of an `-flto` build, which carries none.
    """

    bitcode: bytes
    command: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionNames:
    """The sections to look in. The defaults also stand for Mach-O's `__LLVM,__bitcode` and `__LLVM,__cmdline`."""

    bitcode: str = BITCODE_SECTION
    command: str = COMMAND_SECTION


@contextmanager
def opened(path: str, start: int = 0, length: int | None = None) -> Iterator[FileSource]:
    """A source over a regular file, or over a stretch of it.

    Raises:
        NoModule: there is no such file, or it cannot be read.
    """
    try:
        # O_NONBLOCK keeps a FIFO of that name from waiting for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NoModule(Reason.MISSING, path) from None
    except (OSError, ValueError) as error:
        raise NoModule(Reason.UNREADABLE, f"{path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NoModule(Reason.NOT_AN_OBJECT, f"{path} is no regular file")
        size = max(0, status.st_size - start) if length is None else length
        yield FileSource(descriptor, start, size, (status.st_size, status.st_mtime_ns))
    except OSError as error:
        raise NoModule(Reason.UNREADABLE, f"{path}: {error.strerror}") from None
    finally:
        os.close(descriptor)


def embedded_modules(source: Source, names: SectionNames, language: str = "") -> list[Embedded]:
    """The modules in an object: one, unless a linker merged several (`ld -r`) into it, or it is for several targets.

    Args:
        source: the object file.
        names: the sections to look in.
        language: of the source file; tells an assembled object from one that was compiled without embedding.

    Raises:
        NoModule: with the reason.
    """
    try:
        kind = kind_of(source.read(0, min(START_BYTES, source.size)))
        if kind is Kind.BITCODE:
            return [Embedded(source.read(0, source.size), None)]
        if kind is Kind.UNIVERSAL:
            slices = [MemorySource(source.read(*each)) for each in universal_slices(source)]
            return [module for each in slices for module in embedded_modules(_no_universal(each), names, language)]
        if kind is Kind.ELF:
            bitcode, command, fat = elf.read_sections(source, (names.bitcode, names.command, FAT_LTO_SECTION))
        elif kind in (Kind.MACHO, Kind.COFF):
            bitcode, command, fat = _sections_of_other(source, kind, names)
        else:
            raise NoModule(Reason.NOT_AN_OBJECT, f"found {kind.value}")
        if bitcode is None and fat:
            return [Embedded(fat, None)]
        return pair_up(bitcode, command, language)
    except (ObjectError, BitcodeError) as error:
        raise NoModule(Reason.DAMAGED, str(error)) from None
    except MemoryError:
        raise NoModule(Reason.DAMAGED, "a section of more bytes than there is memory") from None


def pair_up(bitcode: bytes | None, command: bytes | None, language: str = "") -> list[Embedded]:
    """The modules in the content of the two sections (None: there is no such section).

    Raises:
        NoModule: with the reason.
    """
    if bitcode is None:
        raise NoModule(Reason.ASSEMBLY if language == "assembler" else Reason.NO_BITCODE)
    if not bitcode:
        raise NoModule(Reason.EMPTY_BITCODE)
    if not is_bitcode(bitcode):
        raise NoModule(Reason.NOT_BITCODE, f"it starts with {bitcode[:4].hex(' ')}")
    if not command:
        raise NoModule(Reason.NO_COMMAND)
    if b"\0-cc1\0" not in command:
        return [Embedded(bitcode, command)]
    commands = _split_commands(command)
    modules = split_modules(bitcode)
    if len(commands) != len(modules):
        raise NoModule(Reason.MERGED, f"{len(modules)} modules, {len(commands)} command lines")
    return [Embedded(*each) for each in zip(modules, commands, strict=True)]


def dumped_modules(path: str, names: SectionNames, objcopy: str, language: str = "") -> list[Embedded]:
    """As `embedded_modules`, through llvm-objcopy, for comparison and for formats that are not read here.

    Raises:
        NoModule: with the reason.
    """
    # Imported here, as nearly every extraction reads objects itself, and starting takes most of a small one's time.
    import tempfile

    from pymlgo.errors import ToolchainError
    from pymlgo.toolchain.process import run

    with tempfile.TemporaryDirectory(prefix="mlgo-objcopy-") as folder:
        dumped = {}
        for section in (names.bitcode, names.command):
            target = Path(folder) / "section"
            target.unlink(missing_ok=True)
            try:
                finished = run(
                    [objcopy, f"--dump-section={section}={target}", path, os.devnull], limit_s=OBJCOPY_LIMIT_S
                )
            except ToolchainError as error:
                raise NoModule(Reason.OBJCOPY_FAILED, str(error)) from None
            if finished.returncode == 0 and target.exists():
                dumped[section] = target.read_bytes()
            elif b"not found" not in finished.stderr:
                raise NoModule(Reason.OBJCOPY_FAILED, _last_line(finished.stderr))
        return pair_up(dumped.get(names.bitcode), dumped.get(names.command), language)


def _no_universal(source: MemorySource) -> MemorySource:
    if kind_of(source.read(0, min(START_BYTES, source.size))) is Kind.UNIVERSAL:
        raise ObjectError("a universal file inside a universal file")
    return source


def _sections_of_other(source: Source, kind: Kind, names: SectionNames) -> list[bytes | None]:
    found = read_object(source)
    wanted = [names.bitcode, names.command, FAT_LTO_SECTION]
    if kind is Kind.MACHO:
        wanted = [MACHO_SECTIONS.get(name, name) for name in wanted]
    sections = [found.find(name) for name in wanted]
    return [None if section is None else found.content(section) for section in sections]


def _split_commands(command: bytes) -> list[bytes]:
    commands: list[list[bytes]] = []
    for argument in split_command(command):
        if argument == b"-cc1" or not commands:
            commands.append([])
        commands[-1].append(argument)
    return [join_command(each) for each in commands]


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode(errors="backslashreplace").strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"
