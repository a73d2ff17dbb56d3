"""Search for the best decisions of each module: flips that shrink its object are kept, nothing is learned.

```
repeat for each module:
    flip many disjoint decisions in one compile          (groups and single ones by turns)
    keep the flips whose functions shrank, in one more compile
    accept what came out if the object is smaller than the best so far
```

The result is a set of overrides: decisions by key, which the advisor plugin replays. Their .text is never larger than
LLVM's default, on the module and with the compiler that they were found for; for others they mean nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pymlgo.atomic_file import write_text
from pymlgo.corpus.description import Module
from pymlgo.errors import CorpusError
from pymlgo.progress import progress
from pymlgo.rollout import (
    Backend,
    Executor,
    Job,
    Outcome,
    Overrides,
    RolloutFailure,
    RolloutResult,
    Trajectory,
    change_percent,
)
from pymlgo.toolchain.advisor import overrides_text
from pymlgo.train.attribution import attribute
from pymlgo.train.flips import Flip, FlipPlanner

FRUITLESS_TURNS = 16
"""A module is left alone after so many turns without a smaller object; nearly all of its flips were tried by then."""

OVERRIDES_SUFFIX = ".overrides"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedModule:
    """What the search found for one module; `overrides` of its decisions differ from LLVM's default."""

    name: str
    default_text_bytes: int
    tuned_text_bytes: int
    text_change_percent: float
    default_berkeley_bytes: int
    tuned_berkeley_bytes: int
    decisions: int
    overrides: int
    compiles: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """What the search found for a corpus; modules that do not compile are in `failed_modules`, with why."""

    output: Path
    modules: tuple[TunedModule, ...]
    failed: int
    failed_modules: Mapping[str, str]
    improved: int
    default_text_bytes: int
    tuned_text_bytes: int
    text_change_percent: float
    default_berkeley_bytes: int
    tuned_berkeley_bytes: int
    berkeley_change_percent: float
    compiles: int
    cpu_s: float


def tune(
    modules: Sequence[Module],
    output: Path,
    *,
    backend: Backend,
    executor: Executor,
    max_compiles: int,
    seed: int,
) -> TuneResult:
    """Search each module with at most `max_compiles` compiles, and write `<output>/<module>.overrides`.

    Args:
        modules: what to search; each for itself.
        output: a folder; a module that nothing was found for has an empty file.
        backend: gives names with every decision.
        executor: where compiles run.
        max_compiles: of each module; at least 2.
        seed: of what is flipped when; equal seeds find equal overrides.

    Raises:
        CorpusError: there are no modules.
    """
    if not modules:
        raise CorpusError("there are no modules to tune", hint="`mlgo corpus describe` shows what a corpus holds")
    searches = [
        _Search(module=module, generator=np.random.default_rng([seed, number]), left=max_compiles)
        for number, module in enumerate(modules)
    ]
    _drive(searches, backend, executor, max_compiles)
    for search in searches:
        if search.best is not None:
            write_text(output / f"{search.module.name}{OVERRIDES_SUFFIX}", overrides_text(search.overrides))
    return _summed(output, searches)


def _drive(searches: Sequence[_Search], backend: Backend, executor: Executor, max_compiles: int) -> None:
    """Let the searches take turns: one job of each at a time."""
    running = [(search, search.steps()) for search in searches]
    waiting = [(search, steps, next(steps)) for search, steps in running]
    with progress("tuning", max_compiles * len(searches)) as (advance, note):
        while waiting:
            outcomes = dict(executor.run(backend, [job for _, _, job in waiting]))
            following = []
            for place, (search, steps, _) in enumerate(waiting):
                try:
                    following.append((search, steps, steps.send(outcomes[place])))
                    advance(1)
                except StopIteration:
                    advance(1 + search.left)
            waiting = following
            found = [search for search in searches if search.best is not None and search.default is not None]
            before = sum(search.default.sizes.text_bytes for search in found if search.default)
            after = sum(search.best.sizes.text_bytes for search in found if search.best)
            note(f"{len(waiting)} modules, .text {change_percent(before, after):+.2f} %")


