"""Judging candidates by real compiles of projects that nothing was learned from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pymlgo.corpus.description import Module
from pymlgo.corpus.names import project_of
from pymlgo.policy.policy import Policy
from pymlgo.rollout import Backend, Executor, Job, Outcome, PlainBackend, RolloutResult, Sizes, change_percent
from pymlgo.toolchain.llvm import LLVM

Spent = Callable[[Outcome], None]
"""Told of each compile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """A policy on the validation modules that compiled with it and without.

    Attributes:
        modules, failed: that compiled both ways; that did not.
        text_change_percent, berkeley_change_percent: of the totals, against LLVM's default.
        projects: change of .text in per cent, by project.
    """

    modules: int
    failed: int
    text_change_percent: float
    berkeley_change_percent: float
    projects: dict[str, float]


class Validation:
    """The validation modules and their default sizes."""

    def __init__(self, modules: Sequence[Module], llvm: LLVM, executor: Executor, backend: Backend) -> None:
        self.modules = tuple(modules)
        self.defaults: dict[str, Sizes] = {}
        self._llvm = llvm
        self._executor = executor
        self._backend = backend

    def measure_defaults(self, spent: Spent) -> None:
        """Compile every module as stock clang does; those that fail are left out from then on."""
        jobs = [Job(module=module) for module in self.modules]
        for _, outcome in self._executor.run(PlainBackend(llvm=self._llvm), jobs):
            spent(outcome)
            if isinstance(outcome, RolloutResult):
                self.defaults[outcome.module] = outcome.sizes

    def measure(self, policies: Mapping[str, Policy], spent: Spent) -> Validated:
        """Compile every module with the policy of its project."""
        jobs = [
            Job(module=module, policy=policies[project_of(module.name)])
            for module in self.modules
            if module.name in self.defaults
        ]
        numbers: dict[int, int] = {}
        jobs.sort(key=lambda job: numbers.setdefault(id(job.policy), len(numbers)))  # a change of policy costs time
        given: dict[str, Sizes] = {}
        for _, outcome in self._executor.run(self._backend, jobs):
            spent(outcome)
            if isinstance(outcome, RolloutResult):
                given[outcome.module] = outcome.sizes
        return self._summed(given)

    def _summed(self, given: dict[str, Sizes]) -> Validated:
        names = sorted(given)
        projects: dict[str, float] = {}
        for project in sorted({project_of(name) for name in names}):
            projects[project] = self._change([name for name in names if project_of(name) == project], given)
        berkeley = (
            sum(self.defaults[name].berkeley_bytes for name in names),
            sum(given[name].berkeley_bytes for name in names),
        )
        return Validated(
            modules=len(given),
            failed=len(self.modules) - len(given),
            text_change_percent=self._change(names, given),
            berkeley_change_percent=change_percent(*berkeley),
            projects=projects,
        )

    def _change(self, names: Sequence[str], given: dict[str, Sizes]) -> float:
        before = sum(self.defaults[name].text_bytes for name in names)
        return change_percent(before, sum(given[name].text_bytes for name in names))
