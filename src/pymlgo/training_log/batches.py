"""A log cut into batches of bounded size, across contexts: what statistics and exports run over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pymlgo.arrays import AnyArray, Int64Array
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log.contexts import Segment, TrainingLog, joined

ROWS = 1 << 15
"""Observations in a batch; of 300 bytes each they fit into a processor's cache, of 3 KiB into 100 MiB."""


@dataclass(frozen=True, slots=True)
class _Piece:
    context: int
    segment: Segment
    rows: slice

    def __len__(self) -> int:
        return int(self.rows.stop - self.rows.start)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Observations that follow each other in the log; each array is made when it is asked for."""

    pieces: tuple[_Piece, ...]

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def feature(self, spec: TensorSpec) -> AnyArray:
        """One feature as `[n, *shape]`."""
        return joined(spec, [piece.segment.features[spec.name][piece.rows] for piece in self.pieces])

    def outcomes(self, score: TensorSpec) -> AnyArray:
        """The scores as `[n, *shape]`."""
        parts = [(piece.segment.outcomes, piece.rows) for piece in self.pieces]
        return joined(score, [outcomes[rows] for outcomes, rows in parts if outcomes is not None])

    def contexts(self) -> Int64Array:
        """For each observation the index of its context in `TrainingLog.contexts`."""
        return np.repeat([piece.context for piece in self.pieces], [len(piece) for piece in self.pieces])

    def numbers(self) -> Int64Array:
        """The number of each observation, as the log has it."""
        firsts = [piece.segment.first_observation + piece.rows.start for piece in self.pieces]
        ranges = [np.arange(first, first + len(piece)) for first, piece in zip(firsts, self.pieces, strict=True)]
        return np.concatenate(ranges) if ranges else np.empty(0, np.int64)


def batches(log: TrainingLog, *, rows: int = ROWS) -> Iterator[Batch]:
    """All observations of a log in order, `rows` at a time; the last batch may be smaller, and none is empty."""
    pieces: list[_Piece] = []
    free = rows
    for index, context in enumerate(log.contexts):
        for segment in context.segments:
            start = 0
            while start < len(segment):
                stop = min(len(segment), start + free)
                pieces.append(_Piece(index, segment, slice(start, stop)))
                free -= stop - start
                start = stop
                if not free:
                    yield Batch(tuple(pieces))
                    pieces, free = [], rows
    if pieces:
        yield Batch(tuple(pieces))
