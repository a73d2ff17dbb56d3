"""Reads a training log as it arrives: from a pipe, a socket, or a compiler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import LogError, SpecError
from pymlgo.training_log.byte_order import FOREIGN_HINT, ByteOrderJudge
from pymlgo.training_log.header import Header, shown
from pymlgo.training_log.lines import LONGEST_LINE_BYTES, parse_line

_CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextEvent:
    """A context starts, or comes back."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ObservationEvent:
    """One observation; `features` are read-only arrays of the header's shapes, and stay valid."""

    context: str
    number: int
    features: Mapping[str, AnyArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutcomeEvent:
    """The score of the observation before, in the score's shape."""

    context: str
    number: int
    value: AnyArray


LogEvent: TypeAlias = Header | ContextEvent | ObservationEvent | OutcomeEvent


def stream_log(stream: BinaryIO, *, check_byte_order: bool = True) -> Iterator[LogEvent]:
    """The events of a log, each as soon as it is whole; how the stream is cut into reads makes no difference.

    A header comes first, and again where a further compilation writes to the same stream; contexts then count anew.
    Memory holds one record.

    Args:
        stream: binary and readable; short reads are welcome.
        check_byte_order: raise on a log that looks like another byte order's (`byte_order.py`).

    Raises:
        LogError: after the events of everything whole: the log is damaged there, or ends in mid-record.
    """
    parser = LogParser(str(getattr(stream, "name", "training log")), check_byte_order=check_byte_order)
    read = getattr(stream, "read1", stream.read)  # read1 does not wait for a full chunk
    while chunk := read(_CHUNK_BYTES):
        yield from parser.feed(chunk)
    parser.finish()


class LogParser:
    """Turns the bytes of a log into events; does no reading itself.

    Args:
        file: what errors call the log.
        check_byte_order: raise on a log that looks like another byte order's.
    """

    def __init__(self, file: str, *, check_byte_order: bool = True) -> None:
        self._file = file
        self._check_byte_order = check_byte_order
        self._buffer = bytearray()
        self._start = 0
        """Where the part of the buffer that was not used yet starts."""
        self._searched = 0
        """Bytes after `_start` that are known to hold no newline."""
        self._offset = 0
        """Where `_start` is in the log."""
        self._record = 0
        """Where the last observation starts in the log."""
        self._header: Header | None = None
        self._places: list[tuple[str, np.dtype[Any], int, int, tuple[int, ...]]] = []
        """Of each feature name, type, elements, place among the tensors, and shape."""
        self._observation_bytes = 0
        self._judge = ByteOrderJudge()
        self._counts: dict[str, int] = {}
        self._context: str | None = None
        self._awaits: str = "header"
        """What comes next: "header", "line", "tensors", "outcome" (its line) or "score"."""

    def feed(self, chunk: bytes | bytearray | memoryview) -> Iterator[LogEvent]:
        """The events that became whole with `chunk`; run the iterator to its end before the next call.

        Raises:
            LogError: the log is damaged.
        """
        self._buffer += chunk
        while (step := self._step()) is not None:
            if not isinstance(step, bool):
                yield step
        del self._buffer[: self._start]
        self._start = 0

    def finish(self) -> None:
        """The log has ended.

        Raises:
            LogError: it ended in mid-record.
        """
        left = bytes(self._buffer[self._start :][:64])
        if self._awaits == "header":
            raise self._error(
                f"expected a header, one line of JSON, found {shown(left)}" if left else "the log is empty"
            )
        if self._awaits == "line" and left:
            raise self._error(f"the log ends within the line {shown(left)}")
        if self._awaits != "line":
            message = f"the log ends within observation {self._number()} of context {self._context!r}"
            raise self._error(message, at=self._record)

    def _step(self) -> LogEvent | bool | None:
        """One step: an event, True for a step without one, None when more bytes are needed."""
        if self._awaits in ("tensors", "score"):
            return self._tensors() if self._awaits == "tensors" else self._score()
        line = self._line()
        if line is None:
            return None
        if self._awaits == "header":
            return self._start_log(line)
        return self._started(line)

    def _start_log(self, line: bytes) -> Header:
        try:
            self._header = Header.parse(line)
        except SpecError as error:
            raise self._error(str(error), hint=error.hint, at=self._offset - len(line)) from error
        self._judge = ByteOrderJudge()
        self._counts, self._context, self._awaits = {}, None, "line"
        self._places, self._observation_bytes = [], 0
        for spec in self._header.features:
            self._places.append((spec.name, spec.dtype, spec.element_count, self._observation_bytes, spec.shape))
            self._observation_bytes += spec.byte_size
        return self._header

    def _started(self, line: bytes) -> LogEvent | bool:
        try:
            kind, value = parse_line(line)
        except ValueError as error:
            raise self._error(str(error), at=self._offset - len(line)) from error
        if self._awaits == "outcome":
            if (kind, value) != ("outcome", self._number()):
                raise self._error(
                    f"expected outcome {self._number()}, found {shown(line)}", at=self._offset - len(line)
                )
            self._awaits = "score"
            return True
        match kind:
            case "header":
                return self._start_log(line)
            case "context":
                self._context = str(value)
                self._counts.setdefault(self._context, 0)
                return ContextEvent(name=self._context)
            case "observation" if self._context is not None and value == self._number():
                self._awaits, self._record = "tensors", self._offset - len(line)
                return True
        expected = "a context" if self._context is None else f"observation {self._number()} of {self._context!r}"
        raise self._error(f"expected {expected}, found {shown(line)}", at=self._offset - len(line))

    def _tensors(self) -> ObservationEvent | None:
        header = self._known_header()
        payload = self._block(self._observation_bytes)
        if payload is None:
            return None
        features = {
            name: np.frombuffer(payload, dtype, count, at).reshape(shape)
            for name, dtype, count, at, shape in self._places
        }
        if self._check_byte_order and not self._judge.decided and self._judge.is_foreign(features.values()):
            raise self._error(
                "the values look like those of the other byte order",
                hint=FOREIGN_HINT,
                at=self._offset - len(payload) - 1,
            )
        event = ObservationEvent(context=str(self._context), number=self._number(), features=features)
        self._awaits = "line" if header.score is None else "outcome"
        self._counts[str(self._context)] += header.score is None
        return event

    def _score(self) -> OutcomeEvent | None:
        score = self._known_header().score
        if score is None or (payload := self._block(score.byte_size)) is None:
            return None
        event = OutcomeEvent(context=str(self._context), number=self._number(), value=score.view(payload))
        self._awaits = "line"
        self._counts[str(self._context)] += 1
        return event

    def _known_header(self) -> Header:
        if self._header is None:
            raise self._error("a log starts with its header")
        return self._header

    def _number(self) -> int:
        return self._counts.get(str(self._context), 0)

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._start + self._searched)
        if end < 0:
            self._searched = len(self._buffer) - self._start
            if self._searched > LONGEST_LINE_BYTES:
                raise self._error(f"a line is longer than {LONGEST_LINE_BYTES} bytes")
            return None
        self._searched = 0
        return self._take(end + 1)

    def _block(self, size: int) -> bytes | None:
        """The next `size` bytes, without the newline that must follow them."""
        end = self._start + size
        if len(self._buffer) <= end:
            return None
        if self._buffer[end] != ord("\n"):
            found = shown(bytes(self._buffer[end : end + 1]))
            raise self._error(f"expected the newline after a tensor, found {found}", at=self._offset + size)
        return self._take(end + 1)[:-1]

    def _take(self, end: int) -> bytes:
        taken = bytes(memoryview(self._buffer)[self._start : end])
        self._start = end
        self._offset += len(taken)
        return taken

    def _error(self, message: str, *, hint: str | None = None, at: int | None = None) -> LogError:
        """The error at byte `at` of the log, by default at the next one."""
        return LogError(message, file=self._file, offset=self._offset if at is None else at, hint=hint)
