"""A recorded log is what LLVM's development mode would have written: the advice is the last feature."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from clang_hosting import compile_command, host_clang, seeded_advice
from fake_inliner import ADVICE, FEATURES, context, host_fake, inliner

from pymlgo.channel.recording import Recorder
from pymlgo.errors import ChannelError, SpecError
from pymlgo.problem import EVICTION
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.llvm import find_llvm
from pymlgo.training_log.header import Header
from pymlgo.training_log.reader import read_log

SCORE = TensorSpec("reward", "float", (1,))


def recorded(folder: Path, **settings: object) -> Recorder:
    recorder = Recorder()
    host_fake(inliner(**settings), folder, lambda observation: observation.number % 2, listener=recorder)
    return recorder


@pytest.mark.spec("interactive-mode.recording")
def test_features_advice_and_empty_contexts_are_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as stream:
        recorded(tmp_path).write(stream)
    read = read_log(log)
    assert read.header == Header(features=(*FEATURES, ADVICE))
    assert read.header.action == ADVICE
    assert [(each.name, len(each)) for each in read.contexts] == [("first", 3), ("empty", 0), ("second", 12)]
    assert read.contexts[2].features["users"].reshape(-1).tolist() == list(range(0, 120, 10))
    assert read.contexts[2].features[ADVICE.name].reshape(-1).tolist() == [0, 1] * 6
    assert read.error is None


def test_the_bytes_are_those_of_llvm(tmp_path: Path) -> None:
    stream = io.BytesIO()
    recorded(tmp_path, contexts=(context("f", 1),)).write(stream)
    weights = np.array([0, 0.5, -1], np.float32).tobytes()
    assert stream.getvalue() == (
        b'{"features":[{"name":"users","type":"int64_t","port":0,"shape":[1]},'
        b'{"name":"weights","type":"float","port":0,"shape":[1,3]},'
        b'{"name":"inlining_decision","type":"int64_t","port":0,"shape":[1]}]}\n'
        b'{"context":"f"}\n{"observation":0}\n' + bytes(8) + weights + bytes(8) + b"\n"
    )


@pytest.mark.parametrize(
    ("given", "expected"), [(5.0, [0, 0, 5]), ([1, 2, 3], [1, 2, 3]), (np.array([[1.5], [2], [3]]), [1.5, 2, 3])]
)
def test_outcomes_may_follow_each_decision(tmp_path: Path, given: object, expected: list[float]) -> None:
    log = tmp_path / "log"
    with log.open("wb") as stream:
        recorded(tmp_path, contexts=(context("f", 3), context("g", 0))).write(
            stream, score=SCORE, outcomes=lambda name, count: given if count else ()
        )
    read = read_log(log)
    assert read.header.score == SCORE
    assert read.contexts[0].outcomes is not None
    assert read.contexts[0].outcomes.reshape(-1).tolist() == expected


def test_outcomes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="reward"):
        recorded(tmp_path).write(io.BytesIO(), score=SCORE, outcomes=lambda *_: [1, 2])


def test_several_compilers_make_one_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as stream:
        recorded(tmp_path, runs=2).write(stream)
    assert [len(each) for each in read_log(log).contexts] == [3, 0, 12, 3, 0, 12]


def test_compilers_with_different_features_do_not_fit_into_one_log() -> None:
    recorder = Recorder()
    recorder.on_header(Header(features=FEATURES, advice=ADVICE))
    with pytest.raises(ChannelError, match="different features"):
        recorder.on_header(Header(features=FEATURES[:1], advice=ADVICE))


def test_where_nothing_was_asked_there_is_no_log() -> None:
    recorder = Recorder()
    assert recorder.is_empty
    with pytest.raises(ChannelError, match="nothing to record"):
        recorder.write(io.BytesIO())


@pytest.mark.llvm
@pytest.mark.spec("interactive-mode.recording")
def test_a_real_compile_is_recorded_decision_by_decision(clang: Path, tmp_path: Path) -> None:
    llvm = find_llvm(clang=clang)
    recorder = Recorder()
    result = host_clang(
        llvm, EVICTION, compile_command(llvm, tmp_path, EVICTION), seeded_advice(EVICTION, 1), listener=recorder
    )
    log = tmp_path / "log"
    with log.open("wb") as stream:
        recorder.write(stream)
    read = read_log(log)
    assert sum(map(len, read.contexts)) == result.decisions
    assert len(read.contexts) == result.contexts
    for each in read.contexts:
        chosen = each.features["index_to_evict"].reshape(-1)
        masks = each.features["mask"].reshape(len(each), -1)
        assert masks[np.arange(len(each)), chosen].all()
