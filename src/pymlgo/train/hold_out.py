"""Which modules a run learns from, and which it only judges by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymlgo.corpus.description import Module
from pymlgo.corpus.names import project_of
from pymlgo.errors import CorpusError


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldOut:
    """Modules to learn from and modules to judge by.

    Attributes:
        by_project: True if no project is on both sides; False where the corpus has one project only.
    """

    train: tuple[Module, ...]
    validation: tuple[Module, ...]
    by_project: bool

    @property
    def validation_projects(self) -> tuple[str, ...]:
        """The projects judged by, sorted."""
        return tuple(sorted({project_of(each.name) for each in self.validation}))


def hold_out(modules: Sequence[Module], share: float, seed: int) -> HoldOut:
    """About `share` of the bitcode held out, whole projects at a time, at least one and at most half of them.

    With a single project its modules are split instead, and what is measured on them says little about other projects.
    With a share of 0 nothing is held out, and judging takes cross-validation over at least two projects.

    Raises:
        CorpusError: fewer than two modules, or a share of 0 with fewer than two projects.
    """
    if len(modules) < 2:
        raise CorpusError(
            f"the corpus has {len(modules)} usable module(s), training needs two: to learn from and to judge by",
            hint="extract more of the project, or combine corpora with `mlgo corpus combine`",
        )
    generator = np.random.default_rng([seed, len(modules)])
    projects = sorted({project_of(each.name) for each in modules})
    by_project = len(projects) > 1
    if not share:
        if not by_project:
            raise CorpusError(
                f"the corpus has one project ({projects[0]}), and cross-validation needs two",
                hint="hold a share of its modules out with --validation-share 0.25, or add a corpus",
            )
        return HoldOut(train=tuple(modules), validation=(), by_project=True)
    unit = project_of if by_project else str
    units = projects if by_project else sorted(each.name for each in modules)
    bytes_of = dict.fromkeys(units, 0)
    for each in modules:
        bytes_of[unit(each.name)] += each.size_bytes
    wanted = share * sum(bytes_of.values())
    chosen: set[str] = set()
    taken = 0
    for place in generator.permutation(len(units)):
        name = units[int(place)]
        # A project that alone is most of the corpus is better learned from.
        if len(chosen) < max(1, len(units) // 2) and (taken + bytes_of[name] <= 1.25 * wanted):
            chosen.add(name)
            taken += bytes_of[name]
    if not chosen:
        chosen.add(min(units, key=lambda each: (bytes_of[each], each)))
    return HoldOut(
        train=tuple(each for each in modules if unit(each.name) not in chosen),
        validation=tuple(each for each in modules if unit(each.name) in chosen),
        by_project=by_project,
    )
