"""What is in a corpus, in a few numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pymlgo.corpus.bitcode import BitcodeError, producer_of
from pymlgo.corpus.description import Corpus, Module, optimization_level, read_corpus
from pymlgo.corpus.manifest import read_manifest_head
from pymlgo.corpus.names import project_of

START_BYTES = 4096
"""Enough of a module for its identification block, which comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusSummary:
    """A corpus in numbers.

    Attributes:
        root: the corpus.
        modules: usable modules.
        unusable: modules that the description names and that cannot be compiled, with the reason.
        projects: modules by project.
        bitcode_bytes: of all modules.
        median_bitcode_bytes: of one module.
        has_thinlto: from the description.
        command_override: from the description.
        levels: modules by their `-O` flag.
        targets: modules by their `-triple`.
        producers: modules by the LLVM that wrote them.
        skipped: what was left out when the corpus was made, by reason; from the manifest.
        license: the manifest's note.
    """

    root: Path
    modules: int
    unusable: Mapping[str, str]
    projects: Mapping[str, int]
    bitcode_bytes: int
    median_bitcode_bytes: int
    has_thinlto: bool
    command_override: tuple[str, ...] | None
    levels: Mapping[str, int]
    targets: Mapping[str, int]
    producers: Mapping[str, int]
    skipped: Mapping[str, int]
    license: object


def describe(root: Path) -> CorpusSummary:
    """The summary of the corpus at `root`.

    Raises:
        CorpusError: it is no corpus, or its description is damaged.
    """
    corpus = read_corpus(root)
    head = read_manifest_head(root)
    skipped = head.get("skipped")
    sizes = sorted(each.size_bytes for each in corpus.modules)
    return CorpusSummary(
        root=root,
        modules=len(corpus.modules),
        unusable={each.name: each.reason for each in corpus.unusable},
        projects=_counted(project_of(each.name) for each in corpus.modules),
        bitcode_bytes=sum(sizes),
        median_bitcode_bytes=sizes[len(sizes) // 2] if sizes else 0,
        has_thinlto=corpus.has_thinlto,
        command_override=corpus.command_override,
        levels=_counted(optimization_level(each.command) for each in corpus.modules),
        targets=_counted(_target_of(each) for each in corpus.modules),
        producers=_producers(corpus),
        skipped=skipped if isinstance(skipped, dict) else {},
        license=head.get("license", ""),
    )


def _target_of(module: Module) -> str:
    command = list(module.command)
    place = command.index(b"-triple") if b"-triple" in command[:-1] else -1
    return command[place + 1].decode(errors="backslashreplace") if place >= 0 else "unknown"


def _producers(corpus: Corpus) -> dict[str, int]:
    return _counted(_producer(each) for each in corpus.modules)


def _producer(module: Module) -> str:
    try:
        with module.bitcode.open("rb") as stream:
            return producer_of(stream.read(START_BYTES)) or "unknown"
    except (OSError, BitcodeError):
        return "damaged"


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())
