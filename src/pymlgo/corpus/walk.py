"""The files below a folder, in sorted order, without leaving it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pymlgo.corpus.candidates import Reason, Skipped
from pymlgo.errors import CorpusError


@dataclass(frozen=True, slots=True)
class Found:
    """A file: its path, and its name relative to the folder that was walked."""

    path: str
    name: str


def walk(
    root: Path | str, suffixes: tuple[str, ...], *, leave_out: Path | str | None = None
) -> Iterator[Found | Skipped]:
    """Every file below `root` whose name ends with one of `suffixes`, sorted by name.

    Symbolic links are followed as long as they stay below `root`; others are skipped. A folder is visited once, so
    links in a circle end.

    Args:
        root: the folder.
        suffixes: such as `(".o", ".obj")`.
        leave_out: a folder that is not entered, such as the output inside the input.

    Raises:
        CorpusError: `root` is no folder, or cannot be read.
    """
    top = os.path.realpath(root)
    if not os.path.isdir(top):
        raise CorpusError(f"{root} is no folder")
    visited = {top} | ({os.path.realpath(leave_out)} if leave_out and os.path.realpath(leave_out) != top else set())
    yield from _walk(str(root), top, "", suffixes, visited)


def _walk(
    folder: str, top: str, prefix: str, suffixes: tuple[str, ...], visited: set[str]
) -> Iterator[Found | Skipped]:
    # A stack instead of recursion: folders can be nested deeper than Python's calls.
    pending = [(folder, prefix)]
    while pending:
        folder, prefix = pending.pop()
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if not prefix:
                raise CorpusError(f"{folder} cannot be read: {error.strerror}") from error
            yield Skipped(what=prefix, reason=Reason.UNREADABLE, detail=str(error.strerror))
            continue
        below = []
        for entry in found:
            name = f"{prefix}{entry.name}"
            is_folder = entry.is_dir()
            if not is_folder and not entry.name.endswith(suffixes):
                continue
            if is_folder or entry.is_symlink():
                real = os.path.realpath(entry.path)
                if not (real + "/").startswith(top.rstrip("/") + "/"):
                    yield Skipped(what=name, reason=Reason.OUTSIDE, detail=real)
                    continue
                if is_folder:
                    if real not in visited:
                        visited.add(real)
                        below.append((entry.path, f"{name}/"))
                    continue
            yield Found(entry.path, name)
        pending += reversed(below)
