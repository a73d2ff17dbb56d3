"""What a corpus was made from: `corpus_manifest.jsonl`, and the journal that an interrupted run leaves.

The first line describes the whole; then comes a line for each module and for everything that was skipped, in the
input's order:

```
{"schema": "pymlgo/corpus-manifest-1", "source": …, "license": …, "modules": 3, "skipped": {"missing-object": 1}, …}
{"module": "a.o", "object": "/build/a.o", "producer": "LLVM22.1.8", "files": {".bc": [sha256, bytes], …}}
{"skipped": "entry 7 (b.c)", "reason": "missing-object", "detail": "/build/b.o"}
```
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from pymlgo.atomic_file import writing
from pymlgo.corpus.candidates import Reason, Skipped
from pymlgo.corpus.output_folder import WrittenFile
from pymlgo.errors import CorpusError

MANIFEST_FILE = "corpus_manifest.jsonl"
JOURNAL_FILE = ".corpus_journal.jsonl"
SCHEMA = "pymlgo/corpus-manifest-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRecord:
    """Where one module came from.

    Attributes:
        module: its name in the corpus.
        object_path: the object file it was in; the archive, for a member.
        offset: where the object begins in that file.
        length: its bytes from there, for a member of an archive; None for the whole file.
        native: the object that a linker made of the module (ThinLTO), where `object_path` is none.
        source: the source file, if the input told.
        producer: the LLVM that wrote the bitcode, such as `LLVM22.1.8`.
        level: the `-O` flag of its command line.
        lto: the bitcode is the LLVM IR of an `-flto` object, not what the front end made.
        files: its files in the corpus.
        stamp: size and modification time (ns) of the object file; only in the journal.
    """

    module: str
    object_path: str = ""
    offset: int = 0
    length: int | None = None
    native: str = ""
    source: str = ""
    producer: str = ""
    level: str = ""
    lto: bool = False
    files: tuple[WrittenFile, ...] = ()
    stamp: tuple[int, int] = (0, 0)

    @property
    def reference(self) -> str:
        """The file with the machine code that a replay should give."""
        return self.native or self.object_path

    def to_json(self) -> dict[str, object]:
        """The line of the manifest; what is empty is left out."""
        row: dict[str, object] = {"module": self.module}
        values: dict[str, object] = {"object": self.object_path, "offset": self.offset, "length": self.length}
        values |= {"native": self.native, "source": self.source, "producer": self.producer, "level": self.level}
        row |= {key: value for key, value in (values | {"lto": self.lto}).items() if value}
        return row | {"files": {each.suffix: [each.sha256, each.size_bytes] for each in self.files}}


Record = ModuleRecord | Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest's first line: `about` has the keys beside the counts."""

    modules: int
    skipped: Mapping[str, int]
    about: Mapping[str, object] = field(default_factory=dict)


def write_manifest(root: Path, manifest: Manifest, records: Iterable[Record]) -> None:
    """Write the manifest; `records` may be a generator, of which only one is held at a time."""
    write_manifest_lines(root, manifest, (_line(_row(record)) for record in records))


def write_manifest_lines(root: Path, manifest: Manifest, lines: Iterable[str]) -> None:
    """Write the manifest from its lines, as `Journal.lines` has them."""
    head = {"schema": SCHEMA, **manifest.about, "modules": manifest.modules, "skipped": dict(manifest.skipped)}
    with writing(root / MANIFEST_FILE) as stream:
        stream.write(f"{_line(head)}\n".encode())
        for line in lines:
            stream.write(f"{line}\n".encode())


