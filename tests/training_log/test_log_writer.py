"""`LogWriter`: LLVM's bytes, and nothing that a reader would not understand."""

from __future__ import annotations

import io

import numpy as np
import pytest

from pymlgo.errors import LogError, SpecError
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log import Header, LogWriter

COST = TensorSpec("cost", "int16_t", (1,))
MASK = TensorSpec("mask", "uint8_t", (1, 3))
SIZE = TensorSpec("size", "int16_t", (1,))


def test_the_bytes_are_llvms() -> None:
    stream = io.BytesIO()
    header = Header(features=(COST, MASK), score=SIZE)
    with LogWriter(stream, header) as writer:
        writer.context("f")
        writer.context("g")
        writer.observation({"mask": [1, 0, 2], "cost": 7})
        writer.outcome(-1)
        writer.context("f")
    seven, minus_one = np.int16(7).tobytes(), np.int16(-1).tobytes()
    assert stream.getvalue() == header.to_line() + (
        b'{"context":"f"}\n{"context":"g"}\n'
        b'{"observation":0}\n' + seven + b"\x01\x00\x02\n"
        b'{"outcome":0}\n' + minus_one + b"\n"
        b'{"context":"f"}\n'
    )  # fmt: skip


@pytest.mark.spec("training-log.context")
def test_observations_are_counted_for_each_name() -> None:
    stream = io.BytesIO()
    writer = LogWriter(stream, Header(features=(COST,)))
    for name in ("a", "b", "a"):
        writer.context(name)
        writer.observation({"cost": 0})
    lines = [line for line in stream.getvalue().split(b"\n") if line.startswith(b'{"o')]
    assert lines == [b'{"observation":0}', b'{"observation":0}', b'{"observation":1}']


@pytest.mark.spec("training-log.outcome")
def test_an_outcome_line_holds_the_number_of_its_observation_not_the_value() -> None:
    stream = io.BytesIO()
    writer = LogWriter(stream, Header(features=(COST,), score=SIZE))
    writer.context("")
    for score in (900, 901):
        writer.observation({"cost": 0})
        writer.outcome(score)
    assert b'{"outcome":1}\n' + np.int16(901).tobytes() + b"\n" in stream.getvalue()
    assert b"901" not in stream.getvalue()


@pytest.mark.spec("training-log.action")
def test_an_advice_that_is_also_a_feature_is_refused() -> None:
    stream = io.BytesIO()
    with pytest.raises(SpecError, match="'cost' is also a feature"):
        LogWriter(stream, Header(features=(COST, MASK), advice=TensorSpec("cost", "float", (1,))))
    assert stream.getvalue() == b""


def writer_of(*, score: bool = False) -> tuple[io.BytesIO, LogWriter]:
    stream = io.BytesIO()
    return stream, LogWriter(stream, Header(features=(COST, MASK), score=SIZE if score else None))


GOOD = {"cost": 1, "mask": [[1, 2, 3]]}


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"cost": 1}, "lacks the feature 'mask'"),
        ({**GOOD, "other": 1}, "'other' is no feature"),
        ({**GOOD, "mask": [1, 2]}, r"shape \[1, 3\]"),
        ({**GOOD, "cost": 1 << 40}, "cannot hold"),
        ({**GOOD, "cost": None}, "cannot hold"),
        ({**GOOD, "cost": 0.5}, "exactly"),
        ({**GOOD, "mask": "abc"}, "cannot hold"),
    ],
)
def test_a_wrong_value_is_refused_and_nothing_is_written(tensors: dict[str, object], message: str) -> None:
    stream, writer = writer_of()
    writer.context("f")
    before = stream.getvalue()
    with pytest.raises(SpecError, match=message):
        writer.observation(tensors)
    assert stream.getvalue() == before
    writer.observation(GOOD)
    assert b'{"observation":0}' in stream.getvalue()


def test_a_wrong_order_is_refused_with_the_place() -> None:
    stream, writer = writer_of(score=True)
    with pytest.raises(LogError, match="needs a context") as caught:
        writer.observation(GOOD)
    assert caught.value.offset == len(stream.getvalue())
    writer.context("f")
    with pytest.raises(LogError, match="needs an observation"):
        writer.outcome(1)
    writer.observation(GOOD)
    with pytest.raises(LogError, match="has no outcome"):
        writer.observation(GOOD)
    with pytest.raises(LogError, match="has no outcome"):
        writer.context("g")
    with pytest.raises(SpecError, match="cannot hold"):
        writer.outcome(1 << 20)
    writer.outcome(1)
    with pytest.raises(LogError, match="needs an observation"):
        writer.outcome(1)


def test_an_outcome_without_a_score_is_refused() -> None:
    _, writer = writer_of()
    writer.context("f")
    writer.observation(GOOD)
    with pytest.raises(LogError, match="needs a score"):
        writer.outcome(1)


def write_without_outcome(then: Exception | None = None) -> None:
    with writer_of(score=True)[1] as writer:
        writer.context("f")
        writer.observation(GOOD)
        if then is not None:
            raise then


def test_the_end_of_the_block_asks_for_the_last_outcome() -> None:
    with pytest.raises(LogError, match="the last observation has no outcome"):
        write_without_outcome()


def test_an_error_inside_the_block_is_the_one_that_is_seen() -> None:
    with pytest.raises(ZeroDivisionError):
        write_without_outcome(ZeroDivisionError())


def test_a_name_that_is_not_unicode_is_written_as_llvm_writes_it() -> None:
    stream, writer = writer_of()
    writer.context('f\udc80"\n')
    assert stream.getvalue().decode().endswith('{"context":"f\ufffd\\"\\n"}\n')
