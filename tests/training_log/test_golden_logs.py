"""Logs that real compilers wrote (`record_golden.py`): read whole, and written again byte for byte."""

from __future__ import annotations

import hashlib
import io
import tomllib
from pathlib import Path

import numpy as np
import pytest
from log_strategies import told, told_by

from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log import LogWriter, read_log, stream_log

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.log"))


@pytest.fixture(params=GOLDEN, ids=lambda path: path.stem)
def golden(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def test_the_bytes_are_those_that_clang_wrote(golden: Path) -> None:
    described = tomllib.loads(golden.with_suffix(".toml").read_text())
    assert hashlib.sha256(golden.read_bytes()).hexdigest() == described["sha256"]
    log = read_log(golden)
    assert log.error is None
    assert (log.observation_count, len(log.contexts)) == (described["observations"], described["contexts"])


@pytest.mark.spec("training-log.observation")
def test_our_writer_writes_what_clang_wrote(golden: Path) -> None:
    log = read_log(golden)
    stream = io.BytesIO()
    writer = LogWriter(stream, log.header)
    for context in log.contexts:
        writer.context(context.name)
        for row in range(len(context)):
            writer.observation({name: values[row] for name, values in context.features.items()})
    assert stream.getvalue() == golden.read_bytes()


def test_file_and_stream_say_the_same(golden: Path) -> None:
    with golden.open("rb") as stream:
        assert [told(event) for event in stream_log(stream)] == told_by(read_log(golden))


def read(name: str):
    return read_log(Path(__file__).parent / "golden" / f"{name}.log")


@pytest.mark.spec("training-log.header")
def test_the_inliners_log_is_what_llvm_documents() -> None:
    log = read("inliner-22")
    assert log.header.advice == TensorSpec("inlining_decision", "int64_t", (1,))
    assert log.header.score is None
    assert len(log.header.features) == 39
    assert log.header.features[-1].name == "inlining_default"
    assert {spec.type for spec in log.header.features} == {"int64_t"}
    assert [context.name for context in log.contexts] == [""]
    assert set(log.contexts[0].features["inlining_default"][:, 0].tolist()) <= {0, 1}


def test_both_releases_describe_the_same_38_inliner_features() -> None:
    assert read("inliner-19").header.features == read("inliner-22").header.features[:38]


@pytest.mark.spec("training-log.context")
def test_the_allocators_logs_have_a_context_for_each_function() -> None:
    for name in ("eviction-22", "eviction-19", "priority-22"):
        assert [context.name for context in read(name).contexts] == ["pressed"]


def test_the_eviction_logs_hold_33_columns() -> None:
    features = read("eviction-22").contexts[0].features
    assert features["mask"].shape == (10, 1, 33)
    assert features["progress"].shape == (10, 1)
    assert np.isin(features["mask"], (0, 1)).all()
    assert features["mask"].any(axis=(1, 2)).all(), "something may always be evicted"
