"""`stream_log`: the same as reading the file, however the bytes arrive."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_strategies import WrittenLog, told, until_error, write, written_logs

from pymlgo.errors import LogError
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log import ContextEvent, Header, LogParser, ObservationEvent, stream_log

COST = TensorSpec("cost", "int64_t", (1,))


@pytest.mark.spec("training-log.reader")
@given(written=written_logs, cuts=st.lists(st.integers(1, 400), min_size=1, max_size=5))
@settings(deadline=None)
def test_how_the_bytes_are_cut_makes_no_difference(written: WrittenLog, cuts: list[int]) -> None:
    parser = LogParser("x.log", check_byte_order=False)
    events, at, turn = [], 0, 0
    while at < len(written.data):
        size = cuts[turn % len(cuts)]
        events += [told(event) for event in parser.feed(written.data[at : at + size])]
        at, turn = at + size, turn + 1
    parser.finish()
    assert events == written.events


def test_an_observation_is_told_before_the_next_byte_arrives() -> None:
    data = write(Header(features=(COST,)), [("f", 3)]).data
    head, _, rest = data.partition(b'{"observation":1}\n')
    parser = LogParser("x.log", check_byte_order=False)
    told_so_far = list(parser.feed(head))
    assert isinstance(told_so_far[-1], ObservationEvent)
    assert list(parser.feed(b'{"observation":1}\n')) == []
    assert len(list(parser.feed(rest))) == 2


def test_a_log_comes_through_a_real_pipe() -> None:
    written = write(Header(features=(COST,)), [("f", 200), ("", 1)])
    reading, writing = os.pipe()

    def feed() -> None:
        with os.fdopen(writing, "wb", buffering=0) as stream:
            for at in range(0, len(written.data), 777):
                stream.write(written.data[at : at + 777])

    thread = threading.Thread(target=feed)
    thread.start()
    with os.fdopen(reading, "rb") as stream:
        events = [told(event) for event in stream_log(stream, check_byte_order=False)]
    thread.join(timeout=10)
    assert events == written.events


@pytest.mark.spec("training-log.context")
def test_a_second_header_starts_another_log_on_the_same_stream() -> None:
    one, two = (write(Header(features=(TensorSpec(name, "int8_t", (1,)),)), [("f", 2)]) for name in ("a", "b"))
    events = [told(event) for event in stream_log(io.BytesIO(one.data + two.data))]
    assert events == one.events + two.events


def test_arrays_stay_valid_after_the_next_event() -> None:
    written = write(Header(features=(COST,)), [("f", 50)])
    stream = io.BytesIO(written.data)
    kept = [event for event in stream_log(stream, check_byte_order=False) if isinstance(event, ObservationEvent)]
    assert [event.features["cost"].tobytes() for event in kept] == [event[3] for event in written.events[2:]]


def test_a_damaged_stream_gives_everything_whole_first() -> None:
    data = write(Header(features=(COST,)), [("f", 12)]).data
    events, error = until_error(named(data[:-4]))
    assert str(error).startswith("x.log, byte ")
    assert "the log ends within observation 11 of context 'f'" in str(error)
    assert len(events) == 2 + 11
    assert error.offset == data.index(b'{"observation":11}')


def test_the_log_of_nothing_is_empty() -> None:
    with pytest.raises(LogError, match="the log is empty"):
        list(stream_log(io.BytesIO(b"")))


def test_a_log_without_observations_is_whole() -> None:
    events = list(stream_log(io.BytesIO(Header(features=(COST,)).to_line() + b'{"context":"f"}\n')))
    assert isinstance(events[1], ContextEvent)


def test_a_line_without_end_is_refused_before_memory_fills() -> None:
    parser = LogParser("x.log")
    for _ in range(16):
        assert list(parser.feed(b"x" * (1 << 20))) == []
    with pytest.raises(LogError, match="longer than"):
        list(parser.feed(b"x"))


class Named(io.BytesIO):
    name = "x.log"


def named(data: bytes) -> io.BytesIO:
    return Named(data)


def test_the_error_names_the_file_of_the_stream(tmp_path: Path) -> None:
    path = tmp_path / "y.log"
    path.write_bytes(b"no log\n")
    with path.open("rb") as stream, pytest.raises(LogError, match=r"y\.log, byte 0: a header is one line of JSON"):
        list(stream_log(stream))
