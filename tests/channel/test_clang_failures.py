"""Real clangs at every moment at which something can go wrong; a clang whose host is gone would spin for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clang_hosting import compile_command, host_clang, seeded_advice

from process_table import MARK, alive_with, marked, wait_until_gone
from pymlgo.channel import Limits, Observation, host
from pymlgo.errors import ChannelError
from pymlgo.problem import EVICTION, INLINING
from pymlgo.toolchain.llvm import LLVM, find_llvm

pytestmark = pytest.mark.llvm


@pytest.fixture
def llvm(clang: Path) -> LLVM:
    return find_llvm(clang=clang)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    with marked() as mark:
        yield
        assert wait_until_gone(mark) == []


def signal_compiler(number: signal.Signals) -> None:
    """Send a signal to the clang that waits for us."""
    (compiler,) = alive_with(os.environ[MARK])
    os.kill(compiler, number)


def test_a_clang_that_is_killed_while_it_asks(llvm: LLVM, tmp_path: Path) -> None:
    def advise(observation: Observation) -> int:
        if observation.number == 2:
            signal_compiler(signal.SIGKILL)
        return 0

    with pytest.raises(ChannelError, match="died from SIGKILL after 3 decisions"):
        host_clang(llvm, INLINING, compile_command(llvm, tmp_path, INLINING), advise)


def test_a_clang_that_stands_still(llvm: LLVM, tmp_path: Path) -> None:
    def advise(observation: Observation) -> int:
        if observation.number == 2:
            signal_compiler(signal.SIGSTOP)
        return 0

    command = compile_command(llvm, tmp_path, INLINING)
    with pytest.raises(ChannelError, match="said nothing for 1 s"):
        host_clang(llvm, INLINING, command, advise, limits=Limits(decision_s=1.0))


def test_a_host_that_raises(llvm: LLVM, tmp_path: Path) -> None:
    def advise(observation: Observation) -> int:
        raise RuntimeError(f"decision {observation.number}")

    with pytest.raises(RuntimeError, match="decision 0"):
        host_clang(llvm, INLINING, compile_command(llvm, tmp_path, INLINING), advise)
    assert not (tmp_path / "out.o").exists()


def test_ctrl_c(llvm: LLVM, tmp_path: Path) -> None:
    def advise(observation: Observation) -> int:
        if observation.number == 2:
            signal_compiler(signal.SIGSTOP)
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        return 0

    with pytest.raises(KeyboardInterrupt):
        host_clang(llvm, INLINING, compile_command(llvm, tmp_path, INLINING), advise)


def test_an_index_outside_the_mask_never_reaches_clang(llvm: LLVM, tmp_path: Path) -> None:
    def outside(observation: Observation) -> int:
        return int((observation.features["mask"].reshape(-1) == 0).argmax())

    command = compile_command(llvm, tmp_path, EVICTION)
    with pytest.raises(ChannelError, match="must not be evicted, the mask allows"):
        host_clang(llvm, EVICTION, command, outside)
    result = host_clang(llvm, EVICTION, command, outside, fallback=seeded_advice(EVICTION, 1))
    assert (result.returncode, result.refused) == (0, result.decisions)


def test_a_clang_without_the_pipes_says_what_is_wrong(llvm: LLVM, tmp_path: Path) -> None:
    """It crashes after its message; the channel reports the exit and keeps the text."""
    command = compile_command(llvm, tmp_path, INLINING)
    result = host(command, lambda _: 0, flags=lambda _: INLINING.channel_flags(llvm, tmp_path / "nowhere"))
    assert result.returncode != 0
    assert b"Cannot open inbound file" in result.stderr


HOST = """
import sys, time
from pathlib import Path
from pymlgo.channel import host
from pymlgo.problem import INLINING
from pymlgo.toolchain.llvm import find_llvm

llvm = find_llvm(clang=sys.argv[1])

def advise(observation):
    if observation.number == 2:
        print("asked", flush=True)
        time.sleep(60)
    return 0

host(sys.argv[1:], advise, flags=lambda base: INLINING.channel_flags(llvm, base))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("sources", [1, 2])
def test_a_host_that_is_killed_leaves_no_clang_behind(
    llvm: LLVM, tmp_path: Path, sources: int, number: signal.Signals
) -> None:
    """With two sources the driver runs a compiler for each: the one that asks is a grandchild."""
    command = compile_command(llvm, tmp_path, INLINING)
    source = Path(command[4])
    more = [str(source.with_name(f"{index}.c")) for index in range(sources - 1)]
    for each in more:
        Path(each).write_text(source.read_text())
    command = [*command[:4], str(source), *more]
    with subprocess.Popen(
        [sys.executable, "-c", HOST, *command], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"asked\n"
        assert len(alive_with(os.environ[MARK])) >= 1 + sources
        process.send_signal(number)
        process.wait(20)
        started = time.monotonic()
        assert wait_until_gone(os.environ[MARK], within_s=10) == []
        assert time.monotonic() - started < 10
