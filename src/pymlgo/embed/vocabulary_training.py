"""From a trained model to a vocabulary, with how good it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from pymlgo.arrays import Float64Array
from pymlgo.embed.batch import Failure, Source
from pymlgo.embed.entities import EntityTable
from pymlgo.embed.transe import TransE, TransESettings, train
from pymlgo.embed.triplets import KnowledgeGraph, Reading, corpus_graph
from pymlgo.embed.vocabulary import MIRVocabulary, Vocabulary
from pymlgo.progress import progress

DECIMALS = 4
"""Digits kept in a vocabulary's file: training leaves far fewer that mean something."""

SHORTEST_FAMILY = 3
"""Letters that two opcodes must share at their start for one to stand in for the other."""

ANALOGIES: tuple[tuple[str, str, str, str], ...] = (
    ("Add", "FAdd", "Sub", "FSub"),
    ("Add", "FAdd", "Mul", "FMul"),
    ("Sub", "FSub", "Mul", "FMul"),
    ("Add", "IntegerTy", "FAdd", "FloatTy"),
    ("Sub", "IntegerTy", "FMul", "FloatTy"),
    ("SDiv", "IntegerTy", "FDiv", "FloatTy"),
    ("Load", "PointerTy", "Store", "VoidTy"),
    ("Alloca", "PointerTy", "Store", "VoidTy"),
    ("GetElementPtr", "PointerTy", "Br", "VoidTy"),
    ("GetElementPtr", "PointerTy", "And", "IntegerTy"),
    ("ICmp", "IntegerTy", "Ret", "VoidTy"),
    ("ZExt", "IntegerTy", "SIToFP", "FloatTy"),
    ("FPToSI", "IntegerTy", "SIToFP", "FloatTy"),
    ("FPToUI", "IntegerTy", "UIToFP", "FloatTy"),
    ("Trunc", "IntegerTy", "FPTrunc", "FloatTy"),
    ("SExt", "IntegerTy", "FPExt", "FloatTy"),
    ("SDiv", "UDiv", "SRem", "URem"),
    ("LShr", "AShr", "ZExt", "SExt"),
    ("PtrToInt", "IntegerTy", "IntToPtr", "PointerTy"),
    ("ICmp", "ICMP_eq", "FCmp", "FCMP_oeq"),
    ("ICmp", "ICMP_slt", "FCmp", "FCMP_olt"),
    ("ICmp", "ICMP_sgt", "FCmp", "FCMP_ogt"),
    ("InsertElement", "VectorTy", "FNeg", "FloatTy"),
    ("ExtractElement", "IntegerTy", "ShuffleVector", "VectorTy"),
)
"""a : b as c : d, of IR2Vec's entities; d should be nearest to b - a + c."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyQuality:
    """How well the vectors answer questions about the graph that they were trained on."""

    hit_at_1: float
    """Share of triplets whose tail is the nearest entity to head + relation, other true tails left out."""

    hit_at_10: float
    mean_rank: float
    analogies_right: int
    analogies_asked: int
    """Those of `ANALOGIES` whose four entities were all trained."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainedVocabulary:
    """A vocabulary with what it was learned from."""

    vocabulary: Vocabulary | MIRVocabulary
    triplets: int
    quality: VocabularyQuality
    failures: tuple[Failure, ...]


def train_vocabulary(
    sources: Sequence[Source],
    reading: Reading,
    settings: TransESettings,
    *,
    provenance: Mapping[str, object],
    checkpoint: Path | None = None,
    jobs: int | None = None,
) -> TrainedVocabulary:
    """Learn a vocabulary from modules, with a progress bar; modules that fail are left out and reported.

    Args:
        sources: the modules.
        reading: which triplets are taken from them.
        settings: how to train.
        provenance: what the file should say of its origin; how it was read and trained is added.
        checkpoint: where the state is kept; a run continues from it if it is there.
        jobs: modules read at once; the host's hardware threads if None.

    Raises:
        CorpusError: no module can be read, or the checkpoint is of another run.
        ToolchainError: a level is asked for and there is no `opt`.
    """
    graph, failures = corpus_graph(sources, reading, jobs=jobs)
    with progress("training", settings.epochs) as (advance, note):

        def on_epoch(epoch: int, loss: float) -> None:
            advance(1)
            note(f"loss {loss:.4f}")

        model = train(graph, settings, checkpoint=checkpoint, on_epoch=on_epoch)
    about: dict[str, object] = {
        **provenance,
        "modules": len(sources) - len(failures),
        "levels": list(reading.levels),
        **({"stops": list(reading.stops)} if reading.mir else {}),
    }
    return TrainedVocabulary(
        vocabulary=vocabulary_of(model, graph, settings, about),
        triplets=len(graph.triplets),
        quality=quality_of(model, graph),
        failures=failures,
    )


