"""Reads a training log without copying it: the file is mapped, and every tensor is a view on the map."""

from __future__ import annotations

import mmap
import re
import stat
from pathlib import Path
from typing import TypeAlias

from pymlgo.errors import LogError, SpecError
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log.byte_order import FOREIGN_HINT, ByteOrderJudge
from pymlgo.training_log.contexts import LogContext, Segment, TensorViews, TrainingLog, strided_view
from pymlgo.training_log.header import Header, shown
from pymlgo.training_log.lines import LONGEST_LINE_BYTES, parse_line
from pymlgo.training_log.record import RecordForm

_Around: TypeAlias = tuple[bytes, bytes]
"""A line without its number: what stands before and after it."""


def read_log(path: Path | str, *, check_byte_order: bool = True) -> TrainingLog:
    """The log in the file `path`, whose arrays are read-only views on it.

    There is no Python loop over observations, and no copy of the file in this process's memory: its pages are the
    file's own. The file must not be shortened while the arrays are in use. Of a damaged log everything whole before
    the damage is returned, with the error; behind it nothing is, for the format has no mark to find a record again.
    A log that was cut between two records cannot be told from a whole one.

    Args:
        path: a regular file; a pipe goes to `stream_log`.
        check_byte_order: raise on a log that looks like another byte order's (`byte_order.py`).

    Raises:
        LogError: the file cannot be read, has no header that could be used, or is of another byte order.
    """
    file = str(path)
    data = _mapped(Path(path))
    end = data.find(b"\n", 0, LONGEST_LINE_BYTES) + 1
    if end == 0:
        raise LogError(f"expected a header, one line of JSON, found {shown(data[:64])}", file=file, offset=0)
    try:
        header = Header.parse(data[:end])
    except SpecError as error:
        raise LogError(str(error), file=file, offset=0, hint=error.hint) from error
    contexts, failure = _Scan(data, file, header, end).run()
    log = TrainingLog(header=header, contexts=contexts, error=failure, file=file, size_bytes=len(data))
    if check_byte_order and (segment := _foreign(log)):
        raise LogError(
            "the values look like those of the other byte order", file=file, offset=segment.offset, hint=FOREIGN_HINT
        )
    return log


def _mapped(path: Path) -> mmap.mmap:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # looked at first: opening a named pipe would wait for its writer
            raise LogError("is no regular file", file=str(path), offset=0, hint="stream_log reads pipes and the like")
        with path.open("rb") as stream:
            if not stream.seek(0, 2):
                raise LogError("the log is empty", file=str(path), offset=0)
            return mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
    except OSError as error:
        raise LogError(f"cannot be read: {error.strerror}", file=str(path), offset=0) from error


def _foreign(log: TrainingLog) -> Segment | None:
    """The segment whose values gave a log of the other byte order away."""
    judge = ByteOrderJudge()
    for context in log.contexts:
        for segment in context.segments:
            for index in range(len(segment)):
                if judge.is_foreign(segment.features[spec.name][index] for spec in log.header.features):
                    return segment
                if judge.decided:
                    return None
    return None


