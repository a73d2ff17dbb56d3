"""What a log holds, as arrays over the mapped file."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import LogError
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log.header import Header


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segment:
    """A run of records of one length: `count` observations from number `first_observation` on.

    The text of a record holds the observation's number, so its length grows where the number gains a digit. Between
    two such places the records lie `stride_bytes` apart, and each tensor of all of them is one strided view.
    """

    first_observation: int
    count: int
    offset: int
    """Byte of the log where the first record starts."""
    stride_bytes: int
    features: TensorViews
    """Each feature as a view `[count, *shape]` on the mapped file: read-only, in general unaligned, made when asked."""
    outcomes: AnyArray | None
    """The scores as a view `[count, *shape]`; None in a log without them."""

    def __len__(self) -> int:
        return self.count


class TensorViews(Mapping[str, AnyArray]):
    """The features of a segment by name; a view is made when it is asked for."""

    __slots__ = ("_count", "_data", "_places", "_start", "_stride")

    def __init__(
        self, data: mmap.mmap | bytes, places: Mapping[str, tuple[TensorSpec, int]], start: int, count: int, stride: int
    ) -> None:
        self._data = data
        self._places = places
        self._start = start
        self._count = count
        self._stride = stride

    def __getitem__(self, name: str) -> AnyArray:
        spec, at = self._places[name]
        return strided_view(self._data, spec, self._start + at, self._count, self._stride)

    @property
    def records(self) -> AnyArray:
        """All features at once: a view `[count]` of records with a field for each feature."""
        fields = [(name, spec.dtype, spec.shape) for name, (spec, _) in self._places.items()]
        return np.ndarray((self._count,), np.dtype(fields), self._data, self._start, (self._stride,))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def strided_view(data: mmap.mmap | bytes, spec: TensorSpec, start: int, count: int, stride: int) -> AnyArray:
    """The tensor at `start` and at each `stride` bytes after it, as `[count, *spec.shape]`."""
    inner, step = [], spec.dtype.itemsize
    for dimension in reversed(spec.shape):
        inner.append(step)
        step *= dimension
    return np.ndarray((count, *spec.shape), spec.dtype, data, start, (stride, *reversed(inner)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogContext:
    """One appearance of a context: a function or module and its observations in order.

    A name that comes back makes another `LogContext`, whose `first_observation` goes on from the one before. A context
    without observations has no segments.
    """

    name: str
    first_observation: int
    segments: tuple[Segment, ...]
    header: Header

    def __len__(self) -> int:
        return sum(segment.count for segment in self.segments)

    @property
    def features(self) -> Mapping[str, AnyArray]:
        """Each feature of all observations as `[n_observations, *shape]`.

        A view without a copy where the context has one segment: up to 10 observations from 0 on, or any number that
        keeps its digits. No array can have two strides, so for a longer context asking for a feature copies *that*
        feature, each time it is asked for; `segments` gives the pure views.
        """
        return self.segments[0].features if len(self.segments) == 1 else _JoinedFeatures(self)

    @property
    def outcomes(self) -> AnyArray | None:
        """The scores as `[n_observations, *shape]`, a view or a copy as with `features`; None in a log without them."""
        score = self.header.score
        if score is None:
            return None
        return joined(score, [segment.outcomes for segment in self.segments if segment.outcomes is not None])


class _JoinedFeatures(Mapping[str, AnyArray]):
    """The features of a context that has no segment, or several."""

    __slots__ = ("_context", "_specs")

    def __init__(self, context: LogContext) -> None:
        self._context = context
        self._specs = {spec.name: spec for spec in context.header.features}

    def __getitem__(self, name: str) -> AnyArray:
        return joined(self._specs[name], [segment.features[name] for segment in self._context.segments])

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)


def joined(spec: TensorSpec, parts: list[AnyArray]) -> AnyArray:
    """The parts as one array: the very part where there is one, else a copy."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty((0, *spec.shape), spec.dtype)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingLog:
    """A log; where it is damaged, everything whole before the damage, and the `error` that says where that is."""

    header: Header
    contexts: tuple[LogContext, ...]
    error: LogError | None
    file: str
    size_bytes: int

    @property
    def observation_count(self) -> int:
        """Observations in all contexts."""
        return sum(map(len, self.contexts))
