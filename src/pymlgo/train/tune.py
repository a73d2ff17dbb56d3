"""Search for the best decisions of each module: flips that shrink its object are kept, nothing is learned.

```
compile the module as LLVM would by itself, and as a policy would that the search may start from
repeat:
    flip many disjoint decisions of the best compile so far        (groups and single ones by turns, and now and then
                                                                    those that other modules found to be good)
    repeat with those flips only whose functions shrank            (what one flip does may depend on another)
    the smallest object so far is the best
join what was found for all modules to one set                     (merge_overrides.py)
```

The result is overrides: decisions by key that differ from LLVM's default, which the advisor plugin replays. No object
is larger (.text) with them than by default, on the modules and with the compiler that they were found for; for others
they mean nothing.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pymlgo.atomic_file import write_text
from pymlgo.corpus.description import Module, UnusableModule
from pymlgo.errors import CorpusError, MLGOError, PolicyError
from pymlgo.policy.policy import Policy
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
    failures_of_unusable,
    in_order,
)
from pymlgo.rollout.plugin import FELL_BACK
from pymlgo.toolchain.advisor import overrides_text
from pymlgo.train.attribution import attribute
from pymlgo.train.flips import FlipPlanner
from pymlgo.train.merge_overrides import Found, Merged, deviations, merge
from pymlgo.train.tune_result import TunedModule, TuneResult

FRUITLESS_TURNS = 16
"""A module is left alone after so many turns without a smaller object; nearly all of its flips were tried by then."""

MOST_REPEATS = 3
"""Compiles of one turn at most: all of its flips, then those that were worth it, then those of them that still are."""

SHARING_TURNS = 4
"""Every so many turns a module tries what was found for the others: they may hold the same inline functions."""

OVERRIDES_SUFFIX = ".overrides"


def tune(
    modules: Sequence[Module],
    output: Path,
    *,
    backend: Backend,
    executor: Executor,
    max_compiles: int,
    seed: int,
    start: Policy | None = None,
    each_output: Path | None = None,
    unusable: Sequence[UnusableModule] = (),
) -> TuneResult:
    """Search each module with at most `max_compiles` compiles, and write the overrides for all of them to `output`.

    Args:
        modules: what to search; each for itself.
        output: a file.
        backend: gives names with every decision.
        executor: where compiles run.
        max_compiles: of each module's search; at least 2. Joining what was found takes a few more where modules share
            functions.
        seed: of what is flipped when; equal seeds find equal overrides.
        start: a policy whose decisions the search begins with where they are better than LLVM's.
        each_output: a folder for `<module>.overrides`, what was found for each module alone.
        unusable: modules of the corpus that are not there; they count as failed.

    Raises:
        CorpusError: there are no modules.
        PolicyError: the policy is not about inlining, or does not fit what the compiler offers.
        MLGOError: a file cannot be written.
    """
    if not modules:
        raise CorpusError("there are no modules to tune", hint="`mlgo corpus describe` shows what a corpus holds")
    if start is not None and start.problem != "inlining":
        raise PolicyError(f"the search is about inlining, the policy about {start.problem}")
    _make_folder(output.parent)  # one that cannot be is better known now than after the search
    shared: dict[int, int] = {}
    searches = [
        _Search(
            module=module,
            start=start,
            shared=shared,
            generator=np.random.default_rng([seed, number]),
            left=max_compiles,
        )
        for number, module in enumerate(modules)
    ]
    _drive(searches, backend, executor, max_compiles)
    found = [each for search in searches if (each := search.found()) is not None]
    joining: list[Outcome] = []

    def compile_all(jobs: Sequence[Job]) -> list[Outcome]:
        outcomes = in_order(executor, backend, jobs)
        joining.extend(outcomes)
        return outcomes

    merged = merge(found, compile_all)
    _write(output, overrides_text(merged.advice))
    if each_output is not None:
        for each in found:
            _write(each_output / f"{each.module.name}{OVERRIDES_SUFFIX}", overrides_text(each.overrides))
    failures = [search.failure for search in searches if search.failure is not None]
    return _summed(output, searches, found, merged, joining, [*failures, *failures_of_unusable(unusable)])


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MLGOError(f"{folder}: cannot be made: {error.strerror}") from error


def _write(file: Path, text: str) -> None:
    try:
        write_text(file, text)
    except OSError as error:
        raise MLGOError(f"{file}: cannot be written: {error.strerror}") from error


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


class _BudgetSpent(Exception):
    """A search has no compiles left."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Search:
    """The search of one module; `steps` gives jobs and takes their outcomes.

    Attributes:
        shared: decisions that were found to be good, by any search; all searches have the same one.
        left: compiles.
        tried: how often each flip was tried.
    """

    module: Module
    start: Policy | None
    shared: dict[int, int]
    generator: np.random.Generator
    left: int
    default: RolloutResult | None = None
    best: RolloutResult | None = None
    failure: RolloutFailure | None = None
    compiles: int = 0
    cpu_s: float = 0.0
    tried: Counter[int] = field(default_factory=Counter)

    def found(self) -> Found | None:
        """The best so far; None if the module does not compile."""
        if self.default is None or self.best is None or self.best.trajectory is None:
            return None
        return Found(
            module=self.module,
            default=self.default.sizes,
            sizes=self.best.sizes,
            trajectory=self.best.trajectory,
        )

    def steps(self) -> Generator[Job, Outcome, None]:
        """The search: jobs to run, one after the other, for their outcomes."""
        with contextlib.suppress(_BudgetSpent):
            yield from self._search()

    def _search(self) -> Generator[Job, Outcome, None]:
        outcome = yield from self._compile(Job(module=self.module, record=True, names=True))
        if isinstance(outcome, RolloutFailure):
            self.failure = outcome
            return
        self.default = self.best = outcome
        if self.start is not None:
            yield from self._try_start(self.start)
        fruitless = turn = 0
        while fruitless < FRUITLESS_TURNS:
            improved = yield from self._turn(turn)
            if turn % SHARING_TURNS == SHARING_TURNS - 1:
                improved = (yield from self._try_shared()) or improved
            fruitless, turn = 0 if improved else fruitless + 1, turn + 1

    def _try_start(self, start: Policy) -> Generator[Job, Outcome, None]:
        outcome = yield from self._compile(Job(module=self.module, policy=start, record=True, names=True))
        if isinstance(outcome, RolloutFailure):
            if outcome.reason == FELL_BACK:
                raise PolicyError(
                    f"the policy to begin with cannot decide: {outcome.detail}",
                    hint="--from names another; --from default begins with LLVM's decisions",
                )
        elif outcome.trajectory is not None and self._is_better(outcome):
            # Once more, by overrides: what is kept was compiled just as users will compile it.
            again = yield from self._compile(self._job(outcome.trajectory, deviations(outcome.trajectory)))
            self._accept(again)

    def _try_shared(self) -> Generator[Job, Outcome, bool]:
        """Decide as other modules do; whether the best got smaller."""
        recorded = self.best.trajectory if self.best else None
        if recorded is None or not recorded.has_names:
            return False
        known = {int(key): int(given) for key, given in zip(recorded.keys, recorded.advice, strict=True)}
        news = {key: given for key, given in self.shared.items() if known.get(key, given) != given}
        if not news:
            return False
        outcome = yield from self._compile(self._job(recorded, deviations(recorded) | news))
        return self._accept(outcome)

    def _turn(self, turn: int) -> Generator[Job, Outcome, bool]:
        """Flip, and flip again what was worth it; whether the best got smaller."""
        base = self.best
        recorded = base.trajectory if base else None
        if base is None or recorded is None or not recorded.has_names:
            return False
        planner = FlipPlanner(recorded, self.tried)
        share = 1.0 if turn // 2 % 2 == 0 else 0.5
        flips = planner.groups(self.generator, share) if turn % 2 == 0 else planner.singles(self.generator, share)
        improved = False
        for _ in range(MOST_REPEATS):
            if not flips:
                break
            advice = deviations(recorded) | dict(planner.overrides(flips).advice)
            outcome = yield from self._compile(self._job(recorded, advice))
            if isinstance(outcome, RolloutFailure):
                break
            improved = self._accept(outcome) or improved
            good = [label.flip for label in attribute(base, outcome, flips).labels if label.change_bytes < 0]
            if len(good) == len(flips):
                break
            flips = good
        return improved

    def _job(self, recorded: Trajectory, advice: Mapping[int, int]) -> Job:
        return Job(module=self.module, overrides=Overrides(advice=advice, recorded=recorded), record=True, names=True)

    def _compile(self, job: Job) -> Generator[Job, Outcome, Outcome]:
        if self.left <= 0:
            raise _BudgetSpent
        outcome = yield job
        self.left -= 1
        self.compiles += 1
        self.cpu_s += outcome.cpu_s
        return outcome

    def _accept(self, outcome: Outcome) -> bool:
        if not isinstance(outcome, RolloutResult) or not self._is_better(outcome):
            return False
        self.best = outcome
        if outcome.trajectory is not None:
            self.shared |= deviations(outcome.trajectory)
        return True

    def _is_better(self, result: RolloutResult) -> bool:
        return self.best is None or _size(result) < _size(self.best)


