"""Statistics over modules and programs: bootstrap intervals, the geometric mean, who won and who lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymlgo.arrays import Int64Array
from pymlgo.rollout import change_percent

BOOTSTRAP_DRAWS = 10_000
BOOTSTRAP_SEED = 20_240
"""Fixed, so that the same sizes always give the same interval."""

EXTREME_MODULES = 5
"""As many of the worst and of the best modules are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleChange:
    """One module's `.text` under LLVM's default and under the policy."""

    name: str
    default_text_bytes: int
    policy_text_bytes: int

    @property
    def change_bytes(self) -> int:
        """Bytes that the policy added; negative where it saved."""
        return self.policy_text_bytes - self.default_text_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtremeModule:
    """A module that changed more than most, in one direction."""

    name: str
    default_text_bytes: int
    policy_text_bytes: int
    change_bytes: int
    change_percent: float


def total_change_interval(before: Int64Array, after: Int64Array) -> tuple[float, float]:
    """The 95 % percentile bootstrap interval of the change of the total, in per cent.

    Units (modules, or whole programs) are drawn with replacement; each draw gives one change of the sum.

    Args:
        before: i64[n], bytes of each unit under the default.
        after: i64[n], under the policy.
    """
    if not len(before) or not before.sum():
        return 0.0, 0.0
    generator = np.random.default_rng(BOOTSTRAP_SEED)
    changes = np.empty(BOOTSTRAP_DRAWS)
    rows = max(1, 2_000_000 // len(before))  # bounds the memory of one block of draws
    for start in range(0, BOOTSTRAP_DRAWS, rows):
        count = min(rows, BOOTSTRAP_DRAWS - start)
        drawn = generator.integers(0, len(before), (count, len(before)))
        totals = before[drawn].sum(axis=1)
        saved = after[drawn].sum(axis=1) - totals
        changes[start : start + count] = 100.0 * saved / np.maximum(totals, 1)
    low, high = np.percentile(changes, [2.5, 97.5])
    return float(low), float(high)


def geomean_change_percent(before: Int64Array, after: Int64Array) -> float:
    """The geometric mean of the modules' ratios, as a change in per cent; modules without code are left out.

    It weighs a module of ten bytes like one of a million and is here only to compare with papers that report it.
    """
    used = (before > 0) & (after > 0)
    if not used.any():
        return 0.0
    return float(100.0 * (np.exp(np.mean(np.log(after[used] / before[used]))) - 1.0))


def worst_modules(changes: Sequence[ModuleChange]) -> tuple[ExtremeModule, ...]:
    """The modules that grew most in per cent, the worst first, by name where equal; at most `EXTREME_MODULES`."""
    return _extreme([each for each in changes if each.change_bytes > 0], sign=-1.0)


def best_modules(changes: Sequence[ModuleChange]) -> tuple[ExtremeModule, ...]:
    """The modules that shrank most in per cent, the best first; at most `EXTREME_MODULES`."""
    return _extreme([each for each in changes if each.change_bytes < 0], sign=1.0)


def _extreme(changes: Sequence[ModuleChange], *, sign: float) -> tuple[ExtremeModule, ...]:
    found = [
        ExtremeModule(
            name=each.name,
            default_text_bytes=each.default_text_bytes,
            policy_text_bytes=each.policy_text_bytes,
            change_bytes=each.change_bytes,
            change_percent=change_percent(each.default_text_bytes, each.policy_text_bytes),
        )
        for each in changes
    ]
    return tuple(sorted(found, key=lambda each: (sign * each.change_percent, each.name))[:EXTREME_MODULES])
