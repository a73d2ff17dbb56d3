"""Names for all candidates of an input: unique, and free of clashes between one module's file and another's folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace

from pymlgo.corpus.candidates import Candidate, Reason, Skipped
from pymlgo.corpus.names import safe_name, told_apart
from pymlgo.errors import CorpusError

SUFFIXES = (".bc", ".cmd", ".thinlto.bc")
_RESERVED = re.compile(r".*~[0-9]+", re.DOTALL)
"""How the parts of a merged object are named."""


def resolve_names(offers: Iterable[Candidate | Skipped]) -> list[Candidate | Skipped]:
    """The offers with unique names; an object that is named twice is skipped the second time.

    Objects that share a name (`x.o` made in two directories) are named by their place below the folder that they have
    in common (`lib/x.o`, `src/x.o`). The result depends on the input's content and order only.
    """
    found: list[Candidate | Skipped] = []
    seen: set[tuple[str, int]] = set()
    by_name: dict[str, list[int]] = {}
    for offer in offers:
        if isinstance(offer, Candidate):
            key = (os.path.normpath(offer.path), offer.start)
            if key in seen:
                offer = Skipped(what=offer.name, reason=Reason.DUPLICATE, detail=offer.path)
            else:
                seen.add(key)
                by_name.setdefault(offer.name, []).append(len(found))
        found.append(offer)
    _tell_apart(found, by_name)
    Reserved().claim_all(found)
    return found


def _tell_apart(found: list[Candidate | Skipped], by_name: dict[str, list[int]]) -> None:
    for name, places in by_name.items():
        if len(places) < 2:
            continue
        sharers = [(place, each) for place in places if isinstance(each := found[place], Candidate)]
        paths = [os.path.normpath(each.path) for _, each in sharers]
        if len(set(paths)) < 2:
            continue  # members of one archive; `told_apart` tells them apart
        common = os.path.commonpath(paths) if all(map(os.path.isabs, paths)) else ""
        for (place, candidate), path in zip(sharers, paths, strict=True):
            try:
                longer = safe_name(os.path.relpath(path, common) if common else path)
            except (CorpusError, ValueError):
                longer = name
            if candidate.start or candidate.length is not None:
                longer = f"{longer}/{name.rpartition('/')[2]}"
            found[place] = replace(candidate, name=longer)


class Reserved:
    """The files and folders that names have claimed so far."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.files: set[str] = set()
        self.folders: set[str] = set()

    def claim_all(self, found: list[Candidate | Skipped]) -> None:
        """Replace names in `found` that clash with an earlier one."""
        for place, offer in enumerate(found):
            if isinstance(offer, Candidate):
                name = self.claim(offer.name, f"{offer.path}\0{offer.start}")
                if name != offer.name:
                    found[place] = replace(offer, name=name)

    def claim(self, name: str, distinguisher: str) -> str:
        """`name`, or one like it that clashes with nothing so far; `distinguisher` makes the difference."""
        unique, attempt = name, 0
        if any(folder in self.files for folder in _folders_of(name)):
            name = name.replace("/", "~")  # one of its folders is a file already
        while self._clashes(unique):
            unique, attempt = told_apart(name, f"{distinguisher}\0{attempt}"), attempt + 1
        name = unique
        self.names.add(name)
        self.files.update(name + suffix for suffix in SUFFIXES)
        self.folders.update(_folders_of(name))
        return name

    def _clashes(self, name: str) -> bool:
        return (
            name in self.names
            or _RESERVED.fullmatch(name) is not None
            or any(name + suffix in self.files or name + suffix in self.folders for suffix in SUFFIXES)
            or any(folder in self.files for folder in _folders_of(name))
        )


def _folders_of(name: str) -> list[str]:
    parts = name.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
