"""Flips and what they did, on made-up compiles; labels from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from pymlgo.rollout import RolloutResult, Sizes, Trajectory
from pymlgo.rollout.keys import decision_keys
from pymlgo.tensor_spec import TensorSpec
from pymlgo.train.attribution import attribute
from pymlgo.train.flips import Flip, FlipPlanner, affected_functions
from pymlgo.train.labels import LARGEST_LABEL_BYTES, LabelCollector

Call = tuple[str, str, int]
"""Caller, callee, advice."""


def trajectory(calls: Sequence[Call], overridden: Sequence[int] = (), cost: int = 5) -> Trajectory:
    callers, callees, advice = zip(*calls, strict=True)
    marks = np.zeros(len(calls), np.bool_)
    marks[list(overridden)] = True
    return Trajectory(
        specs=(TensorSpec("cost_estimate", "int64_t", (1,)),),
        features={"cost_estimate": np.arange(len(calls)).reshape(-1, 1) + cost},
        advice=np.array(advice),
        default=np.array(advice),
        overridden=marks,
        callers=callers,
        callees=callees,
        keys=decision_keys(callers, callees),
    )


def result(sizes: Mapping[str, int], recorded: Trajectory | None) -> RolloutResult:
    total = sum(sizes.values())
    return RolloutResult(
        module="m",
        backend="fake",
        sizes=Sizes(text_bytes=total, berkeley_bytes=total),
        function_bytes=sizes,
        decisions=0 if recorded is None else len(recorded),
        changed=0,
        cpu_s=0.0,
        trajectory=recorded,
    )


CHAIN: list[Call] = [("b", "a", 1), ("c", "b", 1), ("d", "c", 0), ("e", "f", 0)]


def test_a_decision_affects_everything_that_its_caller_is_inlined_into() -> None:
    affected = affected_functions(trajectory(CHAIN))
    assert affected == [{"a", "b", "c"}, {"b", "c"}, {"c", "d"}, {"e", "f"}]


def test_recursive_inlining_ends() -> None:
    assert affected_functions(trajectory([("a", "b", 1), ("b", "a", 1)])) == [{"a", "b"}, {"a", "b"}]


def test_flips_of_one_compile_are_disjoint_and_new_ones_come_first() -> None:
    planner = FlipPlanner(trajectory(CHAIN), Counter())
    generator = np.random.default_rng(0)
    seen: set[tuple[int, ...]] = set()
    for _ in range(3):
        flips = planner.singles(generator)
        assert (3,) in {flip.members for flip in flips}
        seen |= {flip.members for flip in flips}
        together = [name for flip in flips for name in flip.affected]
        assert len(together) == len(set(together))
    assert seen == {(0,), (1,), (2,), (3,)}


def test_a_call_of_itself_is_left_alone() -> None:
    planner = FlipPlanner(trajectory([("a", "a", 0), ("a", "b", 0)]), Counter())
    assert [flip.members for flip in planner.singles(np.random.default_rng(0))] == [(1,)]
    assert [flip.members for flip in planner.groups(np.random.default_rng(0))] == [(1,)]


def test_a_group_gives_all_calls_of_a_function_the_same_advice() -> None:
    mixed = trajectory([("a", "f", 1), ("b", "f", 0), ("c", "f", 0)])
    (flip,) = FlipPlanner(mixed, Counter()).groups(np.random.default_rng(0))
    assert flip == Flip(members=(1, 2), advice=1, affected=frozenset("abcf"))
    inlined = trajectory([("a", "f", 1), ("b", "f", 1)])
    (flip,) = FlipPlanner(inlined, Counter()).groups(np.random.default_rng(0))
    assert (flip.members, flip.advice) == ((0, 1), 0)


@pytest.mark.parametrize(("count", "cost"), [(13, 5), (4, 200)])
def test_groups_that_would_blow_the_module_up_are_left_out(count: int, cost: int) -> None:
    calls: list[Call] = [(f"g{number}", "f", 0) for number in range(count)]
    assert FlipPlanner(trajectory(calls, cost=cost), Counter()).groups(np.random.default_rng(0)) == []


def test_half_of_the_flips_can_be_asked_for() -> None:
    calls: list[Call] = [(f"g{number}", f"f{number}", 0) for number in range(10)]
    planner = FlipPlanner(trajectory(calls), Counter())
    assert len(planner.singles(np.random.default_rng(0), 0.5)) == 5
    assert len(planner.singles(np.random.default_rng(0))) == 10


def test_equal_seeds_give_equal_flips() -> None:
    calls: list[Call] = [(f"g{number % 3}", f"f{number}", number % 2) for number in range(20)]
    plans = [FlipPlanner(trajectory(calls), Counter()).singles(np.random.default_rng(7)) for _ in range(2)]
    assert plans[0] == plans[1]


def flips_of(calls: Sequence[Call], *members: int) -> list[Flip]:
    recorded = trajectory(calls)
    affected = affected_functions(recorded)
    return [
        Flip(members=(place,), advice=1 - int(recorded.advice[place]), affected=affected[place]) for place in members
    ]


def test_each_flip_gets_the_change_of_its_functions() -> None:
    before = result({"c": 50, "d": 40, "e": 30, "f": 20}, trajectory(CHAIN))
    flipped = [*CHAIN[:2], ("d", "c", 1), ("e", "f", 1)]
    after = result({"c": 50, "d": 70, "e": 32}, trajectory(flipped, overridden=(2, 3)))
    found = attribute(before, after, flips_of(CHAIN, 2, 3))
    assert [label.change_bytes for label in found.labels] == [30, -18]
    assert (found.lost, found.unexplained_bytes) == (0, 0)


def test_a_flip_that_did_not_happen_is_lost() -> None:
    before = result({"d": 40, "e": 30}, trajectory(CHAIN))
    after = result({"d": 40, "e": 32}, trajectory([*CHAIN[:3], ("e", "f", 1)], overridden=(3,)))
    found = attribute(before, after, flips_of(CHAIN, 2, 3))
    assert [label.flip.members for label in found.labels] == [(3,)]
    assert found.lost == 1


def test_a_flip_that_a_misplaced_override_touched_is_lost() -> None:
    before = result({"d": 40, "e": 30}, trajectory(CHAIN))
    mistaken = [("b", "a", 1), ("c", "b", 0), ("d", "c", 1), ("e", "f", 1)]
    after = result({"d": 45, "e": 32}, trajectory(mistaken, overridden=(1, 2, 3)))
    found = attribute(before, after, flips_of(CHAIN, 2, 3))
    assert [label.flip.members for label in found.labels] == [(3,)]
    assert (found.lost, found.unexplained_bytes) == (1, 5)


def test_functions_that_vanish_with_a_callee_are_credited_to_its_flip() -> None:
    calls: list[Call] = [("f", "helper", 0), ("main", "f", 0), ("other", "g", 0)]
    before = result({"f": 30, "helper": 25, "main": 10, "other": 10, "g": 5}, trajectory(calls))
    flipped = [calls[0], ("main", "f", 1), ("other", "g", 1)]
    after = result({"main": 35, "other": 12}, trajectory(flipped, overridden=(1, 2)))
    found = attribute(before, after, flips_of(calls, 1, 2))
    assert [label.change_bytes for label in found.labels] == [25 - 30 - 25, 2 - 5]
    assert found.unexplained_bytes == 0


def test_a_group_may_lose_members_that_are_gone() -> None:
    calls: list[Call] = [("a", "f", 0), ("b", "f", 0)]
    group = Flip(members=(0, 1), advice=1, affected=frozenset("abf"))
    after = result({"a": 9}, trajectory([("a", "f", 1)], overridden=(0,)))
    found = attribute(result({"a": 5, "b": 5, "f": 5}, trajectory(calls)), after, [group])
    assert [label.change_bytes for label in found.labels] == [-6]


def test_labels_are_bytes_that_inlining_saves() -> None:
    before = result({"c": 50, "d": 40, "e": 30, "f": 20}, trajectory([*CHAIN[:3], ("e", "f", 1)]))
    after = result({"c": 50, "d": 70, "e": 10, "f": 20}, trajectory([*CHAIN[:2], ("d", "c", 1), ("e", "f", 0)], (2, 3)))
    flips = flips_of([*CHAIN[:3], ("e", "f", 1)], 2, 3)
    collector = LabelCollector(("cost_estimate",))
    collector.add(4, before, after, attribute(before, after, flips).labels)
    labels = collector.labels()
    assert labels.saved_bytes.tolist() == [-30, -20]
    assert labels.features[:, 0].tolist() == [7, 8]
    assert labels.default.tolist() == [0, 1]
    assert labels.module.tolist() == [4, 4]


def test_a_group_shares_its_label_and_overrules_single_flips() -> None:
    calls: list[Call] = [("a", "f", 0), ("b", "f", 0)]
    before = result({"a": 5, "b": 5, "f": 20}, trajectory(calls))
    collector = LabelCollector(("cost_estimate",))
    single = result({"a": 15, "b": 5, "f": 20}, trajectory([("a", "f", 1), calls[1]], overridden=(0,)))
    collector.add(0, before, single, attribute(before, single, flips_of(calls, 0)).labels)
    group = Flip(members=(0, 1), advice=1, affected=frozenset("abf"))
    both = result({"a": 10, "b": 10}, trajectory([("a", "f", 1), ("b", "f", 1)], overridden=(0, 1)))
    collector.add(0, before, both, attribute(before, both, [group]).labels)
    labels = collector.labels()
    assert labels.saved_bytes.tolist() == [-10, 5, 5]
    assert labels.group.tolist() == [1, 2, 2]
    kept = labels.without_overruled()
    assert kept.saved_bytes.tolist() == [5, 5]


def test_targets_are_clipped() -> None:
    collector = LabelCollector(("cost_estimate",))
    before = result({"d": 40}, trajectory(CHAIN))
    after = result({"d": 4000}, trajectory([*CHAIN[:2], ("d", "c", 1), CHAIN[3]], overridden=(2,)))
    collector.add(0, before, after, attribute(before, after, flips_of(CHAIN, 2)).labels)
    assert collector.labels().target.tolist() == [-LARGEST_LABEL_BYTES]
