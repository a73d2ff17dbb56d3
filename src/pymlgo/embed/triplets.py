"""The knowledge graph that vocabularies are trained on: entities, relations and counted triplets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pymlgo.arrays import Int32Array, Int64Array
from pymlgo.atomic_file import write_text
from pymlgo.embed.batch import Failure, Source, each_module
from pymlgo.embed.entities import EntityTable
from pymlgo.embed.module import DEFAULT_STOP, ParsedModule, ReadOptions, read_ir, read_mir
from pymlgo.embed.optimizer import AS_IS, Optimizer
from pymlgo.embed.reader import Reader
from pymlgo.errors import CorpusError

PREDICATE = "Predicate"
"""Relation between a comparison's opcode and its predicate. Ours: llvm-ir2vec has no triplets for predicates."""

_TAIL_SHIFT, _HEAD_SHIFT = 28, 44
_RELATION_MASK = (1 << _TAIL_SHIFT) - 1
_ENTITY_MASK = (1 << (_HEAD_SHIFT - _TAIL_SHIFT)) - 1


def triplets(module: ParsedModule, *, predicates: bool = False) -> Int32Array:
    """i32[n, 3]: (head, tail, relation) in llvm-ir2vec's order, repeated as often as they occur.

    | form | relation 0 | 1 | 2 | … |
    |---|---|---|---|---|
    | IR | Type | Next | Arg 0 | Arg k is 2 + k |
    | MIR | Next | Arg 0 | Arg 1 | Arg k is 1 + k |

    With `predicates`, a comparison also gives (opcode, predicate, -1): the number of that relation depends on the whole
    corpus.
    """
    return module.walk.triplets(predicates)


def triplets_text(module: ParsedModule) -> str:
    """The text that `llvm-ir2vec triplets` prints."""
    return module.walk.triplets_text().decode()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnowledgeGraph:
    """Each triplet once, with how often it occurred.

    Source: OpenKE's data format, as written by llvm/utils/mlgo-utils/IR2Vec/generateTriplets.py (LLVM 22). Departures:
    frequencies are kept, the order is sorted instead of a set's.
    """

    entities: EntityTable
    relations: tuple[str, ...]
    triplets: Int32Array
    """i32[n, 3]: head, tail, relation; sorted."""

    counts: Int64Array
    """i64[n]"""

    def save_openke(self, folder: Path) -> None:
        """Write OpenKE's three files, and `frequency.txt` with a count for each line of `train2id.txt`."""
        lines = [f"{name}\t{number}" for number, name in enumerate(self.relations)]
        write_text(folder / "entity2id.txt", self.entities.text())
        write_text(folder / "relation2id.txt", "\n".join([str(len(self.relations)), *lines]) + "\n")
        rows = ["\t".join(map(str, row)) for row in self.triplets.tolist()]
        write_text(folder / "train2id.txt", "\n".join([str(len(rows)), *rows]) + "\n")
        write_text(folder / "frequency.txt", "".join(f"{count}\n" for count in self.counts))

    def used_entities(self) -> Int64Array:
        """Ids of the entities that occur, ascending."""
        return np.unique(self.triplets[:, :2]).astype(np.int64)

    def compact(self) -> Int32Array:
        """`triplets` with heads and tails as places in `used_entities`."""
        rows = self.triplets.copy()
        rows[:, :2] = np.searchsorted(self.used_entities(), rows[:, :2])
        return rows


def knowledge_graph(modules: Iterable[ParsedModule], *, predicates: bool = False) -> KnowledgeGraph:
    """The graph of all `modules`, which must be of one form and target.

    Raises:
        CorpusError: there is no module, or they are of several targets.
    """
    counted = CountedTriplets()
    entities: EntityTable | None = None
    for module in modules:
        if entities is not None and entities is not module.entities and entities != module.entities:
            raise CorpusError(
                f"{module.name} is for {module.triple or 'IR'}, the modules before it are for another target"
            )
        entities = module.entities
        counted.add(triplets(module, predicates=predicates))
    if entities is None:
        raise CorpusError("there is no module to take triplets from")
    return counted.graph(entities)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a corpus's modules are read for its graph; each module once for every combination."""

    mir: bool = False
    predicates: bool = False
    levels: tuple[str, ...] = ("as-is",)
    """Optimization levels of `opt` that a module goes through first (`O1`, `Os`, …); `as-is`: none."""

    stops: tuple[str, ...] = (DEFAULT_STOP,)
    """For machine IR: the passes after which code generation stops."""


def corpus_graph(
    sources: Sequence[Source], reading: Reading, *, jobs: int | None = None
) -> tuple[KnowledgeGraph, tuple[Failure, ...]]:
    """The graph of a corpus, read in parallel, and the modules that failed.

    Raises:
        CorpusError: no module could be read.
        ToolchainError: a level is asked for and there is no `opt` of the core's LLVM.
    """
    failures: list[Failure] = []
    optimizer = Optimizer.find() if set(reading.levels) != {AS_IS} else None

    def read(source: Source, reader: Reader) -> list[ParsedModule]:
        found: list[ParsedModule] = []
        for level in reading.levels:
            content: Path | bytes = source.path
            if optimizer is not None and level != AS_IS:
                content = optimizer.optimized(source.path, level)
            for stop in reading.stops if reading.mir else ("",):
                options = ReadOptions(definitions=False, stop_after=stop)
                found.append(
                    (read_mir if reading.mir else read_ir)(content, options=options, reader=reader, name=source.name)
                )
        return found

    def good() -> Iterable[ParsedModule]:
        for result in each_module(read, sources, jobs=jobs):
            if isinstance(result, Failure):
                failures.append(result)
            else:
                yield from result

    return knowledge_graph(good(), predicates=reading.predicates), tuple(failures)


class CountedTriplets:
    """Accumulates triplets with their counts; memory grows with the distinct ones."""

    def __init__(self) -> None:
        self._keys: Int64Array = np.empty(0, np.int64)
        self._counts: Int64Array = np.empty(0, np.int64)

    def add(self, rows: Int32Array) -> None:
        """Count the triplets of i32[n, 3]."""
        wide = rows.astype(np.int64)
        keys, counts = np.unique(
            (wide[:, 0] << _HEAD_SHIFT) | (wide[:, 1] << _TAIL_SHIFT) | (wide[:, 2] + 1), return_counts=True
        )
        self._keys, places = np.unique(np.concatenate([self._keys, keys]), return_inverse=True)
        merged = np.zeros(len(self._keys), np.int64)
        np.add.at(merged, places, np.concatenate([self._counts, counts]))
        self._counts = merged

    def graph(self, entities: EntityTable) -> KnowledgeGraph:
        """Everything that was added, for the entities it was numbered by."""
        heads = self._keys >> _HEAD_SHIFT
        tails = (self._keys >> _TAIL_SHIFT) & _ENTITY_MASK
        relations = (self._keys & _RELATION_MASK) - 1
        first = ("Next",) if entities.target else ("Type", "Next")
        highest = max(int(relations.max(initial=0)), len(first) - 1)
        names = [*first, *(f"Arg{number}" for number in range(highest + 1 - len(first)))]
        if (relations == -1).any():
            relations[relations == -1] = len(names)
            names.append(PREDICATE)
        rows = np.stack([heads, tails, relations], axis=1).astype(np.int32)
        order = np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))
        return KnowledgeGraph(
            entities=entities, relations=tuple(names), triplets=rows[order], counts=self._counts[order]
        )
