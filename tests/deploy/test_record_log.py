"""`mlgo log record`: training logs with outcomes from a stock clang."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import llvm_with_plugin  # isort: skip
from deployed_builds import SOURCE  # isort: skip

from pymlgo.corpus.objects import function_sizes
from pymlgo.deploy.record import record
from pymlgo.errors import LogError
from pymlgo.toolchain.llvm import LLVM
from pymlgo.training_log import read_log

pytestmark = pytest.mark.llvm


@pytest.fixture(scope="module", params=["clang-22", "clang-19"])
def llvm(request: pytest.FixtureRequest) -> LLVM:
    return llvm_with_plugin(str(request.param))


@pytest.mark.spec("deploy.record")
def test_each_decision_has_its_callers_size(llvm: LLVM, tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text(SOURCE)
    output = tmp_path / "x.o"
    done = record(llvm, ["-Oz", "-c", str(tmp_path / "x.c"), "-o", str(output)], tmp_path / "log")
    assert done.returncode == 0
    assert done.backend == "plugin"
    log = read_log(done.log)
    assert log.error is None
    assert log.header.extra["backend"] == "plugin"
    (context,) = log.contexts
    sizes = function_sizes(output.read_bytes())
    decisions = [json.loads(line) for line in done.decisions_file.read_text().splitlines()]
    assert len(decisions) == len(context) == done.observations > 5
    assert context.outcomes is not None
    assert [int(each) for each in context.outcomes.reshape(-1)] == [sizes.get(each["caller"], 0) for each in decisions]
    assert (context.features["inlining_default"] == context.features["inlining_decision"]).all()


def test_a_compile_without_decisions(llvm: LLVM, tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text(SOURCE)
    with pytest.raises(LogError, match="no decision"):
        record(llvm, ["-O0", "-c", str(tmp_path / "x.c"), "-o", str(tmp_path / "x.o")], tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_the_command_line(llvm: LLVM, tmp_path: Path, run_mlgo) -> None:
    (tmp_path / "x.c").write_text(SOURCE)
    log = tmp_path / "log"
    code, out, _ = run_mlgo(
        "log", "record", "-o", log, "--json", "--", llvm.clang, "-Oz", "-c", tmp_path / "x.c", "-o", tmp_path / "x.o"
    )
    assert code == 0
    assert json.loads(out)["observations"] > 5
    code, out, _ = run_mlgo("log", "stats", log, "--json")
    assert code == 0
