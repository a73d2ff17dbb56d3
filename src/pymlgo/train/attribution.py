"""Which flip changed the size of which function: labels from one compile with several flips."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pymlgo.rollout.job import RolloutResult, Trajectory
from pymlgo.train.flips import Flip, affected_functions, reachable

MOST_CREDITED = 3
"""A function outside every affected set is credited to the flips that may have changed it, if they are this few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What one flip did to the object: bytes that it added (negative: saved)."""

    flip: Flip
    change_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The labels of one compile.

    Attributes:
        labels: of the flips that took place and can be told apart.
        lost: flips that cannot: not found in the compile, or touched by a decision that was taken for another.
        unexplained_bytes: change of all functions that no label accounts for.
    """

    labels: tuple[Label, ...]
    lost: int
    unexplained_bytes: float


def attribute(base: RolloutResult, flipped: RolloutResult, flips: Sequence[Flip]) -> Attribution:
    """What each of `flips`, which are disjoint in `base`'s trajectory, did in `flipped`.

    Both results need trajectories with names.
    """
    before, after = _trajectory(base), _trajectory(flipped)
    realized = _realized(before, after, flips)
    changes = _changes(base.function_bytes, flipped.function_bytes)
    credit = _credit(changes, before, after, realized)
    labels = []
    explained = 0.0
    for number, flip in enumerate(realized):
        change = sum(changes.get(name, 0) for name in flip.affected) + credit.get(number, 0.0)
        explained += change
        labels.append(Label(flip=flip, change_bytes=change))
    return Attribution(
        labels=tuple(labels), lost=len(flips) - len(realized), unexplained_bytes=sum(changes.values()) - explained
    )


def _trajectory(result: RolloutResult) -> Trajectory:
    if result.trajectory is None or not result.trajectory.has_names:
        raise ValueError(f"{result.module}: flips can only be attributed where decisions have names")
    return result.trajectory


def _realized(before: Trajectory, after: Trajectory, flips: Sequence[Flip]) -> list[Flip]:
    """The flips that took place as planned, and whose functions no misplaced override touched."""
    taken = {int(after.keys[place]): int(after.advice[place]) for place in range(len(after)) if after.overridden[place]}
    asked = {int(key) for key in after.keys}
    whole = [
        flip for flip in flips if _took_place(flip, [int(before.keys[each]) for each in flip.members], taken, asked)
    ]
    planned = {int(before.keys[place]) for flip in whole for place in flip.members}
    touched: set[str] = set()
    if taken.keys() - planned:
        for place, functions in enumerate(affected_functions(after)):
            if after.overridden[place] and int(after.keys[place]) not in planned:
                touched |= functions
    return [flip for flip in whole if touched.isdisjoint(flip.affected)]


def _took_place(flip: Flip, keys: Sequence[int], taken: Mapping[int, int], asked: set[int]) -> bool:
    # Of a group, some calls may be gone because others of it were inlined into their callers first.
    present = [key for key in keys if key in asked]
    return bool(present) and all(taken.get(key) == flip.advice for key in present)


def _changes(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    sizes = ((name, after.get(name, 0) - before.get(name, 0)) for name in before.keys() | after.keys())
    return {name: change for name, change in sorted(sizes) if change}


def _credit(
    changes: Mapping[str, int], before: Trajectory, after: Trajectory, flips: Sequence[Flip]
) -> dict[int, float]:
    """Bytes, by number of the flip, of functions outside all affected sets that a flip reaches through calls.

    Mostly these are functions whose only caller vanished with a callee, or which came back with one.
    """
    affected = frozenset[str]().union(*(flip.affected for flip in flips))
    outside = [name for name in changes if name not in affected]
    if not outside:
        return {}
    calls: dict[str, set[str]] = defaultdict(set)
    for caller, callee in _edges(before, after):
        calls[caller].add(callee)
    below = [reachable(before.callees[flip.members[0]], calls) for flip in flips]
    credit: dict[int, float] = defaultdict(float)
    for name in outside:
        candidates = [number for number, names in enumerate(below) if name in names]
        if 0 < len(candidates) <= MOST_CREDITED:
            for number in candidates:
                credit[number] += changes[name] / len(candidates)
    return credit


def _edges(*trajectories: Trajectory) -> Iterable[tuple[str, str]]:
    for trajectory in trajectories:
        yield from zip(trajectory.callers, trajectory.callees, strict=True)
