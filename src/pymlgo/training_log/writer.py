"""Writes a training log, record by record."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import BinaryIO

from pymlgo.errors import LogError, SpecError
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log.header import Header, valid_name
from pymlgo.training_log.lines import context_line


class LogWriter:
    """Writes LLVM's format to a binary stream; the header goes out at once.

    Call `context`, then for each observation `observation` and, where the header has a score, `outcome`. As a context
    manager it also refuses to end while an outcome is owed. The stream stays the caller's to flush and close.

    Source: Logger in llvm/lib/Analysis/TrainingLogger.cpp (LLVM 22). Departures: what LLVM asserts, or writes into a
    log that nobody can read, is refused here.

    Raises:
        SpecError: the header's advice is also a feature.
    """

    def __init__(self, stream: BinaryIO, header: Header) -> None:
        if header.advice is not None and any(spec.name == header.advice.name for spec in header.features):
            raise SpecError(
                f"the advice {header.advice.name!r} is also a feature",
                hint="a channel's advice is no feature; in a log without advice the last feature is the action",
            )
        self.header = header
        self._names = {spec.name for spec in header.features}
        self._stream = stream
        self._counts: dict[str, int] = {}
        self._context: str | None = None
        self._owes_outcome = False
        self._offset = 0
        self._write(header.to_line())

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._require(not self._owes_outcome, "the last observation has no outcome")

    def context(self, name: str) -> None:
        """Start the context `name`; if it was there before, its observations are counted on.

        Raises:
            LogError: the last observation still waits for its outcome.
        """
        self._require(not self._owes_outcome, "a context starts while the last observation has no outcome")
        self._context = valid_name(name)
        self._counts.setdefault(self._context, 0)
        self._write(context_line(self._context))

    def observation(self, tensors: Mapping[str, object]) -> None:
        """Write one observation: a value for each feature, by name; scalars and flat lists fit their element count.

        Nothing is written if anything is refused.

        Raises:
            LogError: no context was started, or the last observation still waits for its outcome.
            SpecError: a feature is missing or unknown, or a value does not fit its tensor.
        """
        self._require(self._context is not None, "an observation needs a context before it")
        self._require(not self._owes_outcome, "an observation follows one that has no outcome")
        if unknown := tensors.keys() - self._names:
            raise SpecError(f"{min(unknown)!r} is no feature of this log")
        payload = b"".join(_bytes_of(spec, tensors) for spec in self.header.features)
        self._write(b'{"observation":%d}\n%b\n' % (self._count(), payload))
        if self.header.score is not None:
            self._owes_outcome = True
        else:
            self._counts[str(self._context)] += 1

    def outcome(self, value: object) -> None:
        """Write the score of the observation before.

        Raises:
            LogError: the header has no score, or no observation waits for one.
            SpecError: the value does not fit the score.
        """
        score = self.header.score
        if score is None:
            raise self._error("an outcome needs a score in the header")
        self._require(self._owes_outcome, "an outcome needs an observation before it")
        self._write(b'{"outcome":%d}\n%b\n' % (self._count(), score.array(value).tobytes()))
        self._owes_outcome = False
        self._counts[str(self._context)] += 1

    def _count(self) -> int:
        return self._counts[str(self._context)]

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._offset += len(data)

    def _require(self, holds: bool, message: str) -> None:
        if not holds:
            raise self._error(message)

    def _error(self, message: str) -> LogError:
        return LogError(message, file=str(getattr(self._stream, "name", "training log")), offset=self._offset)


def _bytes_of(spec: TensorSpec, tensors: Mapping[str, object]) -> bytes:
    if spec.name not in tensors:
        raise SpecError(f"the observation lacks the feature {spec.name!r}")
    return spec.array(tensors[spec.name]).tobytes()
