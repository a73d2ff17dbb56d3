"""Child processes end with us, whatever ends us, and are never waited for without a limit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from process_table import alive_with, marked, wait_until_gone
from pymlgo.errors import ToolchainError
from pymlgo.toolchain.process import STDERR_TAIL_BYTES, child, run
from pymlgo.toolchain.sentinel import SENTINEL

SPIN = "while :; do :; done"
FAMILY = f"(setsid sh -c '{SPIN}') & (sh -c '{SPIN}') & {SPIN}"
"""A child with a grandchild in its group and one in another session, all at full speed."""


def test_run_gives_output_exit_code_and_cpu_seconds() -> None:
    finished = run(["sh", "-c", "echo out; echo err >&2; exit 7"], limit_s=10)
    assert (finished.stdout, finished.stderr, finished.returncode) == (b"out\n", b"err\n", 7)
    assert finished.command == ("sh", "-c", "echo out; echo err >&2; exit 7")


def test_cpu_seconds_count_grandchildren_and_not_waiting() -> None:
    busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    assert run(["sh", "-c", f"sh -c '{busy}'; true"], limit_s=20).cpu_s > 0.05
    assert run(["sleep", "0.3"], limit_s=20).cpu_s < 0.1


def test_a_signal_is_a_negative_exit_code() -> None:
    assert run(["sh", "-c", "kill -TERM $$"], limit_s=10).returncode == -signal.SIGTERM


def test_megabytes_in_and_out_do_not_block() -> None:
    data = os.urandom(3 << 20)
    assert run(["cat"], limit_s=20, input=data).stdout == data


def test_a_child_that_does_not_read_its_input_is_fine() -> None:
    assert run(["true"], limit_s=20, input=bytes(1 << 20)).returncode == 0


def test_of_stderr_the_end_is_kept() -> None:
    finished = run(["sh", "-c", "yes | head -c 3000000 >&2; echo last >&2"], limit_s=20)
    assert len(finished.stderr) == STDERR_TAIL_BYTES
    assert finished.stderr.endswith(b"last\n")


def test_the_limit_kills_the_whole_family() -> None:
    with marked() as mark:
        with pytest.raises(ToolchainError, match=r"sh did not finish within 0\.2 s") as caught:
            run(["sh", "-c", f"echo so far >&2; sh -c '{SPIN}' & {SPIN}"], limit_s=0.2)
        assert caught.value.stderr_tail == "so far\n"
        assert caught.value.command[0] == "sh"
        assert wait_until_gone(mark) == []


def test_what_a_child_leaves_behind_in_its_group_ends_with_it() -> None:
    with marked() as mark:
        assert run(["sh", "-c", f"sh -c '{SPIN}' & exit 0"], limit_s=10).returncode == 0
        assert wait_until_gone(mark) == []


def test_a_block_that_fails_ends_its_child() -> None:
    with marked() as mark:
        with contextlib.suppress(RuntimeError), child(["sh", "-c", SPIN]) as process:
            assert process.poll() is None
            raise RuntimeError
        assert process.returncode == -signal.SIGKILL
        assert wait_until_gone(mark) == []


def test_a_child_leads_its_own_session() -> None:
    with child(["sleep", "60"]) as process:
        assert os.getsid(process.pid) == process.pid != os.getsid(0)


def test_waiting_has_its_limit() -> None:
    with child(["sleep", "60"]) as process, pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)


def test_the_kernel_ends_a_child_that_uses_too_much_cpu() -> None:
    with child(["sh", "-c", SPIN], cpu_limit_s=0.5) as process:
        assert process.wait(20) in (-signal.SIGXCPU, -signal.SIGKILL)
        assert process.cpu_s >= 0.9


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([], "an empty command"),
        (["no-such-program-of-ours"], "no-such-program-of-ours cannot be started: No such file"),
        (["/etc/passwd"], "passwd cannot be started: Permission denied"),
        (["true", "nul\0byte"], "true cannot be started: embedded null byte"),
    ],
)
def test_what_cannot_start_is_one_clear_error(command: list[str], message: str) -> None:
    with pytest.raises(ToolchainError, match=message):
        run(command, limit_s=1)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"cannot be started in .*gone"):
        run(["true"], limit_s=1, cwd=tmp_path / "gone")


def test_threads_run_children_at_once() -> None:
    codes: list[int] = []
    threads = [
        threading.Thread(
            target=lambda code=code: codes.append(run(["sh", "-c", f"exit {code}"], limit_s=20).returncode)
        )
        for code in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == list(range(8))


HOST = """
import os, sys, time
from pymlgo.toolchain.process import child
with child(["sh", "-c", sys.argv[1]]):
    print("started", flush=True)
    time.sleep(60)
"""


def start_host(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    host = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE)
    assert host.stdout is not None
    assert host.stdout.readline() == b"started\n"
    return host


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_host_that_is_killed_takes_its_family_along(number: signal.Signals) -> None:
    with marked() as mark, start_host(HOST, FAMILY) as host:
        while len(alive_with(mark)) < 4:  # the host and the three spinners
            time.sleep(0.01)
        host.send_signal(number)
        host.wait(10)
        assert wait_until_gone(mark) == []


FORKING_HOST = """
import os, sys, time
from pymlgo.toolchain.process import child
with child(["sh", "-c", sys.argv[1]]):
    if os.fork() == 0:
        time.sleep(5)
        os._exit(0)
    print("started", flush=True)
    time.sleep(60)
"""


def test_a_forked_worker_does_not_keep_the_children_of_a_dead_host_alive() -> None:
    with marked() as mark, start_host(FORKING_HOST, SPIN) as host:
        host.kill()
        host.wait(10)
        time.sleep(1.5)
        assert [Path(f"/proc/{pid}/comm").read_text() for pid in alive_with(mark)] == ["python\n"]
        assert wait_until_gone(mark, within_s=10) == []


def test_a_sentinel_that_somebody_ended_is_replaced() -> None:
    run(["true"], limit_s=10)
    before = SENTINEL.pid
    os.kill(before, signal.SIGKILL)
    time.sleep(0.1)
    run(["true"], limit_s=10)
    assert SENTINEL.pid not in (0, before)
