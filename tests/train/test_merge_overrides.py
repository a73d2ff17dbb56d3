"""Joining overrides of modules that share functions, with compilers made of arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pymlgo.corpus.description import Module
from pymlgo.rollout import Job, Outcome, RolloutFailure, RolloutResult, Sizes, Trajectory
from pymlgo.train.merge_overrides import Found, deviations, merge

BASE = 1000

Effects = Mapping[int, int]
"""Bytes that deciding a key otherwise than LLVM does adds to a module."""


def trajectory(keys: Sequence[int], advice: Mapping[int, int]) -> Trajectory:
    return Trajectory(
        specs=(),
        features={},
        advice=np.array([advice.get(key, 0) for key in keys], np.int64),
        default=np.zeros(len(keys), np.int64),
        overridden=np.array([key in advice for key in keys], np.bool_),
        callers=("f",) * len(keys),
        callees=("g",) * len(keys),
        keys=np.array(keys, np.uint64),
    )


def sizes(effects: Effects, advice: Mapping[int, int]) -> Sizes:
    text = BASE + sum(effects[key] for key, given in advice.items() if given and key in effects)
    return Sizes(text_bytes=text, berkeley_bytes=2 * text)


class Arithmetic:
    """Compiles modules whose decisions have effects that add up; those in `crashing` fail."""

    def __init__(self, modules: Mapping[str, Effects], crashing: frozenset[str] = frozenset()) -> None:
        self.modules = modules
        self.crashing = crashing
        self.compiled: list[str] = []

    def found(self, wanted: Mapping[str, Mapping[int, int]]) -> list[Found]:
        return [
            Found(
                module=Module(name=name, bitcode=Path(name), command=(), size_bytes=1),
                default=sizes(effects, {}),
                sizes=sizes(effects, wanted.get(name, {})),
                trajectory=trajectory(list(effects), wanted.get(name, {})),
            )
            for name, effects in self.modules.items()
        ]

    def __call__(self, jobs: Sequence[Job]) -> list[Outcome]:
        return [self._outcome(job) for job in jobs]

    def _outcome(self, job: Job) -> Outcome:
        name = job.module.name
        self.compiled.append(name)
        if name in self.crashing:
            return RolloutFailure(module=name, backend="sums", reason="crash", detail="", cpu_s=0.0)
        assert job.overrides is not None
        advice = job.overrides.advice
        return RolloutResult(
            module=name,
            backend="sums",
            sizes=sizes(self.modules[name], advice),
            function_bytes={},
            decisions=1,
            changed=None,
            cpu_s=0.0,
            trajectory=trajectory(list(self.modules[name]), advice),
        )


def test_modules_that_share_nothing_are_not_compiled_again() -> None:
    compiler = Arithmetic({"a": {1: -10}, "b": {2: -20}})
    merged = merge(compiler.found({"a": {1: 1}, "b": {2: 1}}), compiler)
    assert merged.advice == {1: 1, 2: 1}
    assert [each.text_bytes for each in merged.sizes] == [990, 980]
    assert (merged.left_out, compiler.compiled) == (0, [])


def test_what_one_module_found_helps_another() -> None:
    compiler = Arithmetic({"a": {1: -10}, "b": {1: -30}})
    merged = merge(compiler.found({"a": {1: 1}}), compiler)
    assert [each.text_bytes for each in merged.sizes] == [990, 970]
    assert compiler.compiled == ["b"]


def test_a_decision_that_costs_others_more_is_left_out() -> None:
    compiler = Arithmetic({"a": {1: -10, 2: -5}, "b": {1: 300, 3: -400}})
    merged = merge(compiler.found({"a": {1: 1, 2: 1}, "b": {3: 1}}), compiler)
    assert merged.advice == {2: 1, 3: 1}
    assert [each.text_bytes for each in merged.sizes] == [995, 600]
    assert merged.left_out == 1


def test_no_module_is_larger_than_by_default_even_where_the_sum_gains() -> None:
    compiler = Arithmetic({"a": {1: -500}, "b": {1: 20}})
    merged = merge(compiler.found({"a": {1: 1}}), compiler)
    assert merged.advice == {}
    assert [each.text_bytes for each in merged.sizes] == [BASE, BASE]


def test_a_module_that_others_made_worse_keeps_its_own() -> None:
    compiler = Arithmetic({"a": {1: -500}, "b": {1: 20, 2: -5}})
    merged = merge(compiler.found({"a": {1: 1}, "b": {2: 1}}), compiler)
    assert merged.advice == {2: 1}
    assert [each.text_bytes for each in merged.sizes] == [BASE, 995]


def test_a_module_that_fails_under_the_set_gets_none_of_it() -> None:
    compiler = Arithmetic({"a": {1: -500, 2: -1}, "b": {1: -20}}, crashing=frozenset("b"))
    merged = merge(compiler.found({"a": {1: 1, 2: 1}}), compiler)
    assert merged.advice == {2: 1}
    assert [each.text_bytes for each in merged.sizes] == [999, BASE]


def test_deviations_are_what_differs_from_the_default() -> None:
    assert deviations(trajectory([7, 8, 9], {8: 1, 9: 0})) == {8: 1}
