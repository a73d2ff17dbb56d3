"""What an evaluation says, and how it is summed up from the compiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pymlgo.corpus.names import project_of
from pymlgo.evaluate.statistics import (
    ExtremeModule,
    ModuleChange,
    best_module,
    geomean_change_percent,
    total_change_interval,
    worst_module,
)
from pymlgo.rollout import Outcome, RolloutFailure, RolloutResult, change_percent, failures_by_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramChange:
    """The modules of one program (the first component of their names) together."""

    name: str
    modules: int
    default_text_bytes: int
    policy_text_bytes: int
    text_change_percent: float
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
        never_worse_change_percent: the change if each module kept the smaller of its two objects.
        better, same, worse: modules by their change of .text.
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
    default_berkeley_bytes: int
    policy_berkeley_bytes: int
    berkeley_change_percent: float
    geomean_change_percent: float
    never_worse_change_percent: float
    better: int
    same: int
    worse: int
    worst_module: ExtremeModule | None
    best_module: ExtremeModule | None
    programs: tuple[ProgramChange, ...]
    decisions: int
    changed_decisions: int | None
    compiles: int
    cpu_s: float
    compile_time_ratio: float | None


def sum_up(
    defaults: Sequence[Outcome], under_policy: Sequence[Outcome], *, policy: str, compiler: str, backend: str
) -> Evaluation:
    """The evaluation that two compiles of each module give; the sequences are parallel."""
    pairs: list[tuple[RolloutResult, RolloutResult]] = []
    failures: list[RolloutFailure] = []
    for default, given in zip(defaults, under_policy, strict=True):
        if isinstance(default, RolloutResult) and isinstance(given, RolloutResult):
            pairs.append((default, given))
        else:
            failures.append(next(each for each in (default, given) if isinstance(each, RolloutFailure)))
    changes = [
        ModuleChange(
            name=default.module,
            default_text_bytes=default.sizes.text_bytes,
            policy_text_bytes=given.sizes.text_bytes,
        )
        for default, given in pairs
    ]
    before = np.array([each.default_text_bytes for each in changes], np.int64)
    after = np.array([each.policy_text_bytes for each in changes], np.int64)
    total_before, total_after = int(before.sum()), int(after.sum())
    berkeley_before = sum(default.sizes.berkeley_bytes for default, _ in pairs)
    berkeley_after = sum(given.sizes.berkeley_bytes for _, given in pairs)
    ran = [each for each in (*defaults, *under_policy) if each.backend not in ("cache", "none")]
    return Evaluation(
        policy=policy,
        compiler=compiler,
        backend=backend,
        modules=len(pairs),
        failed=len(failures),
        failures=failures_by_reason(failures),
        failed_modules={each.module: f"{each.reason}: {each.detail}" for each in failures},
        default_text_bytes=total_before,
        policy_text_bytes=total_after,
        text_change_percent=change_percent(total_before, total_after),
        interval95=total_change_interval(before, after),
        default_berkeley_bytes=berkeley_before,
        policy_berkeley_bytes=berkeley_after,
        berkeley_change_percent=change_percent(berkeley_before, berkeley_after),
        geomean_change_percent=geomean_change_percent(before, after),
        never_worse_change_percent=change_percent(total_before, int(np.minimum(before, after).sum())),
        better=int((after < before).sum()),
        same=int((after == before).sum()),
        worse=int((after > before).sum()),
        worst_module=worst_module(changes),
        best_module=best_module(changes),
        programs=_by_program(pairs),
        decisions=sum(given.decisions for _, given in pairs),
        changed_decisions=_total([given.changed for _, given in pairs]),
        compiles=len(ran),
        cpu_s=sum(each.cpu_s for each in ran),
        compile_time_ratio=_time_ratio(pairs),
    )


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _time_ratio(pairs: Sequence[tuple[RolloutResult, RolloutResult]]) -> float | None:
    plain = sum(default.cpu_s for default, _ in pairs)
    if not plain or any(default.backend == "cache" for default, _ in pairs):
        return None
    return sum(given.cpu_s for _, given in pairs) / plain


def _by_program(pairs: Sequence[tuple[RolloutResult, RolloutResult]]) -> tuple[ProgramChange, ...]:
    groups: dict[str, list[tuple[RolloutResult, RolloutResult]]] = {}
    for pair in pairs:
        groups.setdefault(project_of(pair[0].module), []).append(pair)
    return tuple(_program_change(name, groups[name]) for name in sorted(groups))


def _program_change(name: str, pairs: Sequence[tuple[RolloutResult, RolloutResult]]) -> ProgramChange:
    before = sum(default.sizes.text_bytes for default, _ in pairs)
    after = sum(given.sizes.text_bytes for _, given in pairs)
    berkeley_before = sum(default.sizes.berkeley_bytes for default, _ in pairs)
    berkeley_after = sum(given.sizes.berkeley_bytes for _, given in pairs)
    return ProgramChange(
        name=name,
        modules=len(pairs),
        default_text_bytes=before,
        policy_text_bytes=after,
        text_change_percent=change_percent(before, after),
        default_berkeley_bytes=berkeley_before,
        policy_berkeley_bytes=berkeley_after,
        berkeley_change_percent=change_percent(berkeley_before, berkeley_after),
    )