def vocabulary_of(
    model: TransE, graph: KnowledgeGraph, settings: TransESettings, provenance: Mapping[str, object]
) -> Vocabulary | MIRVocabulary:
    """The vocabulary with a unit vector for every entity, also for those that the corpus never shows.

    An opcode that does not occur takes the mean direction of the trained ones that share the longest start of its name
    (three letters at least); anything else that does not occur, that of its kind. `provenance` lists which do not.
    """
    used = graph.used_entities()
    rows = np.zeros((len(graph.entities), settings.dimension))
    rows[used] = model.entities / np.maximum(np.linalg.norm(model.entities, axis=1, keepdims=True), 1e-12)
    trained = np.zeros(len(rows), np.bool_)
    trained[used] = True
    names = graph.entities.names
    filled = np.round(_with_stand_ins(rows, trained, graph.entities), DECIMALS)
    made: type[Vocabulary] | type[MIRVocabulary] = MIRVocabulary if graph.entities.target else Vocabulary
    sections: dict[str, dict[str, object]] = {name: {} for name in dict.fromkeys(made.SECTION_OF_KIND.values())}
    for kind, ids in graph.entities.kinds.items():
        prefix = made.KEY_PREFIX.get(kind, "")
        for entity in ids:
            sections[made.SECTION_OF_KIND[kind]][names[entity].removeprefix(prefix)] = filled[entity]
    full = {
        **provenance,
        "method": "TransE",
        "settings": asdict(settings),
        "triplets": len(graph.triplets),
        "occurrences": int(graph.counts.sum()),
        "entities_trained": {
            kind: f"{trained[ids.start : ids.stop].sum()} of {len(ids)}" for kind, ids in graph.entities.kinds.items()
        },
        "quality": asdict(quality_of(model, graph)),
    }
    if not graph.entities.target:
        full["entities_not_in_corpus"] = [names[entity] for entity in np.flatnonzero(~trained)]
    layout = {"llvm": graph.entities.llvm, "target": graph.entities.target, "entities": len(names)}
    return made.from_sections(sections, layout=layout, provenance=full)


def quality_of(model: TransE, graph: KnowledgeGraph) -> VocabularyQuality:
    """Hits, mean rank and analogies of a model on its graph."""
    entities = model.entities / np.linalg.norm(model.entities, axis=1, keepdims=True)
    relations = model.relations / np.linalg.norm(model.relations, axis=1, keepdims=True)
    tails_of: dict[tuple[int, int], list[int]] = {}
    for head, tail, relation in graph.compact().tolist():
        tails_of.setdefault((head, relation), []).append(tail)
    ranks: list[int] = []
    for (head, relation), tails in tails_of.items():
        distances = np.abs(entities[head] + relations[relation] - entities).sum(axis=1)
        mine = np.sort(distances[tails])
        others = np.delete(distances, tails)
        ranks += [1 + int((others < distance).sum()) for distance in mine]
    found = np.array(ranks)
    right, asked = analogies(entities, graph)
    return VocabularyQuality(
        hit_at_1=round(float((found <= 1).mean()), 4),
        hit_at_10=round(float((found <= 10).mean()), 4),
        mean_rank=round(float(found.mean()), 2),
        analogies_right=right,
        analogies_asked=asked,
    )


def analogies(
    entities: Float64Array,
    graph: KnowledgeGraph,
    questions: Sequence[tuple[str, str, str, str]] = ANALOGIES,
) -> tuple[int, int]:
    """How many analogies a : b as c : d are answered right, of those whose entities all occur in the graph."""
    number = {graph.entities.names[entity]: place for place, entity in enumerate(graph.used_entities().tolist())}
    asked = [[number[name] for name in names] for names in questions if all(name in number for name in names)]
    right = 0
    for a, b, c, d in asked:
        near = np.linalg.norm(entities - (entities[b] - entities[a] + entities[c]), axis=1)
        near[[a, b, c]] = np.inf
        right += int(near.argmin()) == d
    return right, len(asked)


def _with_stand_ins(
    rows: Float64Array, trained: np.ndarray[tuple[int], np.dtype[np.bool_]], entities: EntityTable
) -> Float64Array:
    result = rows.copy()
    for kind, ids in entities.kinds.items():
        known = [entity for entity in ids if trained[entity]] or np.flatnonzero(trained).tolist()
        mean = _direction(rows[known])
        for entity in ids:
            if not trained[entity]:
                family = _family(entities.names[entity], known, entities.names) if kind == "opcodes" else []
                result[entity] = _direction(rows[family]) if family else mean
    return result


def _family(name: str, known: Sequence[int], names: Sequence[str]) -> list[int]:
    """The known entities that share the longest start with `name`; none if that is too short."""
    shared = [_shared_start(name, names[entity]) for entity in known]
    longest = max(shared, default=0)
    return [entity for entity, length in zip(known, shared, strict=True) if length == longest >= SHORTEST_FAMILY]


def _shared_start(left: str, right: str) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )


def _direction(rows: Float64Array) -> Float64Array:
    mean = rows.mean(axis=0)
    unit: Float64Array = mean / max(float(np.linalg.norm(mean)), 1e-12)
    return unit
