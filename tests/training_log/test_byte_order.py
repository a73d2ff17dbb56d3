"""Logs of the other byte order: recognized by their values, as far as that goes."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from log_strategies import until_error

from pymlgo.errors import LogError
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log import Header, LogWriter, ObservationEvent, read_log, stream_log
from pymlgo.training_log.byte_order import telling_elements

GOLDEN = Path(__file__).parent / "golden"


def swapped(path: Path) -> bytes:
    """The log as a machine of the other byte order would have written it."""
    log = read_log(path)
    stream = io.BytesIO()
    writer = LogWriter(stream, log.header)
    for context in log.contexts:
        writer.context(context.name)
        for row in range(len(context)):
            writer.observation({name: values[row].byteswap() for name, values in context.features.items()})
    return stream.getvalue()


@pytest.mark.spec("training-log.byte-order")
@pytest.mark.parametrize("golden", sorted(GOLDEN.glob("*.log")), ids=lambda path: path.stem)
def test_a_real_log_with_swapped_bytes_is_reported_and_the_real_one_is_not(golden: Path, tmp_path: Path) -> None:
    assert read_log(golden).error is None
    foreign = tmp_path / "foreign.log"
    foreign.write_bytes(swapped(golden))
    with pytest.raises(LogError, match="other byte order") as caught:
        read_log(foreign)
    assert "on a machine of the byte order" in str(caught.value.hint)
    with foreign.open("rb") as stream, pytest.raises(LogError, match="other byte order"):
        list(stream_log(stream))
    assert len(read_log(foreign, check_byte_order=False).contexts) == 1


def test_file_and_stream_report_the_same_observation(tmp_path: Path) -> None:
    header = Header(features=(TensorSpec("x", "int64_t", (1,)),))
    stream = io.BytesIO()
    writer = LogWriter(stream, header)
    writer.context("f")
    for _ in range(20):
        writer.observation({"x": int(np.int64(3).byteswap())})
    path = tmp_path / "x.log"
    path.write_bytes(stream.getvalue())
    events, by_stream = until_error(io.BytesIO(stream.getvalue()))
    assert sum(isinstance(event, ObservationEvent) for event in events) == 7, "the eighth decides"
    with pytest.raises(LogError) as by_reader:
        read_log(path)
    assert by_reader.value.offset <= by_stream.offset


@pytest.mark.parametrize(
    ("values", "native", "foreign"),
    [
        (np.array([0, -1, 1, -5, 1 << 31], np.int64), 3, 0),
        (np.array([1, 2, 3], np.int64).byteswap(), 0, 3),
        (np.array([1 << 40, 1 << 20 | 1 << 50], np.uint64), 0, 1),
        (np.array([0, 1, 255], np.uint8), 0, 0),
        (np.array([0, 1, 2], np.uint16), 2, 0),
        (np.array([0.0, 1.0, 0.5, np.nan], np.float32), 2, 0),
        (np.array([1.0, 0.5], np.float64).byteswap(), 0, 2),
    ],
)
def test_an_element_tells_when_it_is_plausible_one_way_only(values, native: int, foreign: int) -> None:
    assert telling_elements(values) == (native, foreign)


def test_a_log_with_too_little_evidence_is_taken_for_our_own(tmp_path: Path) -> None:
    header = Header(features=(TensorSpec("x", "int64_t", (1,)),))
    stream = io.BytesIO()
    writer = LogWriter(stream, header)
    writer.context("f")
    for _ in range(7):
        writer.observation({"x": 1 << 56})
    path = tmp_path / "x.log"
    path.write_bytes(stream.getvalue())
    assert read_log(path).error is None
