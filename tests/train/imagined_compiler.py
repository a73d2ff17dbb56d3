"""An executor whose compiler is a formula: thousands of compiles a second, and the best policy is known.

Every decision is about a function of its own, called once by a caller of its own. Inlining it changes the caller by
what `bytes_saved` says, a function of two features; a third says nothing. LLVM's default, `cost_estimate <= 0`, is
good but not best.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from pymlgo.corpus.description import Module
from pymlgo.policy.interpreter import evaluate_batch
from pymlgo.policy.policy import Policy
from pymlgo.rollout import Backend, Job, Outcome, RolloutResult, Sizes, Trajectory
from pymlgo.rollout.keys import decision_keys
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.llvm import LLVM
from pymlgo.train.hold_out import HoldOut

SPECS = tuple(
    TensorSpec(name, "int64_t", (1,)) for name in ("cost_estimate", "callee_users", "noise", "inlining_default")
)
DECISIONS = 30
FUNCTION_BYTES = 100
LLVM_OF_NOTHING = LLVM(clang=Path("/no/clang"), version=(22, 1, 8))


def imagined_split(train: int = 12, validation: int = 6) -> HoldOut:
    """Modules of three projects; one is held out."""
    return HoldOut(
        train=tuple(module(f"{'ab'[number % 2]}/{number}") for number in range(train)),
        validation=tuple(module(f"c/{number}") for number in range(validation)),
        by_project=True,
    )


def module(name: str) -> Module:
    return Module(name=name, bitcode=Path(name), command=(), size_bytes=1000)


class ImaginedExecutor:
    """Compiles by formula.

    Attributes:
        interrupt_after: outcomes after which Ctrl-C is pressed; None for never.
        compiles: so far.
    """

    def __init__(self, interrupt_after: int | None = None) -> None:
        self.interrupt_after = interrupt_after
        self.compiles = 0

    def run(self, backend: Backend, jobs: Iterable[Job]) -> Iterator[tuple[int, Outcome]]:
        for number, job in enumerate(jobs):
            if self.compiles == self.interrupt_after:
                raise KeyboardInterrupt
            self.compiles += 1
            yield number, compiled(job)


def compiled(job: Job) -> RolloutResult:
    features = features_of(job.module)
    default = features["inlining_default"][:, 0]
    advice = default.copy() if job.policy is None else decided(job.policy, features)
    callers = tuple(f"caller{number}" for number in range(DECISIONS))
    callees = tuple(f"callee{number}" for number in range(DECISIONS))
    keys = decision_keys(callers, callees)
    fixed = job.overrides.advice if job.overrides else {}
    overridden = np.array([int(key) in fixed for key in keys])
    advice[overridden] = [fixed[int(key)] for key in keys[overridden]]
    saved = bytes_saved(features) * advice
    sizes = {name: FUNCTION_BYTES - int(saved[place]) for place, name in enumerate(callers)}
    total = sum(sizes.values())
    return RolloutResult(
        module=job.module.name,
        backend="imagined",
        sizes=Sizes(text_bytes=total, berkeley_bytes=total),
        function_bytes=sizes,
        decisions=DECISIONS,
        changed=int((advice != default).sum()),
        cpu_s=0.001,
        trajectory=Trajectory(
            specs=SPECS,
            features=features,
            advice=advice,
            default=default,
            overridden=overridden,
            callers=callers,
            callees=callees,
            keys=keys,
        )
        if job.record
        else None,
    )


def features_of(module: Module) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(list(module.name.encode()))
    cost = generator.integers(-60, 120, (DECISIONS, 1))
    return {
        "cost_estimate": cost,
        "callee_users": generator.integers(1, 6, (DECISIONS, 1)),
        "noise": generator.integers(0, 1000, (DECISIONS, 1)),
        "inlining_default": (cost <= 0).astype(np.int64),
    }


def bytes_saved(features: dict[str, np.ndarray]) -> np.ndarray:
    """Inlining saves where the function is small, or has one user."""
    return np.where(features["callee_users"][:, 0] == 1, 25, -0.4 * features["cost_estimate"][:, 0]).round()


def decided(policy: Policy, features: dict[str, np.ndarray]) -> np.ndarray:
    if not policy.graph.inputs:  # a constant decides alike everywhere
        (value,) = policy.graph.constants.values()
        return np.full(DECISIONS, int(value.item()))
    given = {spec.name: features[spec.name] for spec in policy.graph.inputs}
    return evaluate_batch(policy.graph, given)[policy.advice].reshape(DECISIONS).astype(np.int64)
