"""Child processes that end with us: own session and group, never waited for without a limit, CPU seconds counted."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

from pymlgo.errors import ToolchainError
from pymlgo.toolchain.sentinel import SENTINEL

Argument: TypeAlias = str | bytes | Path
Stream: TypeAlias = int | IO[bytes] | None

STDERR_TAIL_BYTES = 64 << 10
"""How much of the end of a child's stderr is kept; a crash report of clang is below 20 KiB."""

DYING_S = 10.0
"""How long a killed process may take to go; longer means that the kernel holds it, e.g. on a dead network disk."""


class Child(subprocess.Popen[bytes]):
    """A `Popen` whose process group ends when its leader does, and that knows the CPU seconds that were used."""

    cpu_s: float = 0.0
    """CPU seconds of the child and of all children that it waited for; known once `returncode` is."""

    def poll(self) -> int | None:
        """The exit code, or None while the child runs."""
        if self.returncode is None and self._has_exited():
            self._reap()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; negative for a signal, as Popen has it.

        Raises:
            subprocess.TimeoutExpired: the child still runs after `timeout` seconds.
        """
        if self.returncode is None:
            with opened_pidfd(self.pid) as descriptor:
                ready, _, _ = select.select([descriptor], [], [], timeout)
            if not ready:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self._reap()
        return self.returncode

    def kill_group(self) -> None:
        """Kill the child and everything in its group; nothing happens once it was waited for."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS and old kernels: only zombies left
                os.killpg(self.pid, signal.SIGKILL)

    def _has_exited(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _reap(self) -> None:
        # While its leader is a zombie, the group's number cannot be given to a stranger: kill first, reap after.
        self.kill_group()
        _, status, usage = os.wait4(self.pid, 0)
        self.cpu_s = usage.ru_utime + usage.ru_stime
        self.returncode = os.waitstatus_to_exitcode(status)


@contextmanager
def opened_pidfd(pid: int) -> Iterator[int]:
    """A descriptor that is readable once the process `pid` has exited."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def child(
    command: Sequence[Argument],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = None,
    stderr: Stream = None,
    pass_fds: Sequence[int] = (),
    cpu_limit_s: float | None = None,
) -> Iterator[Child]:
    """A running child that is gone, with everything it started, when the block ends; in whatever way it ends.

    The child leads its own session and group. Should this process be killed, the sentinel kills the child and its
    descendants (`toolchain/sentinel.py`).

    Args:
        command: program and arguments; the program is looked up in PATH.
        cwd: working directory; ours by default.
        env: environment; ours by default.
        stdin: as for `Popen`; empty by default.
        stdout: as for `Popen`; ours by default.
        stderr: as for `Popen`; ours by default.
        pass_fds: descriptors that the child inherits.
        cpu_limit_s: CPU seconds after which the kernel kills the process; a second net under the caller's own limit.

    Raises:
        ToolchainError: the program cannot be started, or the kernel does not let it die.
    """
    process = _start(command, cwd, env, (stdin, stdout, stderr), pass_fds)
    try:
        if cpu_limit_s is not None:
            _limit_cpu(process.pid, cpu_limit_s)
        yield process
    finally:
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        process.kill_group()
        try:
            process.wait(DYING_S)
        except subprocess.TimeoutExpired as error:
            raise ToolchainError(
                f"{shown_program(command)} was killed and is still there after {DYING_S:g} s (process {process.pid})",
                command=shown(command),
            ) from error


def _start(
    command: Sequence[Argument],
    cwd: Path | None,
    env: Mapping[str, str] | None,
    streams: tuple[Stream, Stream, Stream],
    pass_fds: Sequence[int],
) -> Child:
    if not command:
        raise ToolchainError("an empty command cannot be run")
    stdin, stdout, stderr = streams
    try:
        return Child(
            [os.fspath(each) for each in command],
            cwd=cwd,
            env=SENTINEL.marked(os.environ if env is None else env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        where = f" in {cwd}" if cwd else ""
        raise ToolchainError(
            f"{shown_program(command)} cannot be started{where}: {reason}",
            command=shown(command),
            hint="is it installed, and does the folder exist?" if isinstance(error, FileNotFoundError) else None,
        ) from error


def _limit_cpu(pid: int, seconds: float) -> None:
    soft = max(1, int(seconds) + 1)
    # The child may be gone already, and a sandbox may forbid it; the limits that we keep ourselves still hold.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        resource.prlimit(pid, resource.RLIMIT_CPU, (soft, soft + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A command that ran to its end; `stderr` holds the last `STDERR_TAIL_BYTES` of what it wrote there."""

    command: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    cpu_s: float


def run(
    command: Sequence[Argument],
    *,
    limit_s: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: bytes | None = None,
) -> Finished:
    """What `command` wrote and how it ended; a non-zero exit code is the caller's to judge.

    Args:
        command: program and arguments; the program is looked up in PATH.
        limit_s: wall seconds after which the whole process group is killed.
        cwd: working directory; ours by default.
        env: environment; ours by default.
        input: what its stdin holds; nothing by default.

    Raises:
        ToolchainError: it cannot be started, or it passed the limit.
    """
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    with child(
        command, cwd=cwd, env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cpu_limit_s=None
    ) as process:
        stdout, stderr = bytearray(), bytearray()
        if not _exchange(process, input or b"", stdout, stderr, limit_s):
            raise ToolchainError(
                f"{shown_program(command)} did not finish within {limit_s:g} s",
                command=shown(command),
                stderr_tail=stderr.decode(errors="replace"),
            )
        return Finished(
            command=shown(command),
            returncode=process.returncode,
            stdout=bytes(stdout),
            stderr=bytes(stderr),
            cpu_s=process.cpu_s,
        )


def _exchange(process: Child, given: bytes, stdout: bytearray, stderr: bytearray, limit_s: float) -> bool:
    """Feed stdin and drain both outputs until the child is gone; whether that came within the limit."""
    ends_at = time.monotonic() + limit_s
    left = memoryview(given)
    with opened_pidfd(process.pid) as exited, selectors.DefaultSelector() as selector:
        selector.register(exited, selectors.EVENT_READ)
        for stream, kept in ((process.stdout, stdout), (process.stderr, stderr)):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ, kept)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while process.returncode is None:
            ready = selector.select(max(0.0, ends_at - time.monotonic()))
            if not ready:
                return False
            for key, _ in ready:
                if key.fileobj == exited:
                    process.poll()
                elif key.fileobj is process.stdin:
                    left = _feed(selector, process.stdin, left)
                elif not _drain(key.fd, key.data, stderr):
                    selector.unregister(key.fileobj)
    for stream, kept in ((process.stdout, stdout), (process.stderr, stderr)):
        while stream is not None and _drain(stream.fileno(), kept, stderr):
            pass
    return True


def _feed(selector: selectors.BaseSelector, stdin: IO[bytes], left: memoryview) -> memoryview:
    """Write what the pipe takes of `left`; the rest of it, and an end of file once nothing is left."""
    try:
        left = left[os.write(stdin.fileno(), left[: 64 << 10]) :]
    except BrokenPipeError:
        left = left[:0]  # it reads no further
    if not left:
        selector.unregister(stdin)
        stdin.close()
    return left


def _drain(descriptor: int, kept: bytearray, bounded: bytearray) -> bool:
    """Read what is there into `kept`, of which only the tail stays if it is `bounded`; False at its end."""
    try:
        chunk = os.read(descriptor, 64 << 10)
    except BlockingIOError:
        return False
    kept += chunk
    if kept is bounded:
        del kept[:-STDERR_TAIL_BYTES]
    return bool(chunk)


def shown(command: Sequence[Argument]) -> tuple[str, ...]:
    """The command as text, for errors and records."""
    return tuple(os.fsdecode(each) for each in command)


def shown_program(command: Sequence[Argument]) -> str:
    """The program's name without its folder."""
    return Path(os.fsdecode(command[0])).name if command else "nothing"
