"""Which entities of some code a vocabulary lacks: LLVM counts those as zero vectors and says nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pymlgo.arrays import Int64Array
from pymlgo.embed.core import core
from pymlgo.embed.entities import EntityTable
from pymlgo.embed.levels import AnyVocabulary
from pymlgo.embed.module import ParsedModule
from pymlgo.errors import CorpusError


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """An entity that the code uses and the vocabulary lacks."""

    entity: str
    kind: str
    occurrences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of some code's entities a vocabulary knows."""

    entities_used: int
    entities_missing: int
    occurrences: int
    occurrences_missing: int
    missing: tuple[Missing, ...]
    """Most frequent first."""


def coverage(vocabulary: AnyVocabulary, modules: Iterable[ParsedModule]) -> Coverage:
    """What of the `modules`' entities `vocabulary` knows; skipped instructions do not count.

    Raises:
        CorpusError: there is no module, or they are of several targets.
    """
    entities: EntityTable | None = None
    total: Int64Array = np.zeros(0, np.int64)
    for module in modules:
        if entities is not None and module.entities != entities:
            raise CorpusError(f"{module.name} is for another target than the modules before it")
        if entities is None:
            entities, total = module.entities, np.zeros(len(module.entities), np.int64)
        used = core().used_entities(module.walk)
        counts = np.empty((module.walk.blocks, len(used)))
        core().count_entities(module.walk, used, counts)
        total[used] += counts.sum(axis=0).astype(np.int64)
    if entities is None:
        raise CorpusError("there is no module to take entities from")
    lacking = np.flatnonzero((total > 0) & ~vocabulary.present(entities))
    order = lacking[np.argsort(-total[lacking], kind="stable")]
    return Coverage(
        entities_used=int((total > 0).sum()),
        entities_missing=len(lacking),
        occurrences=int(total.sum()),
        occurrences_missing=int(total[lacking].sum()),
        missing=tuple(
            Missing(entity=entities.names[each], kind=entities.kind_of(each), occurrences=int(total[each]))
            for each in order.tolist()
        ),
    )
