"""What a vocabulary holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pymlgo.embed.batch import Failure, Source, each_module, sources_of
from pymlgo.embed.coverage import Coverage, coverage
from pymlgo.embed.entities import ir_entities, mir_entities
from pymlgo.embed.levels import AnyVocabulary
from pymlgo.embed.module import ParsedModule, ReadOptions, read_ir, read_mir
from pymlgo.embed.reader import Reader
from pymlgo.embed.vocabulary import Vocabulary

SHOWN = 20
"""Names in a text before it says how many more there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """A vocabulary's facts."""

    dimension: int
    vectors: Mapping[str, int]
    """By section."""

    lengths: tuple[float, float, float]
    """Shortest, median and longest vector."""

    layout: Mapping[str, object]
    provenance: Mapping[str, object]
    absent: tuple[str, ...]
    """IR entities without a vector; empty for MIR, where that depends on the target."""

    unknown: tuple[str, ...]
    """`Section/key` that no entity has."""

    coverage: Coverage | None
    failures: tuple[Failure, ...]

    def text(self) -> str:
        """The facts as lines."""
        lines = [f"dimension   {self.dimension}"]
        lines += [f"{section:<18}{count} vectors" for section, count in self.vectors.items()]
        lines.append("lengths     {:.3f} to {:.3f}, median {:.3f}".format(*(self.lengths[each] for each in (0, 2, 1))))
        lines += [f"{key}: {value}" for key, value in {**self.layout, **self.provenance}.items()]
        if self.absent:
            lines.append(f"zero (absent): {_shown(self.absent)}")
        if self.unknown:
            lines.append(f"ignored by LLVM: {_shown(self.unknown)}")
        if self.coverage:
            share = self.coverage.occurrences_missing / max(1, self.coverage.occurrences)
            lines.append(
                f"coverage: {self.coverage.entities_missing} of {self.coverage.entities_used} entities used are absent "
                f"({share:.2%} of occurrences)"
            )
            lines += [f"  {each.occurrences:>9}  {each.entity}" for each in self.coverage.missing[:SHOWN]]
        return "\n".join(lines)


def inspect_vocabulary(vocabulary: AnyVocabulary, corpora: Sequence[Path], *, jobs: int | None = None) -> Inspection:
    """The facts of `vocabulary`, with its coverage of the modules and corpora given.

    Raises:
        CorpusError: a folder is no corpus, or no module can be read.
    """
    is_ir = isinstance(vocabulary, Vocabulary)
    target = str(vocabulary.layout.get("target", ""))
    triple = {"x86-64": "x86_64-unknown-linux-gnu"}.get(target, target)
    entities = ir_entities() if is_ir else mir_entities(triple)
    rows = np.concatenate([section.rows for section in vocabulary.sections.values()])
    lengths = np.linalg.norm(rows, axis=1)
    absent = np.flatnonzero(~vocabulary.present(entities)) if is_ir else np.zeros(0, np.int64)
    failures: list[Failure] = []
    covered = None
    if corpora:
        sources, unusable = sources_of(corpora)
        failures += unusable
        covered = coverage(vocabulary, _modules(sources, is_ir, jobs, failures))
    return Inspection(
        dimension=vocabulary.dimension,
        vectors={name: len(section.index) for name, section in vocabulary.sections.items()},
        lengths=(float(lengths.min()), float(np.median(lengths)), float(lengths.max())),
        layout=vocabulary.layout,
        provenance=vocabulary.provenance,
        absent=tuple(entities.names[entity] for entity in absent.tolist()),
        unknown=vocabulary.unknown_keys(entities),
        coverage=covered,
        failures=tuple(failures),
    )


def _modules(
    sources: Sequence[Source], is_ir: bool, jobs: int | None, failures: list[Failure]
) -> Iterator[ParsedModule]:
    options = ReadOptions(definitions=False)

    def read(source: Source, reader: Reader) -> ParsedModule:
        return (read_ir if is_ir else read_mir)(source.path, options=options, reader=reader, name=source.name)

    for result in each_module(read, sources, jobs=jobs):
        if isinstance(result, Failure):
            failures.append(result)
        else:
            yield result


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
