"""Which decisions of a compile to turn around together, so that each one's effect can be told from the sizes.

A flip changes the code of a known set of functions: the callee (which may vanish or come back), the caller, and every
function that the caller is inlined into. Flips with disjoint sets share one compile; the change of each set's size is
the label of its flip. A single flip misses what only happens when *every* call of a function is inlined (its body
disappears), so there are group flips, too: all calls of one function get the same advice.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pymlgo.rollout import Overrides, Trajectory

LARGEST_GROUP = 12
"""Call sites that one group flip may start to inline; more of them blow the module up and label little."""

LARGEST_GROUP_COST = 600
"""Sum of positive `cost_estimate`s that one group flip may start to inline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """Decisions to turn around together.

    Attributes:
        members: their places in the recorded trajectory; one for a single flip.
        advice: what they get instead.
        affected: names of the functions whose size may change.
    """

    members: tuple[int, ...]
    advice: int
    affected: frozenset[str]


class FlipPlanner:
    """Plans the flips of one module around one recorded compile.

    Args:
        trajectory: with names.
        tried: how often each flip was tried so far, by its identity; counts go on in it.
    """

    def __init__(self, trajectory: Trajectory, tried: Counter[int]) -> None:
        self.trajectory = trajectory
        self.tried = tried

    def singles(self, generator: np.random.Generator, share: float = 1.0) -> list[Flip]:
        """Disjoint flips of one decision each, those tried least first; of them the first `share`."""
        names = self.trajectory.callers, self.trajectory.callees
        candidates = [
            Flip(members=(place,), advice=1 - int(self.trajectory.advice[place]), affected=self._affected[place])
            for place, (caller, callee) in enumerate(zip(*names, strict=True))
            if caller != callee
        ]
        return self._chosen(candidates, lambda flip: 0.0, generator, share)

    def groups(self, generator: np.random.Generator, share: float = 1.0) -> list[Flip]:
        """Disjoint flips that give all calls of one function the same advice; groups of one come last."""
        return self._chosen(self._groups, lambda flip: 1.5 if len(flip.members) < 2 else 0.0, generator, share)

    def overrides(self, flips: Iterable[Flip]) -> Overrides:
        """What a job needs in order to take `flips`."""
        keys = self.trajectory.keys
        advice = {int(keys[place]): flip.advice for flip in flips for place in flip.members}
        return Overrides(advice=advice, recorded=self.trajectory)

    @functools.cached_property
    def _affected(self) -> list[frozenset[str]]:
        return affected_functions(self.trajectory)

    @functools.cached_property
    def _groups(self) -> list[Flip]:
        trajectory = self.trajectory
        places: dict[str, list[int]] = defaultdict(list)
        for place, (caller, callee) in enumerate(zip(trajectory.callers, trajectory.callees, strict=True)):
            if caller != callee:
                places[callee].append(place)
        costs = trajectory.features["cost_estimate"].reshape(len(trajectory))
        found = []
        for sites in places.values():
            advice = int((trajectory.advice[sites] == 0).any())
            members = [place for place in sites if trajectory.advice[place] != advice]
            if advice and (len(members) > LARGEST_GROUP or np.maximum(costs[members], 0).sum() > LARGEST_GROUP_COST):
                continue
            reach = frozenset[str]().union(*(self._affected[place] for place in sites))
            found.append(Flip(members=tuple(members), advice=advice, affected=reach))
        return found

    def _chosen(
        self,
        candidates: Sequence[Flip],
        handicap: Callable[[Flip], float],
        generator: np.random.Generator,
        share: float,
    ) -> list[Flip]:
        # Below one, so that chance decides only among flips that were tried equally often.
        chance = generator.random(len(candidates)) * 0.9
        rank = [self.tried[self._identity(flip)] + handicap(flip) for flip in candidates] + chance
        used: set[str] = set()
        chosen = []
        for number in np.argsort(rank, kind="stable"):
            flip = candidates[number]
            if used.isdisjoint(flip.affected):
                chosen.append(flip)
                used |= flip.affected
        kept = chosen[: max(2, round(share * len(chosen)))]
        self.tried.update(self._identity(flip) for flip in kept)
        return kept

    def _identity(self, flip: Flip) -> int:
        keys = self.trajectory.keys[list(flip.members)]
        return int(np.bitwise_xor.reduce(keys)) ^ len(flip.members)


def affected_functions(trajectory: Trajectory) -> list[frozenset[str]]:
    """For each decision, the functions whose code depends on it, as far as this compile shows."""
    inlined_into: dict[str, set[str]] = defaultdict(set)
    for caller, callee, advice in zip(trajectory.callers, trajectory.callees, trajectory.advice, strict=True):
        if advice and caller != callee:
            inlined_into[callee].add(caller)

    @functools.cache
    def closure(name: str) -> frozenset[str]:
        return frozenset(reachable(name, inlined_into))

    return [closure(caller) | {callee} for caller, callee in zip(trajectory.callers, trajectory.callees, strict=True)]


def reachable(start: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    """`start` and everything that `edges` lead to from it."""
    seen, waiting = {start}, [start]
    while waiting:
        for each in edges.get(waiting.pop(), ()):
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return seen
