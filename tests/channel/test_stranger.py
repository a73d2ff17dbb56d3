"""Serving compilers that somebody else starts: they come late, twice, badly or not at all."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from clang_hosting import compile_command
from fake_inliner import context, inliner

from pymlgo.channel import Observation
from pymlgo.channel.stranger import Patience, serve
from pymlgo.errors import ChannelError
from pymlgo.problem import INLINING, default_advice, default_flags
from pymlgo.testing import FakeCompiler, Fault
from pymlgo.toolchain.llvm import find_llvm

SHORT = Patience(first_s=20.0, next_s=0.5, decision_s=20.0)


@contextmanager
def started(command: list[str], after_s: float = 0.0, **options: object) -> Iterator[list[int]]:
    """Start `command` a little later; its exit code is in the list at the end of the block."""
    codes: list[int] = []

    def start() -> None:
        time.sleep(after_s)
        codes.append(subprocess.run(command, check=False, timeout=60, **options).returncode)  # type: ignore[call-overload]

    thread = threading.Thread(target=start)
    thread.start()
    try:
        yield codes
    finally:
        thread.join()


def command_for(compiler: FakeCompiler, folder: Path) -> list[str]:
    return [*compiler.command(folder), *compiler.flags(folder / "ch")]


@pytest.mark.spec("interactive-mode.host")
def test_a_compiler_that_comes_is_served_and_the_pipes_are_gone_afterwards(tmp_path: Path) -> None:
    compiler = inliner()
    # A compiler needs the pipes before it starts: here they are made before it comes.
    with started(command_for(compiler, tmp_path), after_s=0.5) as codes:
        served = serve(tmp_path / "ch", lambda observation: observation.number, patience=SHORT)
    assert codes == [0]
    assert (served.headers, served.contexts, served.decisions, served.refused) == (1, 3, 15, 0)
    assert [each.item() for each in compiler.answers(tmp_path)] == [*range(3), *range(12)]
    assert not list(tmp_path.glob("ch.*"))


def test_pipes_that_are_there_are_used_and_stay(tmp_path: Path) -> None:
    for end in (".in", ".out"):
        os.mkfifo(tmp_path / f"ch{end}")
    with started(command_for(inliner(), tmp_path)) as codes:  # it may come before us
        assert serve(tmp_path / "ch", lambda _: 0, patience=SHORT).decisions == 15
    assert codes == [0]
    assert len(list(tmp_path.glob("ch.*"))) == 2


def test_compilers_may_come_one_after_the_other(tmp_path: Path) -> None:
    with started(command_for(inliner(runs=3), tmp_path), after_s=0.3) as codes:
        served = serve(tmp_path / "ch", lambda _: 0, patience=Patience(first_s=20.0, next_s=5.0))
    assert codes == [0]
    assert (served.headers, served.decisions) == (3, 45)


def test_nobody_comes(tmp_path: Path) -> None:
    before = time.process_time()
    with pytest.raises(ChannelError, match=r"no compiler came to .*ch\.in and .*ch\.out within 0\.5 s") as caught:
        serve(tmp_path / "ch", lambda _: 0, patience=Patience(first_s=0.5))
    assert "interactive-channel-base" in str(caught.value.hint)
    assert time.process_time() - before < 0.2
    assert not list(tmp_path.glob("ch.*"))


def test_a_compiler_that_opens_the_channel_and_says_nothing_does_not_make_us_spin(tmp_path: Path) -> None:
    silent = inliner(fault=Fault(moment="opened", effect="exit"), exit_code=2)
    before = time.process_time()
    with started(command_for(silent, tmp_path), after_s=0.3), pytest.raises(ChannelError, match="no compiler came"):
        serve(tmp_path / "ch", lambda _: 0, patience=Patience(first_s=1.5))
    assert time.process_time() - before < 0.3


def test_a_compiler_that_goes_away_in_a_message(tmp_path: Path) -> None:
    dying = inliner(fault=Fault(moment="observation", effect="kill", after=2))
    with (
        started(command_for(dying, tmp_path), after_s=0.3),
        pytest.raises(ChannelError, match="went away in the middle"),
    ):
        serve(tmp_path / "ch", lambda _: 0, patience=SHORT)


def test_a_compiler_that_falls_silent(tmp_path: Path) -> None:
    slow = inliner(fault=Fault(moment="context", effect="silence"))
    for end in (".in", ".out"):
        os.mkfifo(tmp_path / f"ch{end}")
    with subprocess.Popen(command_for(slow, tmp_path)) as process:
        with pytest.raises(ChannelError, match=r"said nothing for 0\.5 s"):
            serve(tmp_path / "ch", lambda _: 0, patience=Patience(decision_s=0.5))
        process.kill()


def test_a_host_that_fails_lets_its_compiler_go(tmp_path: Path) -> None:
    """A compiler that waits for advice would spin for ever; it ends at its next message instead."""

    def advise(observation: Observation) -> int:
        if observation.number == 1:
            raise RuntimeError("mine")
        return 0

    command = command_for(inliner(contexts=(context("", 9),)), tmp_path)
    with started(command, after_s=0.3) as codes, pytest.raises(RuntimeError, match="mine"):
        serve(tmp_path / "ch", advise, patience=SHORT)
    assert codes[0] != 0


@pytest.mark.parametrize("end", [".in", ".out"])
def test_a_file_that_is_no_pipe_is_named(tmp_path: Path, end: str) -> None:
    (tmp_path / f"ch{end}").write_text("data")
    with pytest.raises(ChannelError, match=rf"ch{end} exists and is no named pipe"):
        serve(tmp_path / "ch", lambda _: 0)
    assert (tmp_path / f"ch{end}").read_text() == "data"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match=r"cannot be made: No such file"):
        serve(tmp_path / "gone" / "ch", lambda _: 0)


@pytest.mark.llvm
@pytest.mark.spec("interactive-mode.host")
def test_a_real_clang_that_somebody_else_starts(clang: Path, tmp_path: Path) -> None:
    llvm = find_llvm(clang=clang)
    command = compile_command(llvm, tmp_path, INLINING)
    subprocess.run(command, check=True)
    plain = (tmp_path / "out.o").read_bytes()
    with started([*command, *default_flags(INLINING, llvm, tmp_path / "ch")], after_s=0.3) as codes:
        served = serve(
            tmp_path / "ch",
            on_header=lambda header: default_advice(INLINING, header),
            correct=INLINING.correction(llvm),
            patience=SHORT,
        )
    assert codes == [0]
    assert served.decisions > 0
    assert (tmp_path / "out.o").read_bytes() == plain
