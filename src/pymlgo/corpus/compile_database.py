"""Compile databases (`compile_commands.json`), read entry by entry.

Source: clang's "JSON Compilation Database Format Specification".
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from pymlgo.corpus.candidates import Candidate, Reason, Skipped
from pymlgo.corpus.driver_line import DriverLine, default_object, expand_response_files, split_shell
from pymlgo.corpus.names import placed_name
from pymlgo.errors import CorpusError

CHUNK_CHARACTERS = 1 << 20
MISSPELLED_FLAG = "-fembed-bitcode-all"
"""LLVM's document has it in its CMake example; clang refuses it, so there are no objects."""

_AFTER_ELEMENT = frozenset(" \t\r\n,]")
_BETWEEN = re.compile(r"[\s,]*")


def read_compile_database(path: Path, base_dir: str | None) -> Iterator[Candidate | Skipped]:
    """What each entry of the database offers, in its order.

    Args:
        path: the JSON file.
        base_dir: objects below it are named relative to it; None leaves names as the commands spell them.

    Raises:
        CorpusError: the file cannot be read, or is no JSON list.
    """
    for number, entry in enumerate(json_list(path)):
        yield from candidates_of_entry(entry, number, str(path.parent), base_dir)


def candidates_of_entry(
    entry: object, number: int, default_dir: str, base_dir: str | None
) -> list[Candidate | Skipped]:
    """The objects that one entry makes (more than one source gives more than one), or why there are none."""
    where = f"entry {number}"
    if not isinstance(entry, dict):
        return [_malformed(where, f"expected an object, found {type(entry).__name__}")]
    directory, file, output = (entry.get(key) for key in ("directory", "file", "output"))
    where = f"{where} ({file})" if isinstance(file, str) else where
    if not isinstance(directory, str) or not directory:
        return [_malformed(where, "'directory' is missing")]
    arguments = _arguments(entry)
    if isinstance(arguments, str):
        return [_malformed(where, arguments)]
    directory = os.path.normpath(os.path.join(default_dir, directory))
    line = DriverLine(expand_response_files(arguments, directory))
    objects = _objects(line, file if isinstance(file, str) else "", output if isinstance(output, str) else "")
    if not objects:
        return [Skipped(what=where, reason=Reason.NAMES_NO_OBJECT, detail=" ".join(arguments)[:200])]
    return [_candidate(each, directory, base_dir, arguments, line.lto) for each in objects]


def json_list(path: Path) -> Iterator[object]:
    """The elements of the JSON list in a file, one at a time: a database of 100,000 entries is never in memory.

    Bytes that are not UTF-8, which build systems copy from file names, come as the surrogates that file names have.

    Raises:
        CorpusError: the file cannot be read, or is no JSON list.
    """
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape") as stream:
            yield from _elements(stream, path)
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}", hint=_missing_hint(path)) from error


def _elements(stream: TextIO, path: Path) -> Iterator[object]:
    decoder = json.JSONDecoder()
    text = stream.read(CHUNK_CHARACTERS)
    text = text.lstrip()
    if not text.startswith("["):
        raise CorpusError(f"{path}: expected a JSON list of entries, found {text[:40]!r}")
    position, at_end, consumed = 1, False, 0
    while True:
        match = _BETWEEN.match(text, position)
        position = match.end() if match else position
        if text.startswith("]", position):
            return
        try:
            element, end = decoder.raw_decode(text, position)
            # A number at the end of the chunk may go on in the next.
            whole = text[end : end + 1] in _AFTER_ELEMENT
        except RecursionError as error:
            raise CorpusError(f"{path} is nested too deeply, after character {consumed + position}") from error
        except json.JSONDecodeError as error:
            if at_end:
                raise CorpusError(
                    f"{path} is not JSON at character {consumed + error.pos}: {error.msg}",
                    hint="is the build that writes it still running, or was it stopped?",
                ) from error
            whole = False
        if whole:
            yield element
            position = end
            continue
        if at_end:
            raise CorpusError(f"{path} is not JSON: the list does not end")
        # Twice as much as is left at least, so that one giant entry is not scanned again for every chunk.
        piece = stream.read(max(CHUNK_CHARACTERS, len(text) - position))
        at_end = not piece
        consumed += position
        text, position = text[position:] + piece, 0


def _arguments(entry: dict[str, object]) -> list[str] | str:
    """The argument vector, or what is wrong with it."""
    arguments, command = entry.get("arguments"), entry.get("command")
    if isinstance(arguments, list):
        if arguments and all(isinstance(each, str) for each in arguments):
            return list(arguments)
        return "'arguments' must be a list of strings"
    if not isinstance(command, str):
        return "neither 'arguments' nor 'command' is there"
    try:
        return split_shell(command) or "'command' is empty"
    except ValueError as error:
        return f"'command': {error}"


def _objects(line: DriverLine, file: str, output: str) -> list[tuple[str, str, str]]:
    """(source, language, object) of an entry whose own fields fill what its command does not tell."""
    found = line.objects()
    if len(found) > 1:  # one command for many sources stands in the database once for each
        found = [each for each in found if each[0] == file] or found
    if len(found) == 1 and not line.output and output:
        source, language, _ = found[0]
        return [(source, language, output)]
    if found or not line.makes_objects:
        return found
    # Not all databases keep -c, and mlgo-utils takes whatever stands after -o.
    named = line.output or output
    source, language = line.sources[0] if line.sources else (file, "")
    if named:
        return [(source, language, named)]
    return [(source, language, default_object(source))] if source and line.compiles else []


def _candidate(
    found: tuple[str, str, str], directory: str, base_dir: str | None, arguments: list[str], lto: bool
) -> Candidate | Skipped:
    source, language, object_path = found
    try:
        name = placed_name(object_path, directory, base_dir)
    except CorpusError as error:
        return Skipped(what=object_path, reason=Reason.NAMES_NO_OBJECT, detail=str(error))
    if MISSPELLED_FLAG in arguments and not os.path.exists(os.path.join(directory, object_path)):
        return Skipped(what=name, reason=Reason.MISSPELLED_FLAG, detail=" ".join(arguments)[:200])
    return Candidate(
        name=name,
        path=os.path.join(directory, object_path),
        base=directory,
        source=os.path.normpath(os.path.join(directory, source)) if source else "",
        language=language,
        command=tuple(arguments) if lto else (),
    )


def _malformed(where: str, detail: str) -> Skipped:
    return Skipped(what=where, reason=Reason.MALFORMED_ENTRY, detail=detail)


def _missing_hint(path: Path) -> str | None:
    right = path.with_name("compile_commands.json")
    if path.name == "compilation_commands.json":
        there = f"; {right} exists" if right.exists() else ""
        return f"CMake calls the file compile_commands.json (the document's compilation_commands.json is a slip){there}"
    return None
