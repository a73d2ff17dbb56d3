"""Totals, intervals and extremes of made-up sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymlgo.evaluate.statistics import (
    ModuleChange,
    best_modules,
    geomean_change_percent,
    total_change_interval,
    worst_modules,
)
from pymlgo.evaluate.summing import sum_up
from pymlgo.rollout import Outcome, RolloutFailure, RolloutResult, Sizes, change_percent


def result(module: str, text: int, *, backend: str = "pipes", cpu_s: float = 1.0, changed: int = 0) -> RolloutResult:
    return RolloutResult(
        module=module,
        backend=backend,
        sizes=Sizes(text_bytes=text, berkeley_bytes=2 * text),
        function_bytes={},
        decisions=10,
        changed=changed,
        cpu_s=cpu_s,
    )


def failure(module: str, reason: str) -> RolloutFailure:
    return RolloutFailure(module=module, backend="pipes", reason=reason, detail="said so", cpu_s=0.5)


def summed(defaults: list[Outcome], given: list[Outcome]):
    return sum_up(defaults, given, policy="p", compiler="clang", backend="pipes")


def test_totals_programs_and_extremes() -> None:
    defaults = [result("a/1", 100), result("a/2", 200), result("b/1", 700)]
    given = [result("a/1", 110, changed=2), result("a/2", 100, changed=3), result("b/1", 700, cpu_s=2.0)]
    found = summed(defaults, given)
    assert (found.modules, found.failed) == (3, 0)
    assert (found.default_text_bytes, found.policy_text_bytes) == (1000, 910)
    assert (found.default_berkeley_bytes, found.policy_berkeley_bytes) == (2000, 1820)
    assert found.text_change_percent == pytest.approx(-9.0)
    assert (found.better, found.same, found.worse) == (1, 1, 1)
    assert found.worst_module is not None
    assert (found.worst_module.name, found.worst_module.change_bytes) == ("a/1", 10)
    assert found.worst_modules == (found.worst_module,)
    assert [each.change_percent for each in found.best_modules] == [pytest.approx(-50.0)]
    assert [each.name for each in found.programs] == ["a", "b"]
    assert found.programs[0].text_change_percent == pytest.approx(-30.0)
    assert found.never_worse_change_percent == pytest.approx(-10.0)
    assert (found.decisions, found.changed_decisions) == (30, 5)
    assert found.compile_time_ratio == pytest.approx(4 / 3)
    assert (found.compiles, found.cpu_s) == (6, 7.0)


def test_failures_are_counted_and_left_out_of_the_totals() -> None:
    defaults: list[Outcome] = [result("a/1", 100), failure("a/2", "crash"), result("a/3", 50)]
    given: list[Outcome] = [result("a/1", 90), failure("a/2", "crash"), failure("a/3", "time limit")]
    found = summed(defaults, given)
    assert (found.modules, found.failed) == (1, 2)
    assert found.failures == {"crash": 1, "time limit": 1}
    assert found.failed_modules["a/3"] == "time limit: said so"
    assert found.default_text_bytes == 100


def test_nothing_measured_is_no_change() -> None:
    found = summed([failure("a", "crash")], [failure("a", "crash")])
    assert (found.modules, found.text_change_percent, found.interval95) == (0, 0.0, (0.0, 0.0))
    assert found.worst_module is None
    assert found.compile_time_ratio is None


def test_cached_defaults_cost_nothing_and_tell_no_time() -> None:
    found = summed([result("a", 10, backend="cache", cpu_s=0.0)], [result("a", 10)])
    assert (found.compiles, found.compile_time_ratio) == (1, None)


def test_the_interval_is_the_same_each_time_and_holds_the_change() -> None:
    before = np.arange(100, 200)
    after = before - np.tile([5, 0, 0, 1], 25)
    low, high = total_change_interval(before, after)
    assert total_change_interval(before, after) == (low, high)
    assert low < change_percent(int(before.sum()), int(after.sum())) < high


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=30))
def test_equal_sizes_have_no_interval(sizes: list[int]) -> None:
    array = np.array(sizes)
    assert total_change_interval(array, array) == (0.0, 0.0)
    assert geomean_change_percent(array, array) == pytest.approx(0.0)


def test_the_geometric_mean_weighs_modules_equally() -> None:
    assert geomean_change_percent(np.array([100, 1000]), np.array([50, 2000])) == pytest.approx(0.0)
    assert geomean_change_percent(np.array([0]), np.array([0])) == 0.0


def test_no_module_is_worst_if_none_grew() -> None:
    changes = [ModuleChange(name="a", default_text_bytes=10, policy_text_bytes=10)]
    assert worst_modules(changes) == best_modules(changes) == ()
