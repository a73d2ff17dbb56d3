"""Extraction: from objects with embedded bitcode to a corpus."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from pymlgo.corpus.bitcode import BitcodeError, producer_of
from pymlgo.corpus.candidates import Candidate, Reason, Skipped
from pymlgo.corpus.description import (
    DESCRIPTION_FILE,
    Description,
    optimization_level,
    split_command,
    write_description,
)
from pymlgo.corpus.embedded import (
    Embedded,
    NoModule,
    SectionNames,
    dumped_modules,
    embedded_modules,
    opened,
)
from pymlgo.corpus.extract_result import ExtractResult, Tally
from pymlgo.corpus.manifest import (
    Journal,
    Manifest,
    ModuleRecord,
    Record,
    read_manifest,
    stamp_of,
    write_manifest_lines,
)
from pymlgo.corpus.names import is_safe_name
from pymlgo.corpus.naming import resolve_names
from pymlgo.corpus.output_folder import OutputFolder, Unwritable, WrittenFile, disk_errors
from pymlgo.corpus.parallel import map_in_order
from pymlgo.corpus.replay import INDEX_FLAG
from pymlgo.errors import ConfigError, CorpusError
from pymlgo.progress import progress

ThinLTO = Literal["distributed", "local"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractOptions:
    """How to extract.

    Attributes:
        cmd_filter: keep a module if one of its arguments matches this regular expression somewhere.
        only_sources: keep a module if the path of its source file matches this regular expression somewhere.
        thinlto: how the build was linked, if with ThinLTO.
        sections: where bitcode and command lines are in the objects.
        objcopy: an llvm-objcopy to read objects with, instead of reading them in process.
        level: keep only modules compiled at this level, such as `-Oz`.
        keep_optimized: keep bitcode that is optimized already.
        workers: processes at most; None for one per hardware thread.
        license_note: a sentence for the manifest on the license of the sources.
    """

    cmd_filter: str | None = None
    only_sources: str | None = None
    thinlto: ThinLTO | None = None
    sections: SectionNames = field(default_factory=SectionNames)
    objcopy: str | None = None
    level: str | None = None
    keep_optimized: bool = False
    workers: int | None = None
    license_note: str = ""

    def __post_init__(self) -> None:
        for pattern in (self.cmd_filter, self.only_sources):
            try:
                re.compile(pattern or "")
            except re.error as error:
                raise ConfigError(f"the filter {pattern!r} is no regular expression: {error}") from error


def extract(
    offers: Iterable[Candidate | Skipped],
    output_dir: Path,
    options: ExtractOptions,
    *,
    source: Mapping[str, object],
    command_override: Sequence[str] | None = None,
) -> ExtractResult:
    """Extract every module that the candidates have into a corpus at `output_dir`.

    The corpus appears when the last module is there: until then `output_dir` has no description. An interrupted run
    goes on where it was when it is started again with the same input and options.

    Args:
        offers: from one of the input readers, names not yet unique.
        output_dir: made if it does not exist.
        options: how to extract.
        source: what the modules come from, for the manifest.
        command_override: the description's `global_command_override`.

    Raises:
        CorpusError: the input cannot be read, or the output not written.
    """
    folder = OutputFolder(os.path.abspath(output_dir))
    resolved = resolve_names(offers)
    folder.prepare()
    tally = Tally()
    settings = {"options": asdict(options) | {"workers": None}, "source": dict(source)}
    with disk_errors(output_dir), Journal(output_dir, settings) as journal:
        stale = {record.module: record for record in _old_records(output_dir)}
        # What is half old and half new must not look like a corpus.
        (output_dir / DESCRIPTION_FILE).unlink(missing_ok=True)
        if journal.reusable:
            folder.remove_leftovers()
        _extract_all(resolved, folder, options, journal, tally)
        about = {
            "source": dict(source),
            "license": options.license_note,
            "producers": dict(tally.producers),
            "levels": dict(tally.levels),
        }
        manifest = Manifest(modules=tally.modules, skipped=tally.skipped, about=about)
        write_manifest_lines(output_dir, manifest, journal.lines())
        description = Description(
            modules=tuple(tally.names),
            has_thinlto=options.thinlto is not None,
            command_override=None if command_override is None else tuple(command_override),
        )
        write_description(output_dir, description)
        journal.remove()
        for name in tally.names:
            stale.pop(name, None)
        _remove_stale(output_dir, stale)
    return tally.result(output_dir)


def _extract_all(
    offers: Sequence[Candidate | Skipped],
    folder: OutputFolder,
    options: ExtractOptions,
    journal: Journal,
    tally: Tally,
) -> None:
    with progress("extracting", len(offers)) as (advance, note):
        for records in _extracted(offers, folder, options, journal, tally):
            for record in records:
                tally.add(record)
                journal.add(record)
            journal.flush()
            advance(1)
            note(f"{tally.modules} modules")


def extract_object(candidate: Candidate, folder: OutputFolder, options: ExtractOptions) -> list[Record]:
    """Extract the modules of one object: a record each, or the record of why there is none.

    Raises:
        CorpusError: the disk is full, read-only or broken.
    """
    try:
        if options.only_sources is not None and not re.search(options.only_sources, candidate.source):
            raise NoModule(Reason.FILTERED, candidate.source)
        if options.thinlto == "local":
            return [_copy_local(candidate, folder)]
        with opened(candidate.path, candidate.start, candidate.length) as source:
            stamp = source.stamp
            if options.objcopy and not candidate.start:
                found = dumped_modules(candidate.path, options.sections, options.objcopy, candidate.language)
            else:
                found = embedded_modules(source, options.sections, candidate.language)
        names = [candidate.name] if len(found) == 1 else [f"{candidate.name}~{n}" for n in range(1, len(found) + 1)]
        return [_write(candidate, stamp, *each, folder, options) for each in zip(names, found, strict=True)]
    except NoModule as error:
        return [Skipped(what=candidate.name, reason=error.reason, detail=error.detail)]


def _write(
    candidate: Candidate,
    stamp: tuple[int, int],
    name: str,
    module: Embedded,
    folder: OutputFolder,
    options: ExtractOptions,
) -> ModuleRecord | Skipped:
    try:
        producer = producer_of(module.bitcode) or ""
        command = module.command if module.command is not None else _command_for_ir(candidate, module.bitcode)
        arguments = split_command(command)
        level = _accepted_level(arguments, options)
        index = _distributed_index(candidate, arguments) if options.thinlto == "distributed" else None
        files = [folder.write(name, ".bc", module.bitcode), folder.write(name, ".cmd", command)]
        if index is not None:
            files.append(folder.write(name, ".thinlto.bc", index))
    except NoModule as error:
        return Skipped(what=name, reason=error.reason, detail=error.detail)
    except BitcodeError as error:
        return Skipped(what=name, reason=Reason.DAMAGED, detail=str(error))
    except Unwritable as error:
        return Skipped(what=name, reason=Reason.UNWRITABLE, detail=str(error))
    return _record(candidate, stamp, name, producer, level, module.command is None, files)


def _record(
    candidate: Candidate,
    stamp: tuple[int, int],
    name: str,
    producer: str,
    level: str,
    lto: bool,
    files: list[WrittenFile],
) -> ModuleRecord:
    return ModuleRecord(
        module=name,
        object_path=candidate.path,
        offset=candidate.start,
        length=candidate.length,
        native=candidate.native,
        source=candidate.source,
        producer=producer,
        level=level,
        lto=lto,
        files=tuple(files),
        stamp=stamp,
    )


def _command_for_ir(candidate: Candidate, bitcode: bytes) -> bytes:
    from pymlgo.corpus.lto import command_for_ir  # starts clang, which few inputs need

    return command_for_ir(candidate, bitcode)


def _accepted_level(arguments: Sequence[bytes], options: ExtractOptions) -> str:
    """The module's `-O` flag.

    Raises:
        NoModule: the options do not want a module with these arguments.
    """
    if options.cmd_filter is not None:
        pattern = re.compile(options.cmd_filter)
        if not any(pattern.search(each.decode("utf-8", "surrogateescape")) for each in arguments):
            raise NoModule(Reason.FILTERED)
    if b"-disable-llvm-passes" in arguments and not options.keep_optimized:
        raise NoModule(Reason.OPTIMIZED)
    level = optimization_level(arguments)
    if options.level and level != options.level:
        raise NoModule(Reason.OTHER_LEVEL, level)
    return level


def _distributed_index(candidate: Candidate, arguments: Sequence[bytes]) -> bytes:
    flag = next((each for each in arguments if each.startswith(INDEX_FLAG)), None)
    if flag is None:
        raise NoModule(Reason.NO_INDEX, "its command line names none")
    path = os.path.join(candidate.base, os.fsdecode(flag[len(INDEX_FLAG) :]))
    if path == os.devnull:
        return b""  # how Bazel marks an object that the link did not take
    return _read_index(path)


def _copy_local(candidate: Candidate, folder: OutputFolder) -> ModuleRecord | Skipped:
    """Copy a module that lld saved while it linked, and its index."""
    try:
        with opened(candidate.path) as source:
            stamp = source.stamp
            bitcode = source.read(0, source.size)
        if not bitcode:
            raise NoModule(Reason.EMPTY_BITCODE)
        producer = producer_of(bitcode) or ""
        index = _read_index(candidate.index or "")
        files = [folder.write(candidate.name, ".bc", bitcode), folder.write(candidate.name, ".thinlto.bc", index)]
    except BitcodeError as error:
        return Skipped(what=candidate.name, reason=Reason.NOT_BITCODE, detail=str(error))
    except Unwritable as error:
        return Skipped(what=candidate.name, reason=Reason.UNWRITABLE, detail=str(error))
    return _record(candidate, stamp, candidate.name, producer, "", False, files)


def _read_index(path: str) -> bytes:
    try:
        with opened(path) as source:
            return source.read(0, source.size)
    except NoModule as error:
        raise NoModule(Reason.NO_INDEX, path) from error


@dataclass(frozen=True, slots=True)
class _Work:
    """What a worker needs for every candidate."""

    folder: OutputFolder
    options: ExtractOptions

    def __call__(self, candidate: Candidate) -> list[Record]:
        return extract_object(candidate, self.folder, self.options)


def _extracted(
    offers: Sequence[Candidate | Skipped],
    folder: OutputFolder,
    options: ExtractOptions,
    journal: Journal,
    tally: Tally,
) -> Iterator[list[Record]]:
    """The records of each offer, in order; candidates are extracted in parallel."""
    known: dict[int, list[Record]] = {}
    work: list[Candidate] = []
    for number, offer in enumerate(offers):
        if isinstance(offer, Skipped):
            known[number] = [offer]
        elif journal.reusable and (records := _still_good(offer, journal, folder)):
            known[number] = records
            tally.reused += len(records)
        else:
            work.append(offer)
    done = map_in_order(_Work(folder, options), work, workers=options.workers, in_threads=options.objcopy is not None)
    for number in range(len(offers)):
        yield known[number] if number in known else next(done)


def _still_good(candidate: Candidate, journal: Journal, folder: OutputFolder) -> list[Record]:
    """The records of an interrupted run for this candidate, if object and files are as they were."""
    records = journal.reusable.get((candidate.path, candidate.start), [])
    try:
        good = bool(records) and all(
            record.module.startswith(candidate.name)
            and record.stamp == stamp_of(candidate.path)
            and all(
                os.path.getsize(f"{folder.root}/{record.module}{each.suffix}") == each.size_bytes
                for each in record.files
            )
            for record in records
        )
    except (OSError, ValueError):
        return []
    return list(records) if good else []


def _old_records(root: Path) -> Iterator[ModuleRecord]:
    try:
        yield from (each for each in read_manifest(root) if isinstance(each, ModuleRecord))
    except CorpusError:
        return  # a damaged manifest of an earlier corpus is about to be replaced


def _remove_stale(root: Path, stale: Mapping[str, ModuleRecord]) -> None:
    """Files of modules that an earlier extraction to the same place made and this one did not."""
    for module, record in stale.items():
        for file in record.files:
            if is_safe_name(f"{module}{file.suffix}"):
                (root / f"{module}{file.suffix}").unlink(missing_ok=True)
