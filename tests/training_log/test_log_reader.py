"""`read_log`: what was written, as views on the mapped file."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from log_strategies import WrittenLog, told_by, write, written_logs

from pymlgo.errors import LogError
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log import Header, read_log

COST = TensorSpec("cost", "int64_t", (1,))
MASK = TensorSpec("mask", "float", (2, 3))
SIZE = TensorSpec("size", "int32_t", (2,))
FULL = Header(features=(COST, MASK), score=SIZE)


def stored(folder: Path, data: bytes) -> Path:
    path = folder / "x.log"
    path.write_bytes(data)
    return path


@pytest.mark.spec("training-log.reader")
@given(written=written_logs)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_reading_gives_what_was_written(written: WrittenLog, tmp_path: Path) -> None:
    log = read_log(stored(tmp_path, written.data), check_byte_order=False)
    assert log.error is None
    assert told_by(log) == written.events


@pytest.mark.spec("training-log.context")
def test_each_appearance_of_a_context_is_one_and_counts_on(tmp_path: Path) -> None:
    contexts = [("f", 3), ("empty", 0), ("g", 12), ("f", 8)]
    log = read_log(stored(tmp_path, write(FULL, contexts).data), check_byte_order=False)
    assert [(each.name, each.first_observation, len(each)) for each in log.contexts] == [
        ("f", 0, 3),
        ("empty", 0, 0),
        ("g", 0, 12),
        ("f", 3, 8),
    ]
    empty = log.contexts[1]
    assert empty.features["mask"].shape == (0, 2, 3)
    assert empty.outcomes is not None
    assert empty.outcomes.shape == (0, 2)
    assert log.observation_count == 23


@pytest.mark.spec("training-log.observation")
def test_features_have_the_shape_n_by_the_tensors(tmp_path: Path) -> None:
    context = read_log(stored(tmp_path, write(FULL, [("f", 1234)]).data), check_byte_order=False).contexts[0]
    assert list(context.features) == ["cost", "mask"]
    assert context.features["cost"].shape == (1234, 1)
    assert context.features["mask"].shape == (1234, 2, 3)
    assert context.features["mask"].dtype == np.float32
    assert context.outcomes is not None
    assert context.outcomes.shape == (1234, 2)


def test_a_segment_is_a_run_of_numbers_with_equally_many_digits(tmp_path: Path) -> None:
    context = read_log(stored(tmp_path, write(FULL, [("f", 1234)]).data), check_byte_order=False).contexts[0]
    assert [(each.first_observation, len(each)) for each in context.segments] == [
        (0, 10),
        (10, 90),
        (100, 900),
        (1000, 234),
    ]
    strides = [each.stride_bytes for each in context.segments]
    assert [later - earlier for earlier, later in itertools.pairwise(strides)] == [2, 2, 2]


def test_views_share_the_memory_of_the_file(tmp_path: Path) -> None:
    written = write(Header(features=(COST,)), [("f", 10), ("g", 30)])
    path = stored(tmp_path, written.data)
    short, long = read_log(path, check_byte_order=False).contexts
    view = short.features["cost"]
    assert not view.flags.owndata
    assert not view.flags.writeable
    assert all(not segment.features["cost"].flags.owndata for segment in long.segments)
    # The map is shared with the file: what is written there now is seen through the view.
    at = written.data.index(b'{"observation":4}\n') + len(b'{"observation":4}\n')
    with path.open("r+b") as stream:
        stream.seek(at)
        stream.write(np.int64(4711).tobytes())
    assert view[4, 0] == 4711


def test_a_context_that_keeps_its_digits_is_one_view(tmp_path: Path) -> None:
    log = read_log(stored(tmp_path, write(FULL, [("f", 10), ("f", 90)]).data), check_byte_order=False)
    assert all(len(context.segments) == 1 for context in log.contexts)
    assert all(not context.features["mask"].flags.owndata for context in log.contexts)


def test_arrays_outlive_the_log(tmp_path: Path) -> None:
    values = (
        read_log(stored(tmp_path, write(FULL, [("f", 5)]).data), check_byte_order=False).contexts[0].features["cost"]
    )
    (tmp_path / "x.log").unlink()
    gc.collect()
    assert values.shape == (5, 1)
    assert int(values.sum()) == int(np.array(values).sum())


def test_other_spellings_of_json_are_read_too(tmp_path: Path) -> None:
    header = Header(features=(COST,), score=TensorSpec("s", "int8_t", (1,)))
    values = [np.int64(number).tobytes() for number in range(25)]
    data = header.to_line() + b'{ "context" : "\\u0066" }\r\n'
    for number, value in enumerate(values):
        if number == 20:  # and the spelling may change within a context
            data += b'{"observation":20}\n' + value + b'\n{"outcome":20}\n\x01\n'
        else:
            data += b'{"new": 1, "observation": %d }\n%b\n{"outcome" : %d}\n\x01\n' % (number, value, number)
    log = read_log(stored(tmp_path, data))
    assert log.error is None
    assert log.contexts[0].name == "f"
    assert log.contexts[0].features["cost"][:, 0].tolist() == list(range(25))


@pytest.mark.parametrize(
    ("observation", "outcome"),
    [
        (b'{"observ\\u0061tion":%d}', b'{"outcome":%d}'),
        (b'{"observation":%d}', b'{"\\u006futcome":%d}'),
        (b'{"observation":99,"observation":%d}', b'{"outcome":%d,"x":"}"}'),
    ],
)
def test_spellings_that_hide_the_number_are_read_record_by_record(
    observation: bytes, outcome: bytes, tmp_path: Path
) -> None:
    record = observation + b"\n\x07\n" + outcome + b"\n\x01\n"
    tiny = TensorSpec("tiny", "int8_t", (1,))
    data = Header(features=(tiny,), score=TensorSpec("s", "int8_t", (1,))).to_line() + b'{"context":"f"}\n'
    data += b"".join(record % (number, number) for number in range(12))
    log = read_log(stored(tmp_path, data))
    assert log.error is None
    assert log.contexts[0].features["tiny"][:, 0].tolist() == [7] * 12
    cut = read_log(stored(tmp_path, data + record % (11, 12)))
    assert cut.error is not None
    assert cut.observation_count == 12


def test_tensors_may_hold_anything_that_looks_like_the_format(tmp_path: Path) -> None:
    text = TensorSpec("text", "int8_t", (36,))
    data = Header(features=(text,)).to_line() + b'{"context":"f"}\n'
    for number in range(12):
        data += b'{"observation":%d}\n\n{"context":"g"}\n{"observation":%d}\n\n\n' % (number, number % 10)
    log = read_log(stored(tmp_path, data))
    assert log.error is None
    assert [len(context) for context in log.contexts] == [12]


@pytest.mark.parametrize("name", ["missing.log", "."])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LogError, match=r"cannot be read: No such file|is no regular file"):
        read_log(tmp_path / name)


def test_a_named_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LogError, match="is no regular file") as caught:
        read_log(tmp_path / "pipe")
    assert caught.value.hint == "stream_log reads pipes and the like"


PROGRAM = """
import sys
from pathlib import Path
import numpy
from pymlgo.training_log import read_log

def private():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024

read_log(sys.argv[1]).contexts[0].segments[0].features["mask"].sum()  # loads what is loaded late
before = private()
log = read_log(sys.argv[2])
total = sum(float(segment.features["mask"].sum()) for segment in log.contexts[0].segments)
print(private() - before, log.observation_count)
"""


def test_the_file_is_not_copied_into_private_memory(tmp_path: Path) -> None:
    mask = TensorSpec("mask", "int8_t", (4000,))
    for name, observations in (("small", 20), ("large", 15_000)):
        record = b'{"observation":%d}\n' + b"\x01" * mask.byte_size + b"\n"
        with (tmp_path / name).open("wb") as stream:
            stream.write(Header(features=(mask,)).to_line() + b'{"context":"f"}\n')
            stream.writelines(record % number for number in range(observations))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "small"), str(tmp_path / "large")]
    private, observations = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert int(observations) == 15_000
    assert int(private) < 8 << 20, "the file has 60 MB"
