"""From the compiles of an evaluation to what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from pymlgo.arrays import Int64Array
from pymlgo.corpus.names import project_of
from pymlgo.evaluate.evaluation import Evaluation, GroupChange, LinkedEvaluation
from pymlgo.evaluate.statistics import (
    ModuleChange,
    best_modules,
    geomean_change_percent,
    total_change_interval,
    worst_modules,
)
from pymlgo.rollout import Outcome, RolloutFailure, RolloutResult, Sizes, change_percent, failures_by_reason

Pair: TypeAlias = tuple[RolloutResult, RolloutResult]
"""A module under LLVM's default, and under the policy."""


def sum_up(
    defaults: Sequence[Outcome],
    under_policy: Sequence[Outcome],
    *,
    policy: str,
    compiler: str,
    backend: str,
    languages: Mapping[str, str] | None = None,
    linked: LinkedEvaluation | None = None,
) -> Evaluation:
    """The evaluation that two compiles of each module give.

    Args:
        defaults: of each module.
        under_policy: parallel to `defaults`.
        policy: its name.
        compiler: clang's path and version.
        backend: what ran the compiles with the policy.
        languages: by module's name; "unknown" for those that are not there.
        linked: what linking gave.
    """
    pairs: list[Pair] = []
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
    total = GroupChange.of("", len(pairs), _sizes(pairs))
    programs = _grouped(pairs, project_of)
    worst = worst_modules(changes)
    known = languages or {}
    ran = [each for each in (*defaults, *under_policy) if each.backend not in ("cache", "none")]
    return Evaluation(
        policy=policy,
        compiler=compiler,
        backend=backend,
        modules=len(pairs),
        failed=len(failures),
        failures=failures_by_reason(failures),
        failed_modules={each.module: f"{each.reason}: {each.detail}" for each in failures},
        default_text_bytes=total.default_text_bytes,
        policy_text_bytes=total.policy_text_bytes,
        text_change_percent=total.text_change_percent,
        interval95=total_change_interval(before, after),
        program_interval95=_interval_of_groups(programs),
        default_berkeley_bytes=total.default_berkeley_bytes,
        policy_berkeley_bytes=total.policy_berkeley_bytes,
        berkeley_change_percent=total.berkeley_change_percent,
        geomean_change_percent=geomean_change_percent(before, after),
        never_worse_change_percent=change_percent(int(before.sum()), int(np.minimum(before, after).sum())),
        better=int((after < before).sum()),
        same=int((after == before).sum()),
        worse=int((after > before).sum()),
        worst_module=worst[0] if worst else None,
        worst_modules=worst,
        best_modules=best_modules(changes),
        languages=_grouped(pairs, lambda name: known.get(name, "unknown")),
        programs=programs,
        linked=linked,
        decisions=sum(given.decisions for _, given in pairs),
        changed_decisions=_total([given.changed for _, given in pairs]),
        compiles=len(ran),
        cpu_s=sum(each.cpu_s for each in ran),
        compile_time_ratio=_time_ratio(pairs),
    )


def sum_up_linked(
    sizes: Mapping[str, tuple[Sizes, Sizes]], modules: Mapping[str, int], failed: Mapping[str, str]
) -> LinkedEvaluation:
    """The evaluation of linked programs.

    Args:
        sizes: of each program, under the default and under the policy.
        modules: of each program, how many objects were linked.
        failed: programs that could not be linked, and why.
    """
    programs = tuple(GroupChange.of(name, modules[name], [sizes[name]]) for name in sorted(sizes))
    total = GroupChange.of("", sum(each.modules for each in programs), sizes.values())
    return LinkedEvaluation(
        programs=programs,
        failed_programs=dict(sorted(failed.items())),
        default_text_bytes=total.default_text_bytes,
        policy_text_bytes=total.policy_text_bytes,
        text_change_percent=total.text_change_percent,
        program_interval95=_interval_of_groups(programs),
        default_berkeley_bytes=total.default_berkeley_bytes,
        policy_berkeley_bytes=total.policy_berkeley_bytes,
        berkeley_change_percent=total.berkeley_change_percent,
    )


def _sizes(pairs: Sequence[Pair]) -> list[tuple[Sizes, Sizes]]:
    return [(default.sizes, given.sizes) for default, given in pairs]


def _grouped(pairs: Sequence[Pair], group_of: Callable[[str], str]) -> tuple[GroupChange, ...]:
    """Changes by what `group_of` makes of a module's name, sorted by it."""
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(group_of(pair[0].module), []).append(pair)
    return tuple(GroupChange.of(name, len(groups[name]), _sizes(groups[name])) for name in sorted(groups))


def _interval_of_groups(groups: Sequence[GroupChange]) -> tuple[float, float]:
    def column(name: str) -> Int64Array:
        return np.array([getattr(each, name) for each in groups], np.int64)

    return total_change_interval(column("default_text_bytes"), column("policy_text_bytes"))


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _time_ratio(pairs: Sequence[Pair]) -> float | None:
    plain = sum(default.cpu_s for default, _ in pairs)
    if not plain or any(default.backend == "cache" for default, _ in pairs):
        return None
    return sum(given.cpu_s for _, given in pairs) / plain
