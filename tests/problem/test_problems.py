"""Problems are data: their names, their flags, what they let through, and what an old LLVM gets wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymlgo.errors import ChannelError, ConfigError
from pymlgo.problem import EVICTION, INLINING, PRIORITY, PROBLEMS, Problem, default_advice, problem_named
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.llvm import LLVM
from pymlgo.training_log.header import Header

NEW, OLD = (LLVM(clang=Path(f"/usr/bin/clang-{major}"), version=(major, 1, 0)) for major in (22, 19))


def checked(problem: Problem, value: object, **features: object) -> str | None:
    arrays = {name: np.asarray(each) for name, each in features.items()}
    return problem.check_advice(arrays, problem.advice.array(value))


def test_problems_are_found_by_name() -> None:
    assert [problem_named(name) for name in ("inlining", "eviction", "priority")] == list(PROBLEMS.values())
    with pytest.raises(ConfigError, match="unknown problem 'spilling'") as caught:
        problem_named("spilling")
    assert caught.value.hint == "known are inlining, eviction, priority"


@pytest.mark.spec("interactive-mode.contexts")
def test_contexts_belong_to_a_module_or_to_a_function() -> None:
    assert [each.one_context_per for each in PROBLEMS.values()] == ["module", "function", "function"]


@pytest.mark.parametrize(("value", "fine"), [(0, True), (1, True), (2, False), (-1, False)])
def test_an_inlining_decision_is_yes_or_no(value: int, fine: bool) -> None:
    assert (checked(INLINING, value) is None) == fine


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(-50, 50))
def test_an_eviction_is_within_the_mask_however_wide_it_is(mask: list[bool], index: int) -> None:
    found = checked(EVICTION, index, mask=np.array([mask], np.int64))
    assert (found is None) == (0 <= index < len(mask) and mask[index])


def test_a_refused_eviction_says_what_would_be_allowed() -> None:
    mask = [[1, 0, 1]]
    assert checked(EVICTION, 1, mask=mask) == "live range 1 must not be evicted, the mask allows [0, 2]"
    assert checked(EVICTION, 3, mask=mask) == "there are 3 live ranges to evict, found index 3"
    assert "'mask'" in str(checked(EVICTION, 0))


@pytest.mark.parametrize(
    ("value", "fine"), [(0.0, True), (4e9, True), (-1.0, False), (5e9, False), (np.inf, False), (np.nan, False)]
)
def test_a_priority_fits_into_an_unsigned(value: float, fine: bool) -> None:
    assert (checked(PRIORITY, value) is None) == fine


@pytest.mark.spec("interactive-mode.flags")
def test_flags_name_the_channel() -> None:
    base = Path("/tmp/ch")
    assert "-inliner-interactive-channel-base=/tmp/ch" in INLINING.channel_flags(NEW, base)
    assert "-regalloc-evict-interactive-channel-base=/tmp/ch" in EVICTION.channel_flags(NEW, base)
    assert "-regalloc-priority-interactive-channel-base=/tmp/ch" in PRIORITY.channel_flags(NEW, base)


def test_a_policy_gets_the_default_only_where_it_costs_no_other_feature() -> None:
    wanted = "-inliner-interactive-include-default"
    assert wanted in INLINING.channel_flags(OLD, Path("ch"))
    assert wanted in INLINING.serving_flags(NEW, Path("ch"))
    assert wanted not in INLINING.serving_flags(OLD, Path("ch"))


def header(*names: str) -> Header:
    return Header(features=tuple(TensorSpec(name, "int64_t", (1,)) for name in names), advice=INLINING.advice)


def test_an_old_inliners_default_is_looked_for_where_it_is() -> None:
    correct = INLINING.correction(OLD)
    assert correct is not None
    assert correct(header("a", "callee_basic_block_count", "b", "inlining_default")) == header(
        "a", "inlining_default", "b"
    )
    for right in (header("a", "callee_basic_block_count"), header("a", "inlining_default")):
        assert correct(right) == right
    assert INLINING.correction(NEW) is EVICTION.correction(OLD) is PRIORITY.correction(OLD) is None


def test_the_default_is_known_for_inlining_only() -> None:
    with pytest.raises(ConfigError, match="does not say what its own decision would be for priority"):
        default_advice(PRIORITY, header("li_size"))
    with pytest.raises(ChannelError, match="sends no feature 'inlining_default'"):
        default_advice(INLINING, header("callee_users"))
