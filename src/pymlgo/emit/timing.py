"""How long a decision takes, backend by backend, on the same observations."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np

from pymlgo.arrays import AnyArray, BoolArray
from pymlgo.emit.batch import CompiledBatch
from pymlgo.emit.compiled import compile_policy
from pymlgo.policy.graph import Graph
from pymlgo.policy.interpreter import Interpreter
from pymlgo.policy.policy import Policy

T = TypeVar("T")

Evaluate: TypeAlias = Callable[[Mapping[str, AnyArray]], Mapping[str, AnyArray]]
"""One observation by name to outputs by name."""

TIMED_S = 0.3
"""Wall seconds for each backend; the quickest of many short rounds counts, for others can only slow one down."""

ROUND_S = 5e-4
"""CPU seconds of a round at least: the clock of CPU time takes some 0.5 us to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendTiming:
    """One backend; `equal_decisions` is the share of the observations on which it decides as the interpreter does."""

    backend: str
    ns_per_decision: float
    equal_decisions: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTiming:
    """All backends, on `observations` random observations; the compiled policy was made for `isa` by `compiler`."""

    problem: str
    observations: int
    isa: str
    compiler: Path
    backends: tuple[BackendTiming, ...]


def time_policy(
    policy: Policy,
    *,
    others: Mapping[str, Evaluate] | None = None,
    observations: int = 1000,
    seed: int = 0,
    cxx: str | Path | None = None,
    march: str | None = None,
) -> PolicyTiming:
    """Time the compiled policy and the interpreter, one by one and in a batch, and `others` one by one.

    Raises:
        PolicyError: as `compile_policy`.
        ToolchainError: as `compile_policy`.
    """
    inputs = random_observations(policy.graph, np.random.default_rng(seed), observations)
    interpreter = Interpreter(policy.graph)
    expected = _whole(interpreter.batch(inputs)[policy.advice], observations)
    timings: list[BackendTiming] = []

    def add(backend: str, seconds: float, decisions: AnyArray) -> None:
        equal = float(np.mean(_rows_equal(decisions, expected)))
        timings.append(BackendTiming(backend=backend, ns_per_decision=seconds * 1e9, equal_decisions=equal))

    with tempfile.TemporaryDirectory(prefix="mlgo-bench-") as folder:
        compiled = compile_policy(policy, Path(folder, "policy.so"), cxx=cxx, march=march)
        batch = CompiledBatch(compiled.path, policy.graph, observations)
        made = batch.evaluate(inputs)[policy.advice]
        add("compiled, a batch", quickest(batch.run) / observations, made)
        one = CompiledBatch(compiled.path, policy.graph, 1)
        add("compiled, one by one", *_one_by_one(lambda row: _decided(one, row, policy.advice), _packed(batch)))
    add("interpreter, a batch", quickest(lambda: interpreter.batch(inputs)) / observations, expected)
    rows = [{name: array[row] for name, array in inputs.items()} for row in range(observations)]
    everyone: dict[str, Evaluate] = {"interpreter, one by one": interpreter, **(others or {})}
    for backend, evaluate in everyone.items():
        add(backend, *_one_by_one(partial(_advice, evaluate, policy.advice), rows))
    return PolicyTiming(
        problem=policy.problem,
        observations=observations,
        isa=compiled.isa,
        compiler=compiled.compiler,
        backends=tuple(timings),
    )


def _packed(batch: CompiledBatch) -> list[AnyArray]:
    """Each observation of a batch as the block of a batch of one."""
    rows = [np.ascontiguousarray(array).reshape(batch.size, -1).view(np.uint8) for array in batch.inputs.values()]
    return list(np.concatenate(rows, axis=1)) if rows else [np.zeros(0, np.uint8)] * batch.size


def _decided(one: CompiledBatch, row: AnyArray, advice: str) -> AnyArray:
    one.block[:] = row
    one.run()
    decision: AnyArray = one.outputs[advice][0]
    return decision


def _advice(evaluate: Evaluate, advice: str, row: Mapping[str, AnyArray]) -> AnyArray:
    return evaluate(row)[advice]


def _one_by_one(decide: Callable[[T], AnyArray], rows: Sequence[T]) -> tuple[float, AnyArray]:
    """Seconds a decision in rounds over some of the rows, and the decisions of all."""
    decisions = np.stack([np.array(decide(row)) for row in rows])
    round_ = rows[: min(len(rows), 50)]

    def once() -> None:
        for row in round_:
            decide(row)

    return quickest(once) / len(round_), decisions


def quickest(call: Callable[[], object], *, timed_s: float = TIMED_S) -> float:
    """CPU seconds of one call: the least of many rounds, each long enough for the clock."""
    start = time.process_time()
    call()
    once = time.process_time() - start
    calls = max(1, math.ceil(ROUND_S / max(once, 1e-7)))
    least = math.inf
    ends_at = time.perf_counter() + timed_s
    while least == math.inf or time.perf_counter() < ends_at:
        start = time.process_time()
        for _ in range(calls):
            call()
        least = min(least, (time.process_time() - start) / calls)
    return least


def random_observations(graph: Graph, rng: np.random.Generator, count: int) -> dict[str, AnyArray]:
    """Inputs `[count, *shape]` by name: small counts as compilers send them, many of them zero."""
    made: dict[str, AnyArray] = {}
    for spec in graph.inputs:
        values = rng.exponential(20, (count, *spec.shape)) * (rng.random((count, *spec.shape)) < 0.7)
        made[spec.name] = np.minimum(values, 100).astype(spec.dtype)
    return made


def _whole(value: AnyArray, count: int) -> AnyArray:
    """A value that does not depend on the inputs, once for each observation."""
    return np.broadcast_to(value, (count, *value.shape[1:]))


def _rows_equal(found: AnyArray, expected: AnyArray) -> BoolArray:
    count = len(expected)
    equal: BoolArray = np.all(np.reshape(found, (count, -1)) == np.reshape(expected, (count, -1)), axis=1)
    return equal