def _size(result: RolloutResult) -> tuple[int, int]:
    return result.sizes.text_bytes, result.sizes.berkeley_bytes


def _summed(
    output: Path,
    searches: Sequence[_Search],
    found: Sequence[Found],
    merged: Merged,
    joining: Sequence[Outcome],
    failures: Sequence[RolloutFailure],
) -> TuneResult:
    by_name = {search.module.name: search for search in searches}
    tuned = [
        TunedModule(
            name=each.module.name,
            default_text_bytes=each.default.text_bytes,
            tuned_text_bytes=each.sizes.text_bytes,
            text_change_percent=change_percent(each.default.text_bytes, each.sizes.text_bytes),
            default_berkeley_bytes=each.default.berkeley_bytes,
            tuned_berkeley_bytes=each.sizes.berkeley_bytes,
            merged_text_bytes=sizes.text_bytes,
            merged_berkeley_bytes=sizes.berkeley_bytes,
            decisions=len(each.trajectory),
            overrides=len(each.overrides),
            compiles=by_name[each.module.name].compiles,
        )
        for each, sizes in zip(found, merged.sizes, strict=True)
    ]
    before, own = sum(each.default_text_bytes for each in tuned), sum(each.tuned_text_bytes for each in tuned)
    after = sum(each.merged_text_bytes for each in tuned)
    berkeley_before = sum(each.default_berkeley_bytes for each in tuned)
    berkeley_after = sum(each.merged_berkeley_bytes for each in tuned)
    return TuneResult(
        output=output,
        modules=tuple(tuned),
        failed=len(failures),
        failed_modules={each.module: f"{each.reason}: {each.detail}" for each in failures},
        improved=sum(each.merged_text_bytes < each.default_text_bytes for each in tuned),
        default_text_bytes=before,
        tuned_text_bytes=own,
        merged_text_bytes=after,
        text_change_percent=change_percent(before, after),
        tuned_change_percent=change_percent(before, own),
        default_berkeley_bytes=berkeley_before,
        merged_berkeley_bytes=berkeley_after,
        berkeley_change_percent=change_percent(berkeley_before, berkeley_after),
        overrides=len(merged.advice),
        left_out=merged.left_out,
        compiles=sum(search.compiles for search in searches) + len(joining),
        cpu_s=sum(search.cpu_s for search in searches) + sum(each.cpu_s for each in joining),
    )
