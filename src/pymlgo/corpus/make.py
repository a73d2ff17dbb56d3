"""Corpora from bitcode files, and from other corpora."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pymlgo.corpus.bitcode import BitcodeError, is_bitcode, producer_of
from pymlgo.corpus.candidates import Reason, Skipped
from pymlgo.corpus.description import DESCRIPTION_FILE, Description, read_description, write_description
from pymlgo.corpus.embedded import NoModule, opened
from pymlgo.corpus.manifest import (
    Manifest,
    ModuleRecord,
    Record,
    read_manifest,
    read_manifest_head,
    stamp_of,
    write_manifest,
)
from pymlgo.corpus.names import is_safe_name, safe_name
from pymlgo.corpus.naming import Reserved
from pymlgo.corpus.output_folder import OutputFolder, Unwritable, disk_errors
from pymlgo.corpus.walk import Found, walk
from pymlgo.errors import CorpusError
from pymlgo.progress import progress

INDEX_SUFFIX = ".thinlto.bc"


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeResult:
    """What `make_corpus` or `combine_corpora` did; counts as in `ExtractResult`."""

    output_dir: Path
    modules: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    producers: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)


def make_corpus(
    input_dir: Path, output_dir: Path, *, default_args: Sequence[str] = (), license_note: str = ""
) -> MakeResult:
    """A corpus of all bitcode files (`*.bc`) below `input_dir`, compiled with `default_args`.

    Modules are named by their path without `.bc`. ThinLTO indices, files that are no bitcode and links that lead out
    of the folder are skipped.

    Source: mlgo-utils' make_corpus_lib. Departures: sorted order; `x.thinlto.bc` is no module; an output folder inside
    the input folder is left out.

    Raises:
        CorpusError: `input_dir` is no folder, or the output cannot be written.
    """
    folder = OutputFolder(os.path.abspath(output_dir))
    reserved = Reserved()
    records: list[Record] = []
    found = list(walk(input_dir, (".bc",), leave_out=output_dir))
    folder.prepare()
    with progress("making", len(found)) as (advance, _):
        for each in found:
            records.append(each if isinstance(each, Skipped) else _copied(each, folder, reserved))
            advance(1)
    modules = [each for each in records if isinstance(each, ModuleRecord)]
    skipped = [each for each in records if isinstance(each, Skipped)]
    counts = Counter(each.reason.value for each in skipped)
    producers = Counter(each.producer or "unknown" for each in modules)
    about = {
        "source": {"input_dir": str(input_dir), "type": "bitcode"},
        "license": license_note,
        "producers": producers,
    }
    names = tuple(each.module for each in modules)
    with disk_errors(output_dir):
        write_manifest(output_dir, Manifest(modules=len(modules), skipped=counts, about=about), records)
        write_description(output_dir, Description(modules=names, command_override=tuple(default_args)))
    return MakeResult(
        output_dir=output_dir,
        modules=len(modules),
        skipped=dict(counts),
        producers=dict(producers),
        examples={each.reason.value: f"{each.what} {each.detail}".strip() for each in reversed(skipped)},
    )


def combine_corpora(root_dir: Path) -> MakeResult:
    """One description, in `root_dir`, for the corpora in its sub-folders.

    Source: mlgo-utils' combine_training_corpus_lib. Departures: sorted order; a description without a field differs
    from one that has it, also for the first corpus.

    Raises:
        CorpusError: the corpora differ by more than their modules, or one is damaged.
    """
    folders = [each.parent for each in sorted(_descriptions(root_dir))]
    names: list[str] = []
    combined: Description | None = None
    for folder in folders:
        description = read_description(folder)
        if combined is not None and not _alike(combined, description):
            raise CorpusError(
                f"{folder} differs from {folders[0]} by more than modules: {_difference(combined, description)}",
                hint="corpora are combined only if all their modules are compiled in the same way",
            )
        combined = combined or description
        names += (f"{folder.name}/{name}" for name in description.modules)
    base = combined or Description(modules=(), has_thinlto=None)
    description = Description(
        modules=tuple(names),
        has_thinlto=base.has_thinlto,
        command_override=base.command_override,
        extra=base.extra,
    )
    with disk_errors(root_dir):
        write_manifest(root_dir, _combined_head(folders, len(names)), _combined_records(folders))
        write_description(root_dir, description)
    return MakeResult(output_dir=root_dir, modules=len(names))


def _copied(found: Found, folder: OutputFolder, reserved: Reserved) -> Record:
    stem = found.name.removesuffix(".bc")
    if found.name.endswith(INDEX_SUFFIX):
        return Skipped(what=found.name, reason=Reason.NOT_BITCODE, detail="a ThinLTO index is no module")
    if not stem or stem.endswith("/"):
        return Skipped(what=found.name, reason=Reason.NOT_BITCODE, detail="a file called .bc has no module name")
    try:
        with opened(found.path) as source:
            bitcode = source.read(0, source.size)
        if not is_bitcode(bitcode):
            reason = Reason.NOT_BITCODE if bitcode else Reason.EMPTY_BITCODE
            return Skipped(what=found.name, reason=reason, detail=found.path)
        producer = producer_of(bitcode) or ""
        name = reserved.claim(safe_name(stem), found.path)
        file = folder.write(name, ".bc", bitcode)
        return ModuleRecord(
            module=name, object_path=found.path, producer=producer, files=(file,), stamp=stamp_of(found.path)
        )
    except NoModule as error:
        return Skipped(what=found.name, reason=error.reason, detail=error.detail)
    except BitcodeError as error:
        return Skipped(what=found.name, reason=Reason.DAMAGED, detail=str(error))
    except Unwritable as error:
        return Skipped(what=found.name, reason=Reason.UNWRITABLE, detail=str(error))


def _descriptions(root_dir: Path) -> Iterator[Path]:
    try:
        folders = list(root_dir.iterdir())
    except OSError as error:
        raise CorpusError(f"{root_dir} cannot be read: {error.strerror}") from error
    for folder in folders:
        if not folder.is_symlink() and (folder / DESCRIPTION_FILE).is_file() and is_safe_name(folder.name):
            yield folder / DESCRIPTION_FILE


def _alike(left: Description, right: Description) -> bool:
    return _fields(left) == _fields(right)


def _fields(description: Description) -> dict[str, object]:
    return {key: value for key, value in description.to_json().items() if key != "modules"}


def _difference(left: Description, right: Description) -> str:
    ours, theirs = _fields(left), _fields(right)
    keys = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
    return ", ".join(f"{key} is {str(theirs.get(key))[:60]} instead of {str(ours.get(key))[:60]}" for key in keys)


def _combined_head(folders: Sequence[Path], modules: int) -> Manifest:
    skipped: Counter[str] = Counter()
    producers: Counter[str] = Counter()
    licenses: dict[str, object] = {}
    for folder in folders:
        head = read_manifest_head(folder)
        for counter, key in ((skipped, "skipped"), (producers, "producers")):
            counts = head.get(key)
            if isinstance(counts, dict):
                counter.update({str(name): count for name, count in counts.items() if isinstance(count, int)})
        licenses[folder.name] = head.get("license", "")
    about = {
        "source": {"corpora": [folder.name for folder in folders], "type": "combined"},
        "license": licenses,
        "producers": producers,
    }
    return Manifest(modules=modules, skipped=skipped, about=about)


def _combined_records(folders: Sequence[Path]) -> Iterator[Record]:
    for folder in folders:
        for record in read_manifest(folder):
            if isinstance(record, ModuleRecord):
                yield replace(record, module=f"{folder.name}/{record.module}")
            else:
                yield Skipped(what=f"{folder.name}/{record.what}", reason=record.reason, detail=record.detail)
