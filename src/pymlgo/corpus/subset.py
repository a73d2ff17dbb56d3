"""Corpora out of a corpus: without duplicates, split by project, with clean command lines."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from pymlgo.corpus.bitcode import BitcodeError, module_info
from pymlgo.corpus.description import Corpus, Description, Module, join_command, read_corpus, write_description
from pymlgo.corpus.manifest import Manifest, ModuleRecord, read_manifest, read_manifest_head, write_manifest
from pymlgo.corpus.names import project_of
from pymlgo.corpus.output_folder import OutputFolder, Unwritable, WrittenFile, disk_errors
from pymlgo.errors import ConfigError, CorpusError
from pymlgo.progress import progress

Unit = Literal["project", "module"]

SCRUBBED_WITH_VALUE = frozenset(
    b"-I -D -U -isystem -iquote -idirafter -include -imacros -internal-isystem -internal-externc-isystem -resource-dir "
    b"-dependency-file -MT -MQ -ferror-limit -isysroot -header-include-file -coverage-notes-file -coverage-data-file "
    b"-include-pch -stack-usage-file -split-dwarf-output -fmodule-map-file -main-file-name".split()
)
SCRUBBED = frozenset((b"-sys-header-deps", b"-fcolor-diagnostics"))
SCRUBBED_PREFIXES = (
    b"-fdebug-compilation-dir=",
    b"-fcoverage-compilation-dir=",
    b"-fembed-bitcode=",
    b"-fdebug-prefix-map=",
    b"-fmacro-prefix-map=",
    b"-fmessage-length=",
    b"-W",
)
"""Arguments that matter to the front end, to messages or to files beside the object only; the module is past all that.

They name paths of the machine that built, and they make command lines differ that mean the same.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsetResult:
    """A corpus that was made of another one.

    Attributes:
        output_dir: the new corpus.
        modules: how many it has.
        dropped: modules of the old one that it has not, by reason.
    """

    output_dir: Path
    modules: int
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitResult:
    """The two corpora of a split, and the projects of each."""

    train: SubsetResult
    evaluation: SubsetResult
    train_projects: tuple[str, ...]
    evaluation_projects: tuple[str, ...]


def dedup(root: Path, output_dir: Path, *, by_source: bool = False) -> SubsetResult:
    """The corpus at `root` with each bitcode once; the first module of equals stays.

    Args:
        root: the corpus.
        output_dir: the new one.
        by_source: also keep one module only of each source file, which a project that builds a static and a shared
            library compiles twice. The source is the manifest's where there is one, else what the bitcode says.

    Raises:
        CorpusError: `root` is no corpus, or the output cannot be written.
    """
    corpus = read_corpus(root)
    sources = {each.module: each.source for each in _records(root).values()}
    contents: set[str] = set()
    seen: set[tuple[str, str]] = set()
    kept: list[Module] = []
    dropped: Counter[str] = Counter()
    for module in corpus.modules:
        data = _read(module)
        if data is None:
            dropped["unusable"] += 1
            continue
        content = hashlib.sha256(data).hexdigest()
        source = _source_key(module, data, sources.get(module.name, "")) if by_source else None
        if content in contents:
            dropped["same content"] += 1
        elif source is not None and source in seen:
            dropped["same source"] += 1
        else:
            kept.append(module)
            contents.add(content)
            if source is not None:
                seen.add(source)
    dropped["unusable"] += len(corpus.unusable)
    return _write(corpus, kept, output_dir, "dedup", dropped)


def scrub(root: Path, output_dir: Path) -> SubsetResult:
    """The corpus at `root` with command lines that hold code generation's arguments only.

    Objects stay the same; paths of the building machine and the flag that embeds bitcode go.

    Raises:
        CorpusError: `root` is no corpus, or the output cannot be written.
    """
    corpus = read_corpus(root)
    dropped = Counter({"unusable": len(corpus.unusable)})
    return _write(corpus, list(corpus.modules), output_dir, "scrub", dropped, command=scrubbed)


def split(
    root: Path,
    output_dir: Path,
    *,
    evaluation: Sequence[str] = (),
    fraction: float = 0.2,
    seed: int = 0,
    by: Unit = "project",
) -> SplitResult:
    """Two corpora, `output_dir/train` and `output_dir/evaluation`, that share no project.

    Args:
        root: the corpus.
        output_dir: where the two go.
        evaluation: the projects to hold out; without any, projects are drawn until they have `fraction` of the bitcode.
        fraction: of the bytes of bitcode that is held out.
        seed: of the draw.
        by: "module" draws modules instead; for a corpus of one project, and only with a reason: modules of a project
            are alike.

    Raises:
        ConfigError: a project that the corpus has not, or a fraction that is none.
        CorpusError: one side would be empty, `root` is no corpus, or the output cannot be written.
    """
    corpus = read_corpus(root)
    unit: Callable[[str], str] = project_of if by == "project" else str
    sizes: Counter[str] = Counter()
    for module in corpus.modules:
        sizes[unit(module.name)] += module.size_bytes
    unknown = sorted(set(evaluation) - set(sizes))
    if unknown:
        raise ConfigError(f"the corpus has no {by} {unknown[0]!r}", hint=f"it has {', '.join(sorted(sizes)[:20])}")
    held_out = set(evaluation) or _drawn(sizes, fraction, seed)
    if not held_out or held_out == set(sizes):
        raise CorpusError(
            f"a corpus of {len(sizes)} {by}s cannot be split", hint="split by module, or make a corpus of more projects"
        )
    parts = {
        name: [each for each in corpus.modules if (unit(each.name) in held_out) == (name == "evaluation")]
        for name in ("train", "evaluation")
    }
    dropped = Counter({"unusable": len(corpus.unusable)})
    return SplitResult(
        train=_write(corpus, parts["train"], output_dir / "train", "split", dropped),
        evaluation=_write(corpus, parts["evaluation"], output_dir / "evaluation", "split", dropped),
        train_projects=tuple(sorted({project_of(each.name) for each in parts["train"]})),
        evaluation_projects=tuple(sorted({project_of(each.name) for each in parts["evaluation"]})),
    )


