"""Parsed modules: LLVM IR or machine IR read once, for any number of embeddings."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pymlgo.arrays import AnyArray, Int32Array, Int64Array
from pymlgo.embed.core import core
from pymlgo.embed.entities import EntityTable, ir_entities, mir_entities
from pymlgo.embed.reader import Reader
from pymlgo.errors import CorpusError, MLGOError

if TYPE_CHECKING:
    from pymlgo._native import Walk

DEFAULT_STOP = "finalize-isel"
"""Where code generation stops for MIR2Vec: instructions are selected, registers are still virtual."""

BITCODE_MAGIC = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")

_MIR_START = re.compile(rb"(?:[ \t]*(?:#[^\n]*)?\n)*---", re.ASCII)


class StaleEmbedding(MLGOError):
    """The code changed after its embedding was computed."""


@dataclass(frozen=True, slots=True, eq=False)
class ParsedFunction:
    """A function of a parsed module; `number` counts all functions of the module, declarations too."""

    module: ParsedModule = field(repr=False)
    number: int
    name: str

    @property
    def is_declaration(self) -> bool:
        """Whether the function has no body."""
        return bool(self.module.walk.declaration[self.number])

    @property
    def content_hash(self) -> int:
        """Changes when the function's embeddings may: opcodes, types, operands, their definitions, control flow."""
        return int(self.module.walk.content_hash[self.number])

    @property
    def block_count(self) -> int:
        """Basic blocks, reachable or not."""
        first = self.module.walk.first_block
        return int(first[self.number + 1]) - int(first[self.number])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParsedModule:
    """A module as flat arrays; LLVM's own objects are gone."""

    name: str
    walk: Walk
    digest: str
    """Of the bytes that were read."""

    stamp: tuple[int, ...]
    """Identity, size and times of the file when it was read: while they stay, so does its content."""

    path: Path | None
    """The file that was read; None for bytes."""

    functions: tuple[ParsedFunction, ...] = field(repr=False)
    """All functions in module order, declarations too."""

    options: ReadOptions

    @property
    def is_mir(self) -> bool:
        """Whether this is machine IR."""
        return bool(self.walk.is_mir)

    @property
    def triple(self) -> str:
        """The target triple of machine IR; empty for IR."""
        target = self.walk.target
        return target[1].decode() if target else ""

    @property
    def entities(self) -> EntityTable:
        """The entities that the module's numbers stand for."""
        return mir_entities(self.triple) if self.is_mir else ir_entities()

    @property
    def block_names(self) -> tuple[str, ...]:
        """The names of all blocks, most of them empty in optimized code."""
        return tuple(map(_text, self.walk.block_names))

    def function(self, name: str) -> ParsedFunction:
        """The function called `name`.

        Raises:
            CorpusError: there is none.
        """
        found = next((each for each in self.functions if each.name == name), None)
        if found is None:
            raise CorpusError(f"{self.name}: Function '{name}' not found")
        return found

    def is_current(self) -> bool:
        """Whether the file still holds what was read; always for a module that came as bytes."""
        if self.path is None:
            return True
        try:
            return _stamp(self.path) == self.stamp or _digest(self.path.read_bytes()) == self.digest
        except OSError:
            return False

    def reread(self) -> ParsedModule:
        """The file as it is now, read as it was read before.

        Raises:
            CorpusError: it is gone or cannot be read.
        """
        if self.path is None:
            return self
        return (read_mir if self.is_mir else read_ir)(self.path, options=self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What to read, and how."""

    definitions: bool = True
    """Record which instruction defines an operand; only the flow kinds need it."""

    loops: bool = False
    regions: bool = False
    isolated: bool = True
    """Read in a child process. Without it, a module that LLVM cannot stand ends the calling process."""

    stop_after: str = DEFAULT_STOP
    """For machine IR from IR: the pass after which LLVM's code generator stops."""

    opt_level: int = 2
    """For machine IR from IR: 0 to 3."""


def read_ir(
    source: Path | str | bytes, *, options: ReadOptions = ReadOptions(), reader: Reader | None = None, name: str = ""
) -> ParsedModule:
    """LLVM IR, bitcode or text, from a file or from its bytes.

    Args:
        source: a path (`-`: standard input), or the content.
        options: what to read, and how.
        reader: the process to read in; one is started for this module if there is none.
        name: what messages call the module; the path by default.

    Raises:
        CorpusError: the module cannot be read; the text says where. No module takes the calling process down.
        ToolchainError: the native core was not built.
    """
    return _read("ir", source, options, reader, name)


def read_mir(
    source: Path | str | bytes, *, options: ReadOptions = ReadOptions(), reader: Reader | None = None, name: str = ""
) -> ParsedModule:
    """Machine IR: a `.mir` text, or what LLVM's code generator makes of bitcode or IR text.

    Args and Raises: see `read_ir`.
    """
    return _read("mir", source, options, reader, name)


def _read(
    form: str, source: Path | str | bytes, options: ReadOptions, reader: Reader | None, name: str
) -> ParsedModule:
    data, path, stamp = _content(source)
    shown = name or (str(path) if path else "module")
    verb = form if form == "ir" or is_mir_text(data) else "ir-as-mir"
    if options.isolated or verb == "ir-as-mir":
        with _given_or_new(reader) as chosen:
            walk = chosen.read(verb, shown, data, _arguments(options))
    else:
        walk = _read_here(verb, shown, data, options)
    functions: list[ParsedFunction] = []
    module = ParsedModule(
        name=shown, walk=walk, digest=_digest(data), stamp=stamp, path=path, functions=(), options=options
    )
    names = walk.function_names
    functions = [ParsedFunction(module, number, _shown_name(text, number)) for number, text in enumerate(names)]
    object.__setattr__(module, "functions", tuple(functions))
    return module


def is_mir_text(data: bytes) -> bool:
    """Whether `data` is a .mir file: YAML documents, of which the first may be the IR."""
    return data[:4] not in BITCODE_MAGIC and _MIR_START.match(data) is not None


def _read_here(verb: str, name: str, data: bytes, options: ReadOptions) -> Walk:
    native = core()
    try:
        walk: Walk
        if verb == "mir":
            walk = native.read_mir(data, name, options.loops, options.regions)
        else:
            walk = native.read_ir(data, name, options.definitions, options.loops, options.regions)
    except native.ReadError as error:
        raise CorpusError(str(error)) from error
    return walk


@contextmanager
def _given_or_new(reader: Reader | None) -> Iterator[Reader]:
    if reader is not None:
        yield reader
        return
    with Reader() as new:
        yield new


def _arguments(options: ReadOptions) -> tuple[str, ...]:
    return (
        f"definitions={int(options.definitions)}",
        f"loops={int(options.loops)}",
        f"regions={int(options.regions)}",
        f"stop-after={options.stop_after}",
        f"opt-level={options.opt_level}",
    )


def _content(source: Path | str | bytes) -> tuple[bytes, Path | None, tuple[int, ...]]:
    if isinstance(source, bytes):
        return source, None, ()
    if str(source) == "-":
        return sys.stdin.buffer.read(), None, ()
    path = Path(source)
    try:
        stamp = _stamp(path)
        return path.read_bytes(), path, stamp
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror}") from error


def _stamp(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _shown_name(name: bytes, number: int) -> str:
    """A function's name; one without a name is called by its number in the module, which no other has."""
    return _text(name) if name else f"<unnamed function {number}>"


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def positions(firsts: AnyArray) -> Int32Array:
    """For each owned thing, its number within its owner; `firsts` as in the walk."""
    starts: Int64Array = firsts.astype(np.int64)
    counts: Int64Array = starts[1:] - starts[:-1]
    return (np.arange(int(starts[-1])) - np.repeat(starts[:-1], counts)).astype(np.int32)
