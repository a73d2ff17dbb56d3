"""What an evaluation says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pymlgo.evaluate.statistics import ExtremeModule
from pymlgo.rollout import Sizes, change_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """Several modules together: those of a program (the first component of their names), or of a language."""

    name: str
    modules: int
    default_text_bytes: int
    policy_text_bytes: int
    text_change_percent: float
    default_berkeley_bytes: int
    policy_berkeley_bytes: int
    berkeley_change_percent: float

    @classmethod
    def of(cls, name: str, modules: int, sizes: Iterable[tuple[Sizes, Sizes]]) -> GroupChange:
        """The sum of sizes under the default and under the policy."""
        pairs = list(sizes)
        text, policy_text = (sum(pair[side].text_bytes for pair in pairs) for side in (0, 1))
        berkeley, policy_berkeley = (sum(pair[side].berkeley_bytes for pair in pairs) for side in (0, 1))
        return cls(
            name=name,
            modules=modules,
            default_text_bytes=text,
            policy_text_bytes=policy_text,
            text_change_percent=change_percent(text, policy_text),
            default_berkeley_bytes=berkeley,
            policy_berkeley_bytes=policy_berkeley,
            berkeley_change_percent=change_percent(berkeley, policy_berkeley),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedEvaluation:
    """Whole programs after linking, where the copies of a function that several objects hold are merged.

    Attributes:
        programs: those that could be linked both ways; the totals are over them.
        failed_programs: the others, and why.
        program_interval95: of `text_change_percent`, bootstrap over programs.
    """

    programs: tuple[GroupChange, ...]
    failed_programs: Mapping[str, str]
    default_text_bytes: int
    policy_text_bytes: int
    text_change_percent: float
    program_interval95: tuple[float, float]
    default_berkeley_bytes: int
    policy_berkeley_bytes: int
    berkeley_change_percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A policy against LLVM's default, over the modules that compiled both ways.

    Attributes:
        policy: its name or path.
        compiler: clang's path and version.
        backend: what ran the compiles with the policy.
        modules: that compiled both ways; everything below is over them.
        failed: modules that did not; `failures` says how many for each reason, `failed_modules` who and why.
        interval95: of `text_change_percent`, bootstrap over modules.
        program_interval95: the same over programs, whose modules resemble each other: wider, and more honest.
        geomean_change_percent: of .text, each module weighing the same.
        never_worse_change_percent: the change if each module kept the smaller of its two objects.
        better, same, worse: modules by their change of .text.
        worst_modules, best_modules: those that grew or shrank most, in per cent; `worst_module` is the first of them.
        languages: by the language of the modules' sources.
        linked: None where it was not asked for, or where default objects were not compiled again.
        decisions, changed_decisions: questions asked, and those answered differently from LLVM's default; None where
            the backend does not count them (the plugin, which decides inside the compiler).
        compiles, cpu_s: what the evaluation cost; cached default sizes cost nothing.
        compile_time_ratio: CPU seconds under the policy, host included, by those of the plain compile of the same
            modules; None where default sizes came from the cache.
    """

    policy: str
    compiler: str
    backend: str
    modules: int
    failed: int
    failures: Mapping[str, int]
    failed_modules: Mapping[str, str]
    default_text_bytes: int
    policy_text_bytes: int
    text_change_percent: float
    interval95: tuple[float, float]
    program_interval95: tuple[float, float]
    default_berkeley_bytes: int
    policy_berkeley_bytes: int
    berkeley_change_percent: float
    geomean_change_percent: float
    never_worse_change_percent: float
    better: int
    same: int
    worse: int
    worst_module: ExtremeModule | None
    worst_modules: tuple[ExtremeModule, ...]
    best_modules: tuple[ExtremeModule, ...]
    languages: tuple[GroupChange, ...]
    programs: tuple[GroupChange, ...]
    linked: LinkedEvaluation | None
    decisions: int
    changed_decisions: int | None
    compiles: int
    cpu_s: float
    compile_time_ratio: float | None