def scrubbed(command: Iterable[bytes]) -> tuple[bytes, ...]:
    """A `-cc1` command line without what the front end, messages and side files need."""
    kept = []
    rest = iter(command)
    for argument in rest:
        if argument in SCRUBBED_WITH_VALUE:
            next(rest, None)
        elif argument == b"-mllvm":
            kept += [argument, next(rest, b"")]
        elif argument not in SCRUBBED and not argument.startswith(SCRUBBED_PREFIXES):
            kept.append(argument)
    return tuple(kept)


def _drawn(sizes: Mapping[str, int], fraction: float, seed: int) -> set[str]:
    if not 0 < fraction < 1:
        raise ConfigError(f"expected a fraction between 0 and 1, found {fraction}")
    names = sorted(sizes)
    wanted = fraction * sum(sizes.values())
    drawn: set[str] = set()
    total = 0
    for place in np.random.default_rng(seed).permutation(len(names)):
        # The name that would overshoot by more than what is missing is passed over.
        size = sizes[names[place]]
        if total + size - wanted < wanted - total and len(drawn) < len(names) - 1:
            drawn.add(names[place])
            total += size
    return drawn or {min(names, key=lambda name: sizes[name])}


def _source_key(module: Module, data: bytes, known: str) -> tuple[str, str]:
    if known:
        return "", known
    try:
        source = module_info(data).source_filename or module.name
    except BitcodeError:
        source = module.name
    if os.path.isabs(source):
        return project_of(module.name), source
    # A bare file name says nothing across folders; modules beside each other with the same one are the same source.
    return os.path.dirname(module.name), source


def _write(
    corpus: Corpus,
    modules: Sequence[Module],
    output_dir: Path,
    verb: str,
    dropped: Counter[str],
    *,
    command: Callable[[Iterable[bytes]], tuple[bytes, ...]] = tuple,
) -> SubsetResult:
    """Copy modules into a corpus of their own, their command lines through `command`."""
    if output_dir.resolve() == corpus.root.resolve():
        raise ConfigError("the new corpus cannot take the place of the old one", hint="choose another --output-dir")
    folder = OutputFolder(os.path.abspath(output_dir))
    folder.prepare()
    known = _records(corpus.root)
    records: list[ModuleRecord] = []
    with progress(verb, len(modules)) as (advance, _):
        for module in modules:
            files = _copy(corpus, module, folder, command)
            if files is None:
                dropped["unusable"] += 1
            else:
                record = known.get(module.name, ModuleRecord(module=module.name))
                records.append(replace(record, files=files))
            advance(1)
    head = read_manifest_head(corpus.root)
    about = {key: value for key, value in head.items() if key not in ("schema", "modules", "skipped")}
    dropped = +dropped
    about["source"] = {"corpus": str(corpus.root), "type": verb, "dropped": dict(dropped)}
    skipped = head.get("skipped")
    manifest = Manifest(modules=len(records), skipped=skipped if isinstance(skipped, dict) else {}, about=about)
    override = corpus.command_override
    if override is not None:
        changed = command(each.encode("utf-8", "surrogateescape") for each in override)
        override = tuple(each.decode("utf-8", "surrogateescape") for each in changed)
    description = Description(
        modules=tuple(each.module for each in records),
        has_thinlto=corpus.has_thinlto,
        command_override=override,
        extra=corpus.extra,
    )
    with disk_errors(output_dir):
        write_manifest(output_dir, manifest, records)
        write_description(output_dir, description)
    return SubsetResult(output_dir=output_dir, modules=len(records), dropped=dict(dropped))


def _copy(
    corpus: Corpus,
    module: Module,
    folder: OutputFolder,
    command: Callable[[Iterable[bytes]], tuple[bytes, ...]],
) -> tuple[WrittenFile, ...] | None:
    data = _read(module)
    if data is None:
        return None
    try:
        files = [folder.write(module.name, ".bc", data)]
        if corpus.command_override is None:
            files.append(folder.write(module.name, ".cmd", join_command(command(module.command))))
        if module.thinlto_index is not None:
            files.append(folder.write(module.name, ".thinlto.bc", module.thinlto_index.read_bytes()))
    except (OSError, Unwritable):
        return None
    return tuple(files)


def _read(module: Module) -> bytes | None:
    try:
        return module.bitcode.read_bytes()
    except OSError:
        return None


def _records(root: Path) -> dict[str, ModuleRecord]:
    return {each.module: each for each in read_manifest(root) if isinstance(each, ModuleRecord)}
