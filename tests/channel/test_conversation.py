"""A conversation that goes well: every context and decision arrives, every answer is the one that was given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fake_inliner import ADVICE, FEATURES, context, host_fake, inliner

from pymlgo.arrays import AnyArray
from pymlgo.channel import Observation, host, open_channel
from pymlgo.errors import ChannelError
from pymlgo.tensor_spec import TensorSpec
from pymlgo.testing import FakeCompiler, FakeContext
from pymlgo.training_log.header import Header


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.said: list[object] = []

    def on_header(self, header: Header) -> None:
        self.said.append(header)

    def on_context(self, name: str) -> None:
        self.said.append(name)

    def on_advice(self, observation: Observation, advice: AnyArray) -> None:
        self.said.append((observation.context, observation.number, advice.item()))


@pytest.mark.spec("interactive-mode.protocol")
def test_each_decision_brings_its_features_and_gets_its_own_answer(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int, list[float]]] = []

    def advise(observation: Observation) -> int:
        features = observation.features
        seen.append(
            (observation.context, observation.number, features["users"].item(), features["weights"].tolist()[0])
        )
        return len(seen)

    result = host_fake(inliner(), tmp_path, advise)
    expected = [("first", n, 10 * n, [n, 0.5, -1]) for n in range(3)]
    assert seen == expected + [("second", n, 10 * n, [n, 0.5, -1]) for n in range(12)]
    assert [each.item() for each in inliner().answers(tmp_path)] == list(range(1, 16))
    assert (result.returncode, result.headers, result.contexts, result.decisions) == (0, 1, 3, 15)
    assert result.cpu_s > 0


@pytest.mark.spec("interactive-mode.contexts")
def test_a_context_without_decisions_is_heard_of(tmp_path: Path) -> None:
    heard = Heard()
    host_fake(inliner(), tmp_path, lambda _: 1, listener=heard)
    header = Header(features=FEATURES, advice=ADVICE)
    first = [("first", n, 1) for n in range(3)]
    assert heard.said == [header, "first", *first, "empty", "second", *[("second", n, 1) for n in range(12)]]


@pytest.mark.spec("interactive-mode.contexts")
def test_a_context_that_comes_back_goes_on_counting(tmp_path: Path) -> None:
    compiler = inliner(contexts=(context("f", 2), context("g", 1), context("f", 1)))
    heard = Heard()
    host_fake(compiler, tmp_path, lambda _: 0, listener=heard)
    assert heard.said[-1] == ("f", 2, 0)


@pytest.mark.spec("interactive-mode.many-compilers")
def test_several_compilers_share_a_channel(tmp_path: Path) -> None:
    made_for: list[Header] = []

    def on_header(header: Header) -> object:
        made_for.append(header)
        return lambda _: len(made_for)

    compiler = inliner(runs=3)
    result = host(compiler.command(tmp_path), flags=compiler.flags, on_header=on_header)  # type: ignore[arg-type]
    assert (result.headers, result.contexts, result.decisions) == (3, 9, 45)
    assert [each.item() for each in compiler.answers(tmp_path)] == [1] * 15 + [2] * 15 + [3] * 15
    assert len(made_for) == 3


def test_no_flags_of_the_channel_no_conversation(tmp_path: Path) -> None:
    result = host(inliner(exit_code=4).command(tmp_path), lambda _: 0, flags=lambda _: ())
    assert (result.returncode, result.headers, result.decisions) == (4, 0, 0)


def test_a_name_with_every_kind_of_sign_arrives(tmp_path: Path) -> None:
    name = 'operator"" _x\\n\n\u20ac\x00{"observation":0}'
    heard = Heard()
    host_fake(inliner(contexts=(context(name, 1),)), tmp_path, lambda _: 0, listener=heard)
    assert heard.said[1:] == [name, (name, 0, 0)]


def test_features_are_windows_that_cannot_be_written(tmp_path: Path) -> None:
    windows: list[AnyArray] = []
    kept: list[dict[str, AnyArray]] = []

    def advise(observation: Observation) -> int:
        windows.append(observation.features["users"])
        kept.append(observation.snapshot())
        return 0

    host_fake(inliner(contexts=(context("", 3),)), tmp_path, advise)
    assert windows[0] is windows[2]
    assert [each["users"].item() for each in kept] == [0, 10, 20]
    with pytest.raises(ValueError, match="read-only"):
        windows[0][0] = 1


def test_raw_holds_the_tensors_as_they_came(tmp_path: Path) -> None:
    raw: list[bytes] = []
    host_fake(
        inliner(contexts=(context("", 2),)), tmp_path, lambda observation: raw.append(bytes(observation.raw)) or 0
    )
    assert raw[1] == np.int64(10).tobytes() + np.array([1, 0.5, -1], np.float32).tobytes()


@pytest.mark.parametrize("value", [1, True, 1.0, np.int64(1), np.float64(1), np.array(1), np.array([1]), [1], [[1]]])
def test_advice_is_a_number_or_an_array_that_fits(tmp_path: Path, value: object) -> None:
    compiler = inliner(contexts=(context("", 1),))
    host_fake(compiler, tmp_path, lambda _: value)
    assert [each.tolist() for each in compiler.answers(tmp_path)] == [[1]]


@pytest.mark.parametrize("kind", ["float", "double", "int8_t", "uint8_t", "int16_t", "uint32_t", "uint64_t"])
def test_advice_of_every_type_arrives(tmp_path: Path, kind: str) -> None:
    compiler = inliner(advice=TensorSpec("priority", kind, (1,)), contexts=(context("", 1),))
    host_fake(compiler, tmp_path, lambda _: 7)
    assert [each.tolist() for each in compiler.answers(tmp_path)] == [[7]]


def test_advice_may_have_several_elements(tmp_path: Path) -> None:
    compiler = inliner(advice=TensorSpec("many", "int32_t", (2, 2)), contexts=(context("", 1),))
    host_fake(compiler, tmp_path, lambda _: [1, 2, 3, 4])
    assert compiler.answers(tmp_path)[0].tolist() == [[1, 2], [3, 4]]


def test_tensors_beyond_the_size_of_a_pipe_arrive(tmp_path: Path) -> None:
    wide = TensorSpec("wide", "double", (100, 200))
    values = np.arange(20_000, dtype=np.float64).reshape(100, 200)
    compiler = FakeCompiler(
        features=(wide,), advice=ADVICE, contexts=(FakeContext(observations=[{"wide": values}, {"wide": values + 1}]),)
    )
    sums: list[float] = []
    host_fake(compiler, tmp_path, lambda observation: sums.append(observation.features["wide"].sum()) or 0)
    assert sums == [values.sum(), values.sum() + 20_000]


def test_a_channel_can_be_spoken_step_by_step(tmp_path: Path) -> None:
    compiler = inliner(contexts=(context("", 2),))
    with open_channel(compiler.command(tmp_path), flags=compiler.flags) as channel:
        with pytest.raises(ChannelError, match="asks nothing"):
            channel.answer(1)
        first = channel.observe()
        assert first is not None
        assert first.number == 0
        with pytest.raises(ChannelError, match="waits for an answer"):
            channel.observe()
        channel.answer(1)
        assert channel.observe() is first
        assert first.number == 1
        channel.answer(0)
        assert channel.observe() is None
        assert channel.finish().decisions == 2


def test_how_to_answer_is_said_once(tmp_path: Path) -> None:
    command, flags = inliner().command(tmp_path), inliner().flags
    with pytest.raises(ChannelError, match="give one of them"):
        host(command, flags=flags)
    with pytest.raises(ChannelError, match="give one of them"):
        host(command, lambda _: 0, flags=flags, on_header=lambda _: lambda _: 0)


def test_stderr_of_megabytes_does_not_block_and_its_end_is_kept(tmp_path: Path) -> None:
    result = host_fake(inliner(stderr_bytes=300_000), tmp_path, lambda _: 0)
    assert result.decisions == 15
    assert result.stderr.endswith(b"warns of everything\n")
    assert len(result.stderr) == 64 << 10


def test_stderr_may_be_left_to_the_caller(tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("wb") as stream:
        result = host_fake(inliner(stderr_bytes=10), tmp_path, lambda _: 0, stderr=stream)
    assert result.stderr == b""
    assert b"warns of everything" in (tmp_path / "stderr").read_bytes()
