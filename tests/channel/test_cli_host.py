"""`mlgo host`: the document's interactive host as a command."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from clang_hosting import compile_command

from pymlgo.problem import EVICTION, INLINING, default_flags
from pymlgo.toolchain.llvm import find_llvm
from pymlgo.training_log.reader import read_log

pytestmark = pytest.mark.llvm

RunMlgo = Callable[..., tuple[int, str, str]]


@pytest.mark.spec("interactive-mode.host")
@pytest.mark.spec("interactive-mode.recording")
def test_default_is_recorded_and_changes_no_byte(run_mlgo: RunMlgo, clang: Path, tmp_path: Path) -> None:
    command = compile_command(find_llvm(clang=clang), tmp_path, INLINING)
    subprocess.run(command, check=True)
    plain = (tmp_path / "out.o").read_bytes()
    log = tmp_path / "log"
    code, out, err = run_mlgo("host", "--default", "--record", log, "--", *command)
    assert (code, out) == (0, "")
    assert "inlining: 16 decisions in 1 context" in err
    assert (tmp_path / "out.o").read_bytes() == plain
    context = read_log(log).contexts[0]
    assert len(context) == 16
    assert (context.features["inlining_decision"] == context.features["inlining_default"]).all()


def test_json_is_the_result(run_mlgo: RunMlgo, clang22: Path, tmp_path: Path) -> None:
    command = compile_command(find_llvm(clang=clang22), tmp_path, INLINING)
    code, out, _ = run_mlgo("host", "--json", "--core", "none", "--", *command)
    answer = json.loads(out)
    assert code == 0
    assert answer["schema"] == "pymlgo/host-1"
    assert (answer["problem"], answer["returncode"], answer["decisions"], answer["headers"]) == ("inlining", 0, 16, 1)
    assert answer["record"] is None


@pytest.mark.spec("interactive-mode.host")
def test_a_policy_answers(run_mlgo: RunMlgo, clang: Path, tmp_path: Path) -> None:
    from pymlgo.policy.directory import save_policy
    from pymlgo.policy.shapes import constant_policy

    policy = tmp_path / "policy"
    save_policy(constant_policy("inlining", INLINING.advice, 0), policy)
    log = tmp_path / "log"
    command = compile_command(find_llvm(clang=clang), tmp_path, INLINING)
    assert run_mlgo("host", "--policy", policy, "--record", log, "--", *command)[0] == 0
    context = read_log(log).contexts[0]
    assert len(context) > 0
    assert not context.features["inlining_decision"].any()
    assert context.features["callee_basic_block_count"].max() > 1
    code, _, err = run_mlgo("host", "--policy", policy, "--problem", "eviction", "--", *command)
    assert code == 1
    assert "the policy decides inlining, not eviction" in err


def test_a_compile_error_is_the_compilers_exit_code_and_leaves_no_log(
    run_mlgo: RunMlgo, clang22: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    code, _, err = run_mlgo("host", "--record", log, "--", clang22, "-c", tmp_path / "gone.c")
    assert code == 1
    assert "no such file" in err
    assert not log.exists()


def test_nothing_asked_is_nothing_recorded(run_mlgo: RunMlgo, clang22: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = compile_command(find_llvm(clang=clang22), tmp_path, INLINING, level="-O0")
    code, _, err = run_mlgo("host", "--record", log, "--", *command)
    assert code == 1
    assert "error: there is nothing to record" in err
    assert not log.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "either a command after -- or --channel-base"),
        (["--channel-base", "ch", "--", "clang-22"], 2, "either a command after -- or --channel-base"),
        (
            ["--problem", "eviction", "--", "clang-22"],
            2,
            "LLVM does not say what its own decision would be for eviction",
        ),
        (["--core", "fast", "--", "clang-22"], 2, "--core: expected a core's number"),
        (["--core", "4095", "--", "clang-22", "-c", "x.c"], 1, "core 4095 is not open to this process"),
        (["--", "no-such-clang"], 3, "no-such-clang"),
        (["--", "clang-14", "-c", "x.c"], 3, "no interactive channel"),
        (["--policy", "gone", "--", "clang-22"], 1, "there is no policy 'gone'"),
        (["--channel-base", "gone/ch"], 1, "gone/ch.in cannot be made"),
        (["--policy", "p", "--default", "--", "clang-22"], 2, "not allowed with"),
        (["--problem", "spilling"], 2, "invalid choice"),
    ],
)
def test_wrong_usage_is_one_line_and_the_right_code(
    run_mlgo: RunMlgo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clang14: Path, arguments: list[str], code: int,
    message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    found, out, err = run_mlgo("host", *arguments)
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


@pytest.mark.spec("interactive-mode.host")
def test_a_compiler_that_was_started_elsewhere_is_served(run_mlgo: RunMlgo, clang22: Path, tmp_path: Path) -> None:
    llvm = find_llvm(clang=clang22)
    base, log = tmp_path / "ch", tmp_path / "log"
    command = [*compile_command(llvm, tmp_path, INLINING), *default_flags(INLINING, llvm, base)]
    timer = threading.Timer(0.5, subprocess.run, [command])
    timer.start()
    code, _, err = run_mlgo("host", "--channel-base", base, "--record", log, "--linger", "0.5")
    timer.join()
    assert code == 0
    assert "inlining: 16 decisions" in err
    assert len(read_log(log).contexts[0]) == 16


def test_nobody_comes(run_mlgo: RunMlgo, tmp_path: Path) -> None:
    code, _, err = run_mlgo("host", "--channel-base", tmp_path / "ch", "--wait", "0.2")
    assert code == 1
    assert "error: no compiler came" in err
    assert "hint: start clang with" in err


def test_the_compilers_output_is_its_own(clang22: Path, tmp_path: Path) -> None:
    command = compile_command(find_llvm(clang=clang22), tmp_path, EVICTION)
    mlgo = [sys.executable, "-m", "pymlgo.cli.main", "host"]
    words = [*command[:-1], "-"]
    done = subprocess.run([*mlgo, "--", *words], capture_output=True, check=True)
    assert done.stdout.startswith(b"\x7fELF")
    asked = subprocess.run([*mlgo, "--json", "--", *words], capture_output=True, check=True)
    assert json.loads(asked.stdout)["returncode"] == 0