@dataclass(slots=True, kw_only=True, eq=False)
class _Search:
    """The search of one module; `steps` gives jobs and takes their outcomes."""

    module: Module
    generator: np.random.Generator
    left: int
    default: RolloutResult | None = None
    best: RolloutResult | None = None
    failure: RolloutFailure | None = None
    compiles: int = 0
    cpu_s: float = 0.0
    tried: Counter[int] = field(default_factory=Counter)

    @property
    def overrides(self) -> dict[int, int]:
        """The decisions of the best compile that were overridden."""
        recorded = self.best.trajectory if self.best else None
        if recorded is None:
            return {}
        places = np.flatnonzero(recorded.overridden)
        return {int(recorded.keys[place]): int(recorded.advice[place]) for place in places}

    def steps(self) -> Generator[Job, Outcome, None]:
        outcome = yield Job(module=self.module, record=True, names=True)
        self._spend(outcome)
        if isinstance(outcome, RolloutFailure):
            self.failure = outcome
            return
        self.default = self.best = outcome
        fruitless = turn = 0
        while self.left > 0 and fruitless < FRUITLESS_TURNS:
            improved = yield from self._turn(turn)
            fruitless, turn = 0 if improved else fruitless + 1, turn + 1

    def _turn(self, turn: int) -> Generator[Job, Outcome, bool]:
        """One compile with flips, and one with those that shrank their functions; whether the best got smaller."""
        best = self.best
        recorded = best.trajectory if best else None
        if best is None or recorded is None or not recorded.has_names:
            return False
        planner = FlipPlanner(recorded, self.tried)
        share = 1.0 if turn // 2 % 2 == 0 else 0.5
        flips = planner.groups(self.generator, share) if turn % 2 == 0 else planner.singles(self.generator, share)
        if not flips:
            return False
        outcome = yield self._job(recorded, flips)
        self._spend(outcome)
        if isinstance(outcome, RolloutFailure):
            return False
        good = [label.flip for label in attribute(best, outcome, flips).labels if label.change_bytes < 0]
        improved = self._accept(outcome)
        if good and len(good) < len(flips) and self.left > 0:
            again = yield self._job(recorded, good)
            self._spend(again)
            improved = (isinstance(again, RolloutResult) and self._accept(again)) or improved
        return improved

    def _job(self, recorded: Trajectory, flips: Sequence[Flip]) -> Job:
        advice = self.overrides | dict(FlipPlanner(recorded, Counter()).overrides(flips).advice)
        return Job(module=self.module, overrides=Overrides(advice=advice, recorded=recorded), record=True, names=True)

    def _accept(self, result: RolloutResult) -> bool:
        best = self.best
        if best is not None and _size(result) >= _size(best):
            return False
        self.best = result
        return True

    def _spend(self, outcome: Outcome) -> None:
        self.left -= 1
        self.compiles += 1
        self.cpu_s += outcome.cpu_s


def _size(result: RolloutResult) -> tuple[int, int]:
    return result.sizes.text_bytes, result.sizes.berkeley_bytes


def _summed(output: Path, searches: Sequence[_Search]) -> TuneResult:
    tuned = [found for search in searches if (found := _tuned(search)) is not None]
    before, after = sum(each.default_text_bytes for each in tuned), sum(each.tuned_text_bytes for each in tuned)
    berkeley_before = sum(each.default_berkeley_bytes for each in tuned)
    berkeley_after = sum(each.tuned_berkeley_bytes for each in tuned)
    failures = [search.failure for search in searches if search.failure is not None]
    return TuneResult(
        output=output,
        modules=tuple(tuned),
        failed=len(failures),
        failed_modules={each.module: f"{each.reason}: {each.detail}" for each in failures},
        improved=sum(each.tuned_text_bytes < each.default_text_bytes for each in tuned),
        default_text_bytes=before,
        tuned_text_bytes=after,
        text_change_percent=change_percent(before, after),
        default_berkeley_bytes=berkeley_before,
        tuned_berkeley_bytes=berkeley_after,
        berkeley_change_percent=change_percent(berkeley_before, berkeley_after),
        compiles=sum(search.compiles for search in searches),
        cpu_s=sum(search.cpu_s for search in searches),
    )


def _tuned(search: _Search) -> TunedModule | None:
    if search.default is None or search.best is None:
        return None
    before, after = search.default.sizes, search.best.sizes
    return TunedModule(
        name=search.module.name,
        default_text_bytes=before.text_bytes,
        tuned_text_bytes=after.text_bytes,
        text_change_percent=change_percent(before.text_bytes, after.text_bytes),
        default_berkeley_bytes=before.berkeley_bytes,
        tuned_berkeley_bytes=after.berkeley_bytes,
        decisions=search.default.decisions,
        overrides=len(search.overrides),
        compiles=search.compiles,
    )