class _Scan:
    """One pass over a log: a step for each context line and each run of records."""

    def __init__(self, data: mmap.mmap, file: str, header: Header, start: int) -> None:
        self._data = data
        self._file = file
        self._header = header
        self._offset = start
        self._places: dict[str, tuple[TensorSpec, int]] = {}
        place = 0
        for spec in header.features:
            self._places[spec.name] = (spec, place)
            place += spec.byte_size
        self._observation_bytes = place
        self._forms: dict[tuple[_Around, _Around, int], RecordForm] = {}
        self._counts: dict[str, int] = {}
        self._contexts: list[LogContext] = []
        self._name: str | None = None
        self._number = 0
        """The number of the next observation of the context."""
        self._segments: list[Segment] = []

    def run(self) -> tuple[tuple[LogContext, ...], LogError | None]:
        """Everything whole, and what ended it before the end of the file."""
        failure = None
        try:
            while self._offset < len(self._data):
                self._step()
        except LogError as error:
            failure = error
        self._close_context()
        return tuple(self._contexts), failure

    def _step(self) -> None:
        line = self._line(self._offset)
        try:
            kind, value = parse_line(line)
        except ValueError as error:
            raise self._error(str(error)) from error
        if kind == "context":
            self._close_context()
            self._name = str(value)
            self._number = self._counts.get(self._name, 0)
            self._offset += len(line)
        elif kind == "observation" and self._name is not None and value == self._number:
            self._segments.append(self._segment(line))
        elif kind == "header":
            raise self._error("a second header: several compilations wrote to this file")
        else:
            expected = "a context" if self._name is None else f"observation {self._number} of {self._name!r}"
            raise self._error(f"expected {expected}, found {shown(line)}")

    def _close_context(self) -> None:
        if self._name is None:
            return
        first = self._counts.get(self._name, 0)
        self._contexts.append(
            LogContext(name=self._name, first_observation=first, segments=tuple(self._segments), header=self._header)
        )
        self._counts[self._name] = self._number
        self._segments = []

    def _segment(self, line: bytes) -> Segment:
        """The run of records that starts here with `line`; at least one."""
        start, number = self._offset, self._number
        form = self._whole_record(line, number)
        count = form.count(self._data, start, number)
        self._offset += count * form.stride
        self._number += count
        score, first_tensor = self._header.score, start + form.tensors_at
        return Segment(
            first_observation=number,
            count=count,
            offset=start,
            stride_bytes=form.stride,
            features=TensorViews(self._data, self._places, first_tensor, count, form.stride),
            outcomes=strided_view(self._data, score, start + form.score_at, count, form.stride) if score else None,
        )

    def _whole_record(self, line: bytes, number: int) -> RecordForm:
        """The form of the record that starts here; the record is whole.

        Raises:
            LogError: it is not.
        """
        tensors_end = len(line) + self._observation_bytes
        self._expect_newline(tensors_end, number)
        outcome, score_end = b"", 0
        if self._header.score is not None:
            outcome = self._outcome_line(self._offset + tensors_end + 1, number)
            score_end = tensors_end + 1 + len(outcome) + self._header.score.byte_size
            self._expect_newline(score_end, number)
        spelling = (_around_number(line, b"observation", number), _around_number(outcome, b"outcome", number))
        key = (*spelling, len(str(number)))
        if key not in self._forms:
            self._forms[key] = _form(spelling, line, outcome, number, tensors_end, score_end)
        return self._forms[key]

    def _outcome_line(self, offset: int, number: int) -> bytes:
        if self._data.find(b"\n", offset) < 0:
            raise self._error(f"the log ends within observation {number} of context {self._name!r}")
        line = self._line(offset)
        try:
            found = parse_line(line)
        except ValueError:
            found = None
        if found != ("outcome", number):
            raise self._error(f"expected outcome {number}, found {shown(line)}", at=offset)
        return line

    def _expect_newline(self, at: int, number: int) -> None:
        at += self._offset
        if at >= len(self._data):
            raise self._error(f"the log ends within observation {number} of context {self._name!r}")
        if self._data[at] != ord("\n"):
            raise self._error(f"expected the newline after a tensor, found {shown(self._data[at : at + 1])}", at=at)

    def _line(self, offset: int) -> bytes:
        end = self._data.find(b"\n", offset, offset + LONGEST_LINE_BYTES) + 1
        if end:
            return self._data[offset:end]
        if len(self._data) - offset < LONGEST_LINE_BYTES:
            raise self._error(f"the log ends within the line {shown(self._data[offset : offset + 64])}", at=offset)
        raise self._error(f"a line is longer than {LONGEST_LINE_BYTES} bytes", at=offset)

    def _error(self, message: str, *, at: int | None = None) -> LogError:
        return LogError(message, file=self._file, offset=self._offset if at is None else at)


def _around_number(line: bytes, key: bytes, number: int) -> _Around:
    """What stands before and after the number of `key` in a line; all and nothing where it is not found."""
    text = b"%d" % number
    usual = b'{"%b":' % key
    if line == usual + text + b"}\n":  # as LLVM spells it; all logs but hand-made ones
        return usual, b"}\n"
    found = re.search(rb'"%b"\s*:\s*%b(?!\d)' % (key, text), line)
    return (line[: found.end() - len(text)], line[found.end() :]) if found else (line, b"")


def _form(
    spelling: tuple[_Around, _Around], line: bytes, outcome: bytes, number: int, tensors_end: int, score_end: int
) -> RecordForm:
    """The form of a record with the lines `line` and `outcome`, the latter empty in a log without scores."""
    (before, after), (outcome_before, outcome_after) = spelling
    digits, outcome_at = len(str(number)), tensors_end + 1
    texts = [(0, before), (len(line) - len(after), after), (tensors_end, b"\n" + outcome_before)]
    numbers = [len(before)]
    if outcome:
        texts += [(outcome_at + len(outcome) - len(outcome_after), outcome_after), (score_end, b"\n")]
        numbers.append(outcome_at + len(outcome_before))
    return RecordForm(
        stride=(score_end or tensors_end) + 1,
        tensors_at=len(line),
        score_at=outcome_at + len(outcome),
        digits=digits,
        texts=tuple(texts),
        # A number that was not found, e.g. behind an escaped key, cannot be checked in the records that follow.
        numbers=tuple(numbers) if after and bool(outcome) == bool(outcome_after) else (),
    )
