"""One set of overrides for a whole project, out of those that were found for each of its modules.

A decision is named by its caller and callee, and modules of one program share functions: every object of a C++ program
may hold a copy of the same inline function. What was found for one module then speaks in others, too, where it may
hurt. So the sets are joined, the modules that this touches are compiled again, and decisions that cost more than they
are worth are left out, until no module is larger than LLVM's default makes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pymlgo.corpus.description import Module
from pymlgo.rollout import Job, Outcome, Overrides, RolloutResult, Sizes, Trajectory

ROUNDS = 3
"""Joint compiles after which nothing is left out any more but what makes a module larger than its default."""

Advice: TypeAlias = Mapping[int, int]
"""Decisions by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the search found for one module.

    Attributes:
        default: its sizes under LLVM's default.
        sizes: with the overrides.
        trajectory: of the compile with the overrides, with names and LLVM's default advice.
    """

    module: Module
    default: Sizes
    sizes: Sizes
    trajectory: Trajectory

    @property
    def overrides(self) -> dict[int, int]:
        """The decisions that differ from LLVM's default; given alone, they lead to the same compile."""
        return deviations(self.trajectory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """One set for all modules.

    Attributes:
        advice: the set.
        sizes: of each module under it, parallel to what was found.
        left_out: decisions that some module wanted and the whole did not get.
    """

    advice: Advice
    sizes: tuple[Sizes, ...]
    left_out: int


CompileAll: TypeAlias = Callable[[Sequence[Job]], Sequence[Outcome]]
"""Runs jobs; the outcomes in their order."""


def deviations(trajectory: Trajectory) -> dict[int, int]:
    """The advice by key wherever it differs from LLVM's default."""
    if trajectory.default is None:
        return {}
    places = (trajectory.advice != trajectory.default).nonzero()[0]
    return {int(trajectory.keys[place]): int(trajectory.advice[place]) for place in places}


def merge(found: Sequence[Found], compile_all: CompileAll) -> Merged:
    """Join what was found for each module; the .text of no module is larger than by default.

    What is compiled follows from `found` alone, and nothing is where no module's decision occurs in another.
    """
    wanted = {key: advice for each in found for key, advice in each.overrides.items()}
    advice, results = wanted, _measured(found, wanted, compile_all)
    best, best_results = advice, results
    for _ in range(ROUNDS):
        costly = _costly(found, results)
        if not costly:
            break
        advice = _without(advice, costly)
        results = _measured(found, advice, compile_all)
        if _text_bytes(results) < _text_bytes(best_results):
            best, best_results = advice, results
    # Each turn takes something away; with nothing left every module is as its default.
    while harmful := _harmful(found, best_results):
        best = _without(best, harmful)
        best_results = _measured(found, best, compile_all)
    return Merged(advice=best, sizes=tuple(each.sizes for each in best_results), left_out=len(wanted) - len(best))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """A module under a common set.

    Attributes:
        spoke: the decisions of the set that occur in it.
        is_worse: its .text is larger than by default, or it does not compile (its sizes are the default's then).
    """

    sizes: Sizes
    spoke: frozenset[int]
    is_worse: bool


def _measured(found: Sequence[Found], advice: Advice, compile_all: CompileAll) -> list[_Result]:
    """Every module under `advice`; those that it leaves as they were found are not compiled."""
    touched = [number for number, each in enumerate(found) if not _leaves_alone(each.trajectory, advice)]
    jobs = [
        Job(
            module=found[number].module,
            overrides=Overrides(advice=advice, recorded=found[number].trajectory),
            record=True,
            names=True,
        )
        for number in touched
    ]
    outcomes = dict(zip(touched, compile_all(jobs), strict=True))
    return [_result(each, outcomes.get(number), advice) for number, each in enumerate(found)]


def _leaves_alone(trajectory: Trajectory, advice: Advice) -> bool:
    if trajectory.default is None:
        return True
    decided = zip(trajectory.keys, trajectory.default, trajectory.advice, strict=True)
    return all(advice.get(int(key), int(default)) == int(given) for key, default, given in decided)


def _result(found: Found, outcome: Outcome | None, advice: Advice) -> _Result:
    if isinstance(outcome, RolloutResult) and outcome.trajectory is not None:
        sizes, trajectory = outcome.sizes, outcome.trajectory
        is_worse = sizes.text_bytes > found.default.text_bytes
    else:
        sizes, trajectory = (found.sizes if outcome is None else found.default), found.trajectory
        is_worse = outcome is not None
    spoke = frozenset(map(int, trajectory.keys)) & advice.keys()
    return _Result(sizes=sizes, spoke=spoke, is_worse=is_worse)


def _costly(found: Sequence[Found], results: Sequence[_Result]) -> frozenset[int]:
    """Decisions that cost strangers more than they are worth to the modules that wanted them.

    Both are estimates: what a module lost is shared out among the strange decisions in it, what it gained by its own
    among those.
    """
    value: dict[int, float] = defaultdict(float)
    for each, result in zip(found, results, strict=True):
        own = each.overrides.keys()
        for key in own:
            value[key] += (each.default.text_bytes - each.sizes.text_bytes) / len(own)
        strange = result.spoke - own
        for key in strange:
            value[key] -= (result.sizes.text_bytes - each.sizes.text_bytes) / len(strange)
    spoke = frozenset().union(*(each.spoke for each in results))
    return frozenset(key for key in spoke if value[key] < 0)


def _harmful(found: Sequence[Found], results: Sequence[_Result]) -> frozenset[int]:
    """The strange decisions in modules that are worse than by default; their own where there are no strange ones."""
    worse = [(each, result) for each, result in zip(found, results, strict=True) if result.is_worse]
    return frozenset().union(*((result.spoke - each.overrides.keys()) or result.spoke for each, result in worse))


def _without(advice: Advice, keys: frozenset[int]) -> dict[int, int]:
    return {key: given for key, given in advice.items() if key not in keys}


def _text_bytes(results: Sequence[_Result]) -> int:
    return sum(each.sizes.text_bytes for each in results)
