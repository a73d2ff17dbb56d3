"""A Python program as the compiler: its end of the pipes, against our host and against a host that leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from interactive_hosts import answering

from policy_samples import SCALARS, observations, row, sample_policies
from pymlgo import InteractiveModelRunner, TensorSpec
from pymlgo.channel import host
from pymlgo.errors import ChannelError
from pymlgo.training_log import LogWriter, read_log

ADVICE = TensorSpec("inlining_decision", "int64_t", (1,))

COMPILER = """
    import sys
    from pathlib import Path

    import numpy as np

    from pymlgo import InteractiveModelRunner, TensorSpec

    inputs = [TensorSpec("callee_users", "int64_t", (1,)), TensorSpec("weights", "float", (2, 3))]
    advice = TensorSpec("priority", "float", (1,))
    with InteractiveModelRunner(inputs, advice, Path(sys.argv[1])) as runner:
        for context in ("main", "no decision", "f", "main"):
            runner.switch_context(context)
            for number in range(0 if context == "no decision" else 12):
                runner.get_tensor(0)[0] = number
                runner.get_tensor(1)[...] = number / 2
                assert runner.evaluate() == number * 2.5, number
"""


@pytest.mark.spec("model-runner.interactive")
def test_our_host_answers_a_python_compiler(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []

    def advise(observation) -> float:
        seen.append((observation.context, observation.number))
        assert observation.features["weights"].shape == (2, 3)
        return float(observation.features["callee_users"][0] + observation.features["weights"].sum() / 2)

    command = [sys.executable, "-c", textwrap.dedent(COMPILER)]
    result = host(command, advise, flags=lambda base: [str(base)])
    assert (result.returncode, result.decisions) == (0, 36), result.stderr
    # A context that comes back is counted on, as LLVM's logger does.
    assert seen[:2] == [("main", 0), ("main", 1)]
    assert seen[-1] == ("main", 23)


def test_a_policy_answers_as_it_decides(tmp_path: Path) -> None:
    policy = sample_policies()["upstream_inliner"]
    decide = policy.bind(SCALARS)
    batch = observations(policy, 50)
    with answering(tmp_path, decide) as make:
        runner = make(SCALARS, ADVICE)
        runner.switch_context("")
        for index in range(50):
            observed = row(batch, index)
            for place, spec in enumerate(SCALARS):
                runner.get_tensor(place)[...] = observed[spec.name]
            assert runner.evaluate() == decide(observed).item()


def test_files_in_the_place_of_pipes_replay_a_conversation(tmp_path: Path) -> None:
    (tmp_path / "c.in").write_bytes(np.asarray([5, 0, 7]).tobytes())
    with InteractiveModelRunner(SCALARS, ADVICE, tmp_path / "c") as runner:
        runner.switch_context("")
        for expected in (5, 0, 7):
            runner.get_tensor(0)[0] = expected
            assert runner.evaluate() == expected
        with pytest.raises(ChannelError, match=r"c\.in ended after 0 of 8 bytes"):
            runner.evaluate()
    log = read_log(tmp_path / "c.out")
    assert log.error is None
    assert log.header.advice == ADVICE
    assert log.header.score is None
    assert [context.features["callee_users"].ravel().tolist() for context in log.contexts] == [[5, 0, 7, 7]]


def test_the_wire_is_what_the_log_writer_writes(tmp_path: Path) -> None:
    (tmp_path / "c.in").write_bytes(bytes(8))
    with InteractiveModelRunner(SCALARS, ADVICE, tmp_path / "c") as runner:
        runner.switch_context("f")
        runner.evaluate()
    with (tmp_path / "expected").open("wb") as stream:
        writer = LogWriter(stream, read_log(tmp_path / "c.out").header)
        writer.context("f")
        writer.observation({spec.name: np.zeros(1, np.int64) for spec in SCALARS})
    assert (tmp_path / "c.out").read_bytes() == (tmp_path / "expected").read_bytes()
    assert (
        (tmp_path / "c.out").read_bytes().startswith(b'{"features":[{"name":"callee_users","type":"int64_t","port":0,')
    )


def test_a_host_that_leaves_is_an_error(tmp_path: Path) -> None:
    for end in (".in", ".out"):
        os.mkfifo(tmp_path / f"c{end}")

    def leaves() -> None:
        with (tmp_path / "c.in").open("wb"), (tmp_path / "c.out").open("rb") as questions:
            questions.readline()

    thread = threading.Thread(target=leaves)
    thread.start()
    runner = InteractiveModelRunner(SCALARS, ADVICE, tmp_path / "c")
    thread.join(10)
    with pytest.raises(ChannelError, match="the host left"):
        runner.switch_context("f")
    with pytest.raises(ChannelError, match=r"the host left|needs a context"):
        runner.evaluate()
    runner.close()


def test_a_short_answer_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "c.in").write_bytes(b"123")
    with InteractiveModelRunner(SCALARS, ADVICE, tmp_path / "c") as runner:
        runner.switch_context("")
        with pytest.raises(ChannelError, match="ended after 3 of 8 bytes"):
            runner.evaluate()


def test_pipes_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match=r"missing\.in: cannot be opened") as caught:
        InteractiveModelRunner(SCALARS, ADVICE, tmp_path / "missing")
    assert "the host makes both pipes" in str(caught.value.hint)


@pytest.mark.llvm
def test_a_real_clang_s_conversation_is_repeated_byte_for_byte(clang: Path, tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text(
        "static int twice(int x) { return x + x; }\n"
        "static int square(int x) { for (int i = 0; i < x; i++) x += twice(x); return x * x; }\n"
        "int first(int x) { return square(x) + square(x + 1) + twice(x); }\n"
    )
    (tmp_path / "clang.in").symlink_to("/dev/zero")
    flags = [
        "-mllvm",
        "-enable-ml-inliner=release",
        "-mllvm",
        f"-inliner-interactive-channel-base={tmp_path / 'clang'}",
    ]
    command = [clang, "-O2", "-c", tmp_path / "x.c", "-o", tmp_path / "x.o", *flags]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    said = read_log(tmp_path / "clang.out")
    assert said.error is None
    (context,) = said.contexts
    assert len(context) > 2
    assert said.header.advice is not None
    (tmp_path / "python.in").write_bytes(bytes(8 * len(context)))
    with InteractiveModelRunner(said.header.features, said.header.advice, tmp_path / "python") as runner:
        runner.switch_context(context.name)
        for index in range(len(context)):
            for place, spec in enumerate(runner.inputs):
                runner.get_tensor(place)[...] = context.features[spec.name][index]
            assert runner.evaluate() == 0
    assert (tmp_path / "python.out").read_bytes() == (tmp_path / "clang.out").read_bytes()