def read_manifest(root: Path) -> Iterator[Record]:
    """The records of a corpus's manifest; none if it has no manifest.

    Raises:
        CorpusError: the manifest is damaged.
    """
    path = root / MANIFEST_FILE
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as stream:
            stream.readline()
            yield from _records(stream, path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error


def read_manifest_head(root: Path) -> dict[str, object]:
    """The first line of a corpus's manifest; empty if it has no manifest."""
    try:
        with (root / MANIFEST_FILE).open(encoding="utf-8", errors="surrogateescape") as stream:
            found = json.loads(stream.readline())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class Journal:
    """The records of a run that is under way, in order, on disk: they survive an interruption and need no memory."""

    def __init__(self, root: Path, settings: Mapping[str, object]) -> None:
        """Start a journal; one of an interrupted run with the same `settings` offers its records for reuse."""
        self.path = root / JOURNAL_FILE
        self._settings = json.loads(json.dumps(settings))
        self._old = self.path.with_suffix(".old")
        self.reusable = self._read_interrupted()
        self._stream: TextIO | None = None

    def __enter__(self) -> Journal:
        if self.reusable:
            self.path.replace(self._old)
        self._stream = self.path.open("w", encoding="utf-8", errors="surrogateescape")
        self._stream.write(json.dumps({"settings": self._settings}) + "\n")
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream:
            with contextlib.suppress(OSError):  # a full disk was reported already; what is lost is done again
                self._stream.close()

    def add(self, record: Record) -> None:
        """Append a record."""
        if self._stream:
            stamp = " ".join(map(str, record.stamp)) if isinstance(record, ModuleRecord) else ""
            self._stream.write(f"{_line(_row(record))}\t{stamp}\n")

    def flush(self) -> None:
        """Hand what was added to the kernel."""
        if self._stream:
            self._stream.flush()

    def lines(self) -> Iterator[str]:
        """The manifest's line for everything that was added so far."""
        self.flush()
        with self.path.open(encoding="utf-8", errors="surrogateescape") as stream:
            stream.readline()
            for line in stream:
                yield line.rpartition("\t")[0]

    def remove(self) -> None:
        """The run is complete."""
        self.path.unlink(missing_ok=True)
        self._old.unlink(missing_ok=True)

    def _read_interrupted(self) -> dict[tuple[str, int], list[ModuleRecord]]:
        found: dict[tuple[str, int], list[ModuleRecord]] = {}
        for path in (self._old, self.path):
            try:
                with path.open(encoding="utf-8", errors="surrogateescape") as stream:
                    if json.loads(stream.readline()) != {"settings": self._settings}:
                        continue
                    run: dict[tuple[str, int], list[ModuleRecord]] = {}
                    for record in _whole_records(stream):
                        run.setdefault((record.object_path, record.offset), []).append(record)
                    found |= run
            except (OSError, ValueError, RecursionError):
                continue  # no interrupted run, or nothing usable of it: everything is done again
        return found


def _row(record: Record) -> dict[str, object]:
    if isinstance(record, ModuleRecord):
        return record.to_json()
    row: dict[str, object] = {"skipped": record.what, "reason": record.reason.value}
    return row | {"detail": record.detail} if record.detail else row


def _line(row: Mapping[str, object]) -> str:
    return json.dumps(row)  # ASCII only, and tabs are escaped


def _whole_records(stream: TextIO) -> Iterator[ModuleRecord]:
    for line in stream:
        row, _, stamp = line.rpartition("\t")
        if not stamp.endswith("\n"):
            return  # cut off in the middle of a line
        try:
            record = _record(json.loads(row))
            if isinstance(record, ModuleRecord):
                size, modified = map(int, stamp.split())
                yield replace(record, stamp=(size, modified))
        except (ValueError, KeyError, TypeError, RecursionError):
            return


def _records(stream: TextIO, path: Path) -> Iterator[Record]:
    for number, line in enumerate(stream, 2):
        try:
            yield _record(json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorpusError(f"{path}, line {number}: expected a manifest record, found {line[:60]!r}") from error


def _record(row: dict[str, object]) -> Record:
    if "skipped" in row:
        return Skipped(what=str(row["skipped"]), reason=Reason(str(row["reason"])), detail=str(row.get("detail", "")))
    files = row["files"]
    if not isinstance(files, dict):
        raise TypeError
    return ModuleRecord(
        module=str(row["module"]),
        object_path=str(row.get("object", "")),
        offset=_integer(row.get("offset", 0)),
        length=_integer(row["length"]) if "length" in row else None,
        native=str(row.get("native", "")),
        source=str(row.get("source", "")),
        producer=str(row.get("producer", "")),
        level=str(row.get("level", "")),
        lto=bool(row.get("lto", False)),
        files=tuple(WrittenFile(suffix, str(digest), _integer(size)) for suffix, (digest, size) in files.items()),
    )


def _integer(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError
    return value


def stamp_of(path: str) -> tuple[int, int]:
    """Size and modification time of a file, by which an interrupted run knows it again."""
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns
