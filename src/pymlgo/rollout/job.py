"""One compile as a value: what is asked for, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pymlgo.arrays import AnyArray, BoolArray, Float64Array, Int64Array
from pymlgo.corpus.description import Module, UnusableModule
from pymlgo.policy.directory import Policy
from pymlgo.rollout.keys import KeyArray
from pymlgo.tensor_spec import TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trajectory:
    """Every decision of one compile, in order; n decisions.

    Attributes:
        specs: the features' specs, in the compiler's order.
        features: what the compiler said, by name, each `[n, *shape]`.
        advice: i64[n], what it was told.
        default: i64[n], what LLVM's own policy would have done; None where the compiler does not say.
        overridden: bool[n], True where the job's overrides spoke.
        callers, callees: names, n each; empty where they are unknown.
        keys: u64[n], `decision_key` of each; empty where names are unknown.
    """

    specs: tuple[TensorSpec, ...]
    features: Mapping[str, AnyArray]
    advice: Int64Array
    default: Int64Array | None
    overridden: BoolArray
    callers: tuple[str, ...] = ()
    callees: tuple[str, ...] = ()
    keys: KeyArray = field(default_factory=lambda: np.zeros(0, np.uint64))

    def __len__(self) -> int:
        return len(self.advice)

    @property
    def has_names(self) -> bool:
        """True if every decision has a caller, a callee and a key."""
        return len(self.keys) == len(self.advice)

    def matrix(self, names: Sequence[str]) -> Float64Array:
        """The scalar features `names` as f64[n, len(names)]."""
        columns = [self.features[name].reshape(len(self)) for name in names]
        return np.stack(columns, axis=1).astype(np.float64) if columns else np.zeros((len(self), 0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Overrides:
    """Decisions that go differently from the job's policy.

    Attributes:
        advice: by decision key.
        recorded: a compile of the same module that had these decisions. A backend that sees no names while the
            compiler waits (the pipes) recognizes them by it; one that does ignores it.
    """

    advice: Mapping[int, int]
    recorded: Trajectory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """One compile of one module.

    Attributes:
        policy: who decides; None for LLVM's own default.
        overrides: decisions that go differently.
        record: return the trajectory, not only sizes.
        names: with `record`, also callers, callees and keys.
        keep_object: return the object, not only its sizes.
    """

    module: Module
    policy: Policy | None = None
    overrides: Overrides | None = None
    record: bool = False
    names: bool = False
    keep_object: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bytes of an object that clang wrote: `.text` is all executable sections, Berkeley what `size` calls text."""

    text_bytes: int
    berkeley_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RolloutResult:
    """What one compile gave.

    Attributes:
        backend: who ran it: "plain" (no questions), "pipes", …
        function_bytes: of each function in the object, by symbol.
        decisions, changed: questions asked; those answered differently from LLVM's default, None where nobody counted.
        cpu_s: of the compiler and its host.
        object_bytes: the object file's content; None where the job did not ask for it.
    """

    module: str
    backend: str
    sizes: Sizes
    function_bytes: Mapping[str, int]
    decisions: int
    changed: int | None
    cpu_s: float
    trajectory: Trajectory | None = None
    object_bytes: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutFailure:
    """A compile that gave no object; `reason` is short and countable, `detail` says more."""

    module: str
    backend: str
    reason: str
    detail: str
    cpu_s: float


Outcome = RolloutResult | RolloutFailure


def failures_of_unusable(modules: Iterable[UnusableModule]) -> list[RolloutFailure]:
    """A failure for each module of a corpus that is not there to be compiled."""
    return [
        RolloutFailure(module=each.name, backend="none", reason="unusable", detail=each.reason, cpu_s=0.0)
        for each in modules
    ]


def failures_by_reason(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """How many of the outcomes failed for each reason, sorted by reason."""
    reasons = [each.reason for each in outcomes if isinstance(each, RolloutFailure)]
    return {reason: reasons.count(reason) for reason in sorted(set(reasons))}


def change_percent(before: int, after: int) -> float:
    """How much `after` differs from `before`, in per cent; 0 where there was nothing."""
    return 100.0 * (after - before) / before if before else 0.0
