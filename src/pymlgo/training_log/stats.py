"""A log in figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log.batches import Batch, batches
from pymlgo.training_log.contexts import TrainingLog


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorStats:
    """One tensor over all observations and all its elements; without elements, minimum, maximum and mean are None.

    NaN and the infinities count as `non_finite` and in nothing else.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    minimum: int | float | None
    maximum: int | float | None
    mean: float | None
    zero_fraction: float | None
    non_finite: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStats:
    """What is in a log: everything whole, and where it is damaged.

    `contexts` counts appearances, `distinct_contexts` names. `action` is the advice's name, or without one the last
    feature's.
    """

    file: str
    size_bytes: int
    observations: int
    contexts: int
    distinct_contexts: int
    empty_contexts: int
    longest_context: int
    action: str | None
    advice: str | None
    extra_keys: tuple[str, ...]
    features: tuple[TensorStats, ...]
    score: TensorStats | None
    error: str | None
    error_offset: int | None


class _Tally:
    """The running figures of one tensor."""

    def __init__(self, spec: TensorSpec) -> None:
        self.spec = spec
        self.low: int | float | None = None
        self.high: int | float | None = None
        self.total: int | float = 0
        self.count = self.zeros = self.non_finite = 0

    def add(self, values: AnyArray) -> None:
        if values.dtype.kind == "f":
            finite = np.isfinite(values)
            self.non_finite += values.size - int(np.count_nonzero(finite))
            values = values[finite]
        if not values.size:
            return
        low, high = values.min().item(), values.max().item()
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)
        self.total += float(values.sum(dtype=np.float64))
        self.count += values.size
        self.zeros += values.size - int(np.count_nonzero(values))

    def stats(self) -> TensorStats:
        return TensorStats(
            name=self.spec.name,
            type=self.spec.type,
            shape=self.spec.shape,
            minimum=self.low,
            maximum=self.high,
            mean=_finite(self.total / self.count) if self.count else None,
            zero_fraction=self.zeros / self.count if self.count else None,
            non_finite=self.non_finite,
        )


def log_stats(log: TrainingLog) -> LogStats:
    """The figures of `log`; reads every value once, in bounded memory."""
    header = log.header
    tallies = [_Tally(spec) for spec in header.features]
    score = _Tally(header.score) if header.score else None
    for batch in batches(log):
        _add(batch, tallies, score)
    return LogStats(
        file=log.file,
        size_bytes=log.size_bytes,
        observations=log.observation_count,
        contexts=len(log.contexts),
        distinct_contexts=len({context.name for context in log.contexts}),
        empty_contexts=sum(not len(context) for context in log.contexts),
        longest_context=max(map(len, log.contexts), default=0),
        action=header.action.name if header.features or header.advice else None,
        advice=header.advice.name if header.advice else None,
        extra_keys=tuple(header.extra),
        features=tuple(tally.stats() for tally in tallies),
        score=score.stats() if score else None,
        error=str(log.error) if log.error else None,
        error_offset=log.error.offset if log.error else None,
    )


def _add(batch: Batch, tallies: Sequence[_Tally], score: _Tally | None) -> None:
    for tally in tallies:
        tally.add(batch.feature(tally.spec))
    if score:
        score.add(batch.outcomes(score.spec))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
