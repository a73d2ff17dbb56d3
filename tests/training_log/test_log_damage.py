"""Damaged and hostile logs: everything whole is returned, and the error names file and byte."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from log_strategies import Told, told, told_by, write

from pymlgo.errors import LogError
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log import Header, read_log, stream_log

WIDE = TensorSpec("wide", "int8_t", (7,))
FULL = Header(features=(WIDE,), score=TensorSpec("s", "int16_t", (1,)))
PLAIN = Header(features=(WIDE,))
LOGS = [write(header, [("f", 0), ("g", 11), ("f", 2)]) for header in (FULL, PLAIN)]


def by_reader(path: Path) -> tuple[list[Told], int | None, str]:
    try:
        log = read_log(path, check_byte_order=False)
    except LogError as error:
        return [], error.offset, str(error)
    return told_by(log), log.error and log.error.offset, str(log.error)


def by_stream(data: bytes) -> tuple[list[Told], int | None]:
    events: list[Told] = []
    try:
        for event in stream_log(io.BytesIO(data), check_byte_order=False):
            events.append(told(event))
    except LogError as error:
        if events and events[-1][0] == "observation" and events[0][1].score:  # type: ignore[attr-defined]
            events.pop()  # its outcome never came: the reader counts it as not whole
        return events, error.offset
    return events, None


@pytest.mark.spec("training-log.damage")
@pytest.mark.parametrize("written", LOGS, ids=["score", "plain"])
def test_a_cut_log_gives_every_whole_record_before_the_cut(written, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    header_end = len(written.header.to_line())
    for size in range(1, len(written.data)):
        path.write_bytes(written.data[:size])
        events, offset, message = by_reader(path)
        assert (events, offset) == by_stream(written.data[:size]), size
        if size < header_end:
            assert offset == 0
        else:
            assert events == written.events[: len(events)]
            assert offset is None or (size - 60 < offset <= size and message.startswith(f"{path}, byte {offset}: "))


@pytest.mark.spec("training-log.damage")
@pytest.mark.parametrize("written", LOGS, ids=["score", "plain"])
def test_file_and_stream_agree_on_any_damage(written, tmp_path: Path) -> None:
    path, rng = tmp_path / "x.log", random.Random(5)
    header_end = len(written.header.to_line())
    for _ in range(300):
        data = bytearray(written.data)
        for _ in range(rng.randrange(1, 3)):
            data[rng.randrange(header_end, len(data))] = rng.choice(b'0123456789\n"{}:x\x00\xff')
        path.write_bytes(data)
        events, offset, _ = by_reader(path)
        assert (events, offset) == by_stream(bytes(data))


def damaged(folder: Path, data: bytes) -> LogError:
    path = folder / "x.log"
    path.write_bytes(data)
    log = read_log(path)
    assert log.error is not None
    return log.error


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (b'{"observation":0}\n1234567\n', "expected a context, found"),
        (b'{"context":"f"}\n{"observation":1}\n1234567\n', "expected observation 0 of 'f'"),
        (b'{"context":"f"}\n{"observation":-1}\n1234567\n', "expected observation 0 of 'f'"),
        (b'{"context":"f"}\n{"observation":00}\n1234567\n', "expected a context or an observation"),
        (b'{"context":"f"}\n{"observation":false}\n1234567\n', "expected a context or an observation"),
        (b'{"context":"f"}\n{"observation":0}\n12345678', "expected the newline after a tensor, found '8'"),
        (b'{"context":"f"}\n{"observation":0}\n123456', "the log ends within observation 0 of context 'f'"),
        (b'{"context":"f"}\n{"outcome":0}\n12\n', "expected observation 0 of 'f', found"),
        (b'{"context":7}\n', "expected a context or an observation"),
        (b'{"context":"f"', "the log ends within the line"),
        (b'{"context":"\xff"}\n', "expected a context or an observation"),
        (b"\n", "expected a context or an observation"),
        (b"[" * 100_000 + b"\n", "expected a context or an observation"),
        (b"9" * 5000 + b"\n", "expected a context or an observation"),
        (PLAIN.to_line(), "a second header"),
    ],
)
def test_each_damage_is_named_in_one_line(tail: bytes, message: str, tmp_path: Path) -> None:
    error = damaged(tmp_path, PLAIN.to_line() + tail)
    assert message in str(error)
    assert "\n" not in str(error)
    assert len(str(error)) < 200 + len(str(tmp_path))
    assert error.offset >= len(PLAIN.to_line())


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (b'{"outcome":1}\n12\n', "expected outcome 0, found"),
        (b'{"observation":1}\n1234567\n', "expected outcome 0, found"),
        (b'{"outcome":0}\n12{"observation":1}\n', "expected the newline after a tensor"),
        (b'{"outcome":0}\n1', "ends within observation 0"),
        (b'{"outc', "ends within observation 0"),
        (b"", "ends within observation 0"),
    ],
)
def test_a_damaged_outcome_takes_its_observation_with_it(tail: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(FULL.to_line() + b'{"context":"f"}\n{"observation":0}\n1234567\n' + tail)
    log = read_log(path)
    assert message in str(log.error)
    assert [len(context) for context in log.contexts] == [0]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\x7fELF" + bytes(500),
        b"{}\n",
        b'{"features":[{"name":"x","type":"int64_t","port":0,"shape":[4611686018427387904]}]}\n',
        b'{"features":[{"name":"x","type":"int64_t","port":0,"shape":[-1]}]}\n{"context":"f"}\n',
        b"x" * 100_000,
    ],
)
def test_what_has_no_usable_header_is_no_log(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(data)
    with pytest.raises(LogError) as caught:
        read_log(path)
    assert caught.value.offset == 0
    assert "\n" not in str(caught.value)


def test_a_huge_tensor_needs_no_memory_before_it_is_there(tmp_path: Path) -> None:
    header = Header(features=tuple(TensorSpec(f"t{i}", "int8_t", (2_000_000_000,)) for i in range(40)))
    assert "the log ends within observation 0" in str(
        damaged(tmp_path, header.to_line() + b'{"context":"f"}\n{"observation":0}\n12\n')
    )
