"""What an extraction did, counted as it goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pymlgo.corpus.candidates import Reason, Skipped
from pymlgo.corpus.manifest import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractResult:
    """What an extraction did.

    Attributes:
        output_dir: the corpus.
        modules: how many modules it has.
        skipped: how many things were left out, by reason. The corpus's manifest names each.
        reused: how many of the modules an interrupted run had already extracted.
        levels: modules by their `-O` flag.
        producers: modules by the LLVM that wrote them.
        examples: for each reason one thing that was skipped, and what there is to say about it.
        hints: what the reader should know or do about it.
        override_checked: local ThinLTO: modules on which the generated command line was checked against lld's objects.
        override_matching: those whose objects it gave.
    """

    output_dir: Path
    modules: int
    skipped: Mapping[str, int]
    reused: int = 0
    levels: Mapping[str, int] = field(default_factory=dict)
    producers: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    hints: tuple[str, ...] = ()
    override_checked: int = 0
    override_matching: int = 0


@dataclass(slots=True)
class Tally:
    """Counts over the records of an extraction."""

    names: list[str] = field(default_factory=list)
    reused: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    levels: Counter[str] = field(default_factory=Counter)
    producers: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def modules(self) -> int:
        """How many modules there are so far."""
        return len(self.names)

    def add(self, record: Record) -> None:
        """Count a record."""
        if isinstance(record, Skipped):
            self.skipped[record.reason.value] += 1
            self.examples.setdefault(record.reason.value, ": ".join(filter(None, (record.what, record.detail))))
            return
        self.names.append(record.module)
        if record.level:
            self.levels[record.level] += 1
        self.producers[record.producer or "unknown"] += 1

    def result(self, output_dir: Path) -> ExtractResult:
        """The result for the corpus at `output_dir`."""
        return ExtractResult(
            output_dir=output_dir,
            modules=self.modules,
            skipped=dict(self.skipped),
            levels=dict(self.levels),
            producers=dict(self.producers),
            examples=self.examples,
            reused=self.reused,
            hints=self._hints(),
        )

    def _hints(self) -> tuple[str, ...]:
        hints = []
        if len(self.levels) > 1:
            most = max(self.levels, key=lambda level: self.levels[level])
            hints.append(f"levels differ; --level={most} keeps the {self.levels[most]} modules of {most} only")
        if len(self.producers) > 1:
            hints.append(f"more than one LLVM wrote the bitcode: {', '.join(sorted(self.producers))}")
        if not self.modules and self.skipped[Reason.NO_BITCODE.value]:
            hints.append("`mlgo corpus record -- BUILD` makes an unchanged build embed its bitcode")
        return tuple(hints)
