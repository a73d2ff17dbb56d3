"""A training log of a compile that we advised, as LLVM's development mode would have written it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, TypeAlias

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.channel.observation import Observation
from pymlgo.errors import ChannelError
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log.header import Header
from pymlgo.training_log.writer import LogWriter

Outcomes: TypeAlias = Callable[[str, int], object]
"""(context, decisions in it) → the score of each decision, or one number: the last decision's, the others get 0 as in
LLVM's register allocation."""


@dataclass(slots=True)
class _Decisions:
    context: str
    count: int = 0
    data: bytearray = field(default_factory=bytearray)


class Recorder:
    """A listener that keeps headers, contexts, features and advice until `write`.

    The log has the features of the compiler and, as the last one, the advice that it got: a training log's action. It
    is written at the end because a score is known only once the object is there.
    """

    def __init__(self) -> None:
        self._header: Header | None = None
        self._parts: list[_Decisions] = []

    @property
    def is_empty(self) -> bool:
        """Whether no compiler introduced itself: then there is nothing to write."""
        return self._header is None

    def on_header(self, header: Header) -> None:
        """Take the form of the log from the first compiler.

        Raises:
            ChannelError: another compiler of the same command has other features; one log has one form.
        """
        if self._header is not None and (self._header.features, self._header.advice) != (
            header.features,
            header.advice,
        ):
            raise ChannelError("two compilers with different features cannot be recorded into one log")
        self._header = header

    def on_context(self, name: str) -> None:
        """Begin a context."""
        self._parts.append(_Decisions(name))

    def on_advice(self, observation: Observation, advice: AnyArray) -> None:
        """Keep a decision."""
        part = self._parts[-1]
        part.data += observation.raw
        part.data += advice.tobytes()
        part.count += 1

    def write(self, stream: BinaryIO, *, score: TensorSpec | None = None, outcomes: Outcomes | None = None) -> None:
        """Write the log.

        Args:
            stream: where to; stays open.
            score: the spec of what `outcomes` gives; both or none.
            outcomes: the scores of a context's decisions.

        Raises:
            ChannelError: nothing was recorded.
            SpecError: the outcomes do not fit their decisions.
        """
        if self._header is None or self._header.advice is None:
            raise ChannelError(
                "there is nothing to record: the compiler made no decision of this kind",
                hint="at -O0, and where it only links or preprocesses, clang asks nothing",
            )
        header = Header(features=(*self._header.features, self._header.advice), score=score, extra=self._header.extra)
        with LogWriter(stream, header) as writer:
            for part in self._parts:
                scores = _scores(part, score, outcomes)
                writer.context(part.context)
                for number, tensors in enumerate(_observations(header.features, part)):
                    writer.observation(tensors)
                    if scores is not None:
                        writer.outcome(scores[number])


def _observations(features: Sequence[TensorSpec], part: _Decisions) -> list[Mapping[str, AnyArray]]:
    record = np.dtype([(spec.name, spec.dtype, spec.shape) for spec in features])
    table = np.frombuffer(part.data, record, part.count)
    columns = {spec.name: table[spec.name] for spec in features}
    return [{name: column[number] for name, column in columns.items()} for number in range(part.count)]


def _scores(part: _Decisions, score: TensorSpec | None, outcomes: Outcomes | None) -> AnyArray | None:
    """One row for each decision."""
    if score is None or outcomes is None:
        return None
    given = np.asarray(outcomes(part.context, part.count))
    rows = np.zeros((part.count, score.element_count), score.dtype)
    if given.size == 1 and part.count:
        rows[-1] = score.array(given).reshape(-1)
    elif part.count:
        whole = TensorSpec(score.name, score.type, (part.count, *score.shape), score.port)
        rows[:] = whole.array(given).reshape(rows.shape)
    return rows
