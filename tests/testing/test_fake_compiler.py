"""The fake compiler speaks as clang does: the same bytes, the same order, the same stubbornness."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from pymlgo.channel import host
from pymlgo.errors import SpecError
from pymlgo.tensor_spec import TensorSpec
from pymlgo.testing import FakeCompiler, FakeContext, Fault
from pymlgo.training_log.reader import read_log

FEATURE = TensorSpec("callee_users", "int64_t", (1,))
ADVICE = TensorSpec("inlining_decision", "int64_t", (1,))


def fake(**settings: object) -> FakeCompiler:
    contexts = (FakeContext(observations=[{"callee_users": 3}, {"callee_users": 1}]),)
    return FakeCompiler(**{"features": (FEATURE,), "advice": ADVICE, "contexts": contexts, **settings})  # type: ignore[arg-type]


def test_the_example_of_its_documentation(tmp_path: Path) -> None:
    compiler = fake()
    result = host(compiler.command(tmp_path), lambda observation: 1, flags=compiler.flags)
    assert result.decisions == 2
    assert [each.item() for each in compiler.answers(tmp_path)] == [1, 1]


def test_without_a_host_it_replays_answers_from_a_file_as_clang_does(tmp_path: Path) -> None:
    (tmp_path / "ch.in").write_bytes((5).to_bytes(8, "little") + (6).to_bytes(8, "little"))
    compiler = fake()
    subprocess.run([*compiler.command(tmp_path), *compiler.flags(tmp_path / "ch")], check=True, timeout=30)
    assert [each.item() for each in compiler.answers(tmp_path)] == [5, 6]
    assert (tmp_path / "ch.out").read_bytes() == (
        b'{"features":[{"name":"callee_users","type":"int64_t","port":0,"shape":[1]}],'
        b'"advice":{"name":"inlining_decision","type":"int64_t","port":0,"shape":[1]}}\n'
        b'{"context":""}\n'
        b'{"observation":0}\n\3\0\0\0\0\0\0\0\n{"observation":1}\n\1\0\0\0\0\0\0\0\n'
    )
    assert len(read_log(tmp_path / "ch.out").contexts[0]) == 2


def test_it_spins_when_its_advice_does_not_come_as_clang_does(tmp_path: Path) -> None:
    (tmp_path / "ch.in").write_bytes(b"")
    command = [*fake().command(tmp_path), *fake().flags(tmp_path / "ch")]
    with subprocess.Popen(command) as process:
        time.sleep(0.5)
        assert process.poll() is None
        process.kill()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = -9
    assert usage.ru_utime + usage.ru_stime > 0.05


def test_it_writes_to_stdout_and_exits_as_told(tmp_path: Path) -> None:
    done = subprocess.run(fake(stdout=b"\x00out", exit_code=9).command(tmp_path), capture_output=True, check=False)
    assert (done.stdout, done.returncode) == (b"\x00out", 9)


def test_a_fault_may_come_later(tmp_path: Path) -> None:
    compiler = fake(fault=Fault(moment="question", effect="exit", after=1), exit_code=4)
    result = host(compiler.command(tmp_path), lambda _: 1, flags=compiler.flags)
    assert (result.returncode, result.decisions) == (4, 2)
    assert len(compiler.answers(tmp_path)) == 1


def test_an_observation_without_a_feature_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="callee_users"):
        fake(contexts=(FakeContext(observations=[{}]),)).command(tmp_path)
