"""Inputs that name objects: parameter files, Bazel's aquery, folders, archives."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pymlgo.corpus import archive
from pymlgo.corpus.candidates import Candidate, Reason, Skipped
from pymlgo.corpus.driver_line import MOST_RESPONSE_FILES, split_shell
from pymlgo.corpus.embedded import NoModule, opened
from pymlgo.corpus.names import placed_name, safe_name
from pymlgo.corpus.object_file import ObjectError
from pymlgo.corpus.walk import Found, walk
from pymlgo.errors import CorpusError

OBJECT_SUFFIXES = (".o", ".obj", ".os", ".sho", ".pico")
"""mlgo-utils finds `.o` only; `.sho` is bzip2's, `.os` SCons', `.pico` BSD's shared variant."""

ARCHIVE_SUFFIXES = (".a", ".lib")

_BAZEL_OUT = re.compile(r"bazel-out/[^/]+/(?:bin|genfiles)/")

Offers = Iterator[Candidate | Skipped]


def read_params(path: Path, base_dir: str | None) -> Offers:
    """The objects that a linker's parameter file names.

    A file with `-o` is the linker's command line: its objects and archives count. Any other is a list of objects, one a
    line, as lld's `--thinlto-index-only=FILE` writes it. `@FILE` stands for that file's arguments.

    Raises:
        CorpusError: the file cannot be read.
    """
    base = base_dir or ""
    return _linked(_Parameters(base, {}).read(str(path)), base_dir)


def read_aquery(path: Path, base_dir: str | None) -> Offers:
    """The objects that the `CppLink` actions of a `bazel aquery --output=jsonproto` link, each once.

    Departure from mlgo-utils, which looks at the last such action only: all count.

    Raises:
        CorpusError: the file cannot be read, or is no such JSON.
    """
    found = _json_object(path)
    actions = found.get("actions")
    if not isinstance(actions, list):
        raise CorpusError(
            f"{path}: expected 'actions', a list, as `bazel aquery --output=jsonproto` prints it",
        )
    links = 0
    seen: set[str] = set()
    for number, action in enumerate(actions):
        if not isinstance(action, dict):
            yield Skipped(what=f"action {number}", reason=Reason.MALFORMED_ENTRY, detail="expected an object")
        elif action.get("mnemonic") == "CppLink":
            links += 1
            for offer in _link_action(action, number, base_dir):
                key = f"{offer.path}\0{offer.start}" if isinstance(offer, Candidate) else ""
                if key not in seen or not key:
                    seen.add(key)
                    yield offer
    if not links:
        yield Skipped(what=str(path), reason=Reason.NO_LINK, detail=f"{len(actions)} actions of other kinds")


def read_directory(path: Path, base_dir: str | None) -> Offers:
    """The objects below a folder.

    Raises:
        CorpusError: it is no folder.
    """
    base = os.path.abspath(base_dir or path)
    for found in walk(path, OBJECT_SUFFIXES):
        if isinstance(found, Found):
            absolute = os.path.abspath(found.path)
            inside = absolute.startswith(base.rstrip("/") + "/")
            name = placed_name(absolute, base, base) if inside else safe_name(found.name)
            yield Candidate(name=name, path=found.path, base=base)
        else:
            yield found


def read_archive(path: str, name: str, base: str = "") -> Offers:
    """The members of a static library, named `NAME/MEMBER`.

    Args:
        path: the archive.
        name: its name, for its members' names.
        base: the folder that paths in the members' command lines are relative to.
    """
    try:
        with opened(path) as source:
            for member in archive.members(source):
                yield _member(path, name, base, member)
    except NoModule as error:
        yield Skipped(what=name, reason=error.reason, detail=error.detail)
    except ObjectError as error:
        yield Skipped(what=name, reason=Reason.DAMAGED, detail=str(error))


def _member(path: str, name: str, base: str, member: archive.Member) -> Candidate | Skipped:
    try:
        full_name = safe_name(f"{name}/{safe_name(member.name)}")
    except CorpusError as error:
        return Skipped(what=f"{name}/{member.name}", reason=Reason.NAMES_NO_OBJECT, detail=str(error))
    if member.offset is None:
        return Candidate(name=full_name, path=os.path.join(os.path.dirname(path), member.name), base=base)
    return Candidate(name=full_name, path=path, base=base, start=member.offset, length=member.size)


def _link_action(action: Mapping[str, object], number: int, base_dir: str | None) -> Offers:
    arguments = action.get("arguments")
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        yield Skipped(what=f"action {number}", reason=Reason.MALFORMED_ENTRY, detail="'arguments' must be strings")
        return
    given = _given_params(action)
    expanded = list(_Parameters(base_dir or "", given).expand(arguments, ()))
    yield from _linked(expanded, base_dir, bazel=True)


def _given_params(action: Mapping[str, object]) -> dict[str, list[str]]:
    """Parameter files that `--include_param_files` put into the query's result."""
    given: dict[str, list[str]] = {}
    files = action.get("paramFiles")
    for each in files if isinstance(files, list) else []:
        if isinstance(each, dict) and isinstance(each.get("arguments"), list) and isinstance(each.get("execPath"), str):
            given[each["execPath"]] = [word for word in each["arguments"] if isinstance(word, str)]
    return given


def _linked(arguments: Iterable[str], base_dir: str | None, *, bazel: bool = False) -> Offers:
    """The objects among a linker's arguments."""
    words = [each for each in arguments if each]
    is_command = "-o" in words
    rest = iter(words)
    for word in rest:
        if word == "-o":
            next(rest, None)
            continue
        is_archive = word.endswith(ARCHIVE_SUFFIXES)
        if word.startswith("-") or (is_command and not word.endswith((*OBJECT_SUFFIXES, *ARCHIVE_SUFFIXES))):
            continue
        spelled = _where_bazel_put_it(word, base_dir or "") if bazel else word
        path = os.path.join(base_dir or "", spelled)
        try:
            name = placed_name(spelled, base_dir or "", base_dir)
        except CorpusError as error:
            yield Skipped(what=word, reason=Reason.NAMES_NO_OBJECT, detail=str(error))
            continue
        if is_archive:
            yield from read_archive(path, name, base_dir or "")
        else:
            yield Candidate(name=name, path=path, base=base_dir or "")


def _where_bazel_put_it(path: str, base_dir: str) -> str:
    # An action's paths start at the execution root; the document's example gives bazel-bin as the base.
    match = _BAZEL_OUT.match(path)
    if match and not os.path.exists(os.path.join(base_dir, path)):
        shorter = path[match.end() :]
        if os.path.exists(os.path.join(base_dir, shorter)):
            return shorter
    return path


class _Parameters:
    """Arguments out of parameter files, nested ones opened."""

    def __init__(self, base_dir: str, given: Mapping[str, Sequence[str]]) -> None:
        self.base_dir = base_dir
        self.given = given
        self.opened = 0

    def read(self, path: str) -> list[str]:
        """The arguments of the file at `path`."""
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as stream:
                lines = [line.strip() for line in stream]
        except (OSError, ValueError) as error:
            raise CorpusError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
        return list(self.expand((word for line in lines for word in self._words(line)), (os.path.abspath(path),)))

    def expand(self, words: Iterable[str], open_files: tuple[str, ...]) -> Iterator[str]:
        """`words` with each readable `@file` replaced by its arguments."""
        for word in words:
            name = word.removeprefix("-Wl,").removeprefix("@")
            if not word.removeprefix("-Wl,").startswith("@"):
                yield word
            elif name in self.given and name not in open_files:
                yield from self.expand(self.given[name], (*open_files, name))
            else:
                yield from self._nested(name, word, open_files)

    def _nested(self, name: str, word: str, open_files: tuple[str, ...]) -> Iterator[str]:
        path = os.path.abspath(os.path.join(self.base_dir, _where_bazel_put_it(name, self.base_dir)))
        self.opened += 1
        if path in open_files or self.opened > MOST_RESPONSE_FILES or not os.path.isfile(path):
            yield word
            return
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            lines = [line.strip() for line in stream]
        yield from self.expand((each for line in lines for each in self._words(line)), (*open_files, path))

    def _words(self, line: str) -> list[str]:
        """A line is one argument; but a line with blanks that names no file is a response file's."""
        if not any(each in line for each in " \t\"'\\") or os.path.exists(os.path.join(self.base_dir, line)):
            return [line]
        try:
            return split_shell(line)
        except ValueError:
            return [line]


def _json_object(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise CorpusError(f"{path}: expected a JSON object, found {type(found).__name__}")
    return found
