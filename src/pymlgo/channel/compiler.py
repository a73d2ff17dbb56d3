"""The compiler as a process that talks: its pipe, its stderr and its end, each waited for with a limit."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence
from dataclasses import dataclass

from pymlgo.channel.pipes import Pipes
from pymlgo.errors import ChannelError
from pymlgo.toolchain.process import STDERR_TAIL_BYTES, Child


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long we wait, in wall seconds.

    Attributes:
        decision_s: from one message of the compiler to the next, or to its end. Code generation after the last decision
            counts here, and takes a minute for the largest files.
        compile_s: from its start to its end.
    """

    decision_s: float = 120.0
    compile_s: float = 600.0


class Compiler:
    """What a running compiler writes: its messages to whoever calls `receive`, the end of its stderr to `stderr`."""

    def __init__(self, process: Child, exited: int, pipes: Pipes, limits: Limits) -> None:
        self.stderr = bytearray()
        self._process = process
        self._exited = exited
        self._from_compiler = pipes.from_compiler
        self._limits = limits
        self._ends_at = time.monotonic() + limits.compile_s
        self._poller = select.poll()
        self._poller.register(pipes.from_compiler, select.POLLIN)
        self._poller.register(exited, select.POLLIN)
        self._stderr_end = -1
        if process.stderr is not None:
            self._stderr_end = process.stderr.fileno()
            os.set_blocking(self._stderr_end, False)
            self._poller.register(self._stderr_end, select.POLLIN)

    def receive(self, buffers: Sequence[bytearray | memoryview]) -> int:
        """Fill `buffers`, in order, with what the compiler wrote; the number of bytes, 0 once it has exited.

        Raises:
            ChannelError: it wrote nothing for `decision_s`, or did not finish within `compile_s`.
        """
        now = time.monotonic()
        ends_at = min(now + self._limits.decision_s, self._ends_at)
        while True:
            ready = self._poller.poll(max(0.0, ends_at - now) * 1000)
            for descriptor, _ in ready:
                if descriptor == self._from_compiler:
                    return os.readv(descriptor, buffers)
            if not ready:
                raise self._too_slow()
            for descriptor, _ in ready:
                if descriptor == self._stderr_end:
                    self._drain_stderr()
                elif descriptor == self._exited:
                    return self._last_words(buffers)
            now = time.monotonic()

    def finish(self) -> int:
        """The exit code of a compiler that has exited; the rest of its stderr is kept."""
        code = self._process.wait(self._limits.decision_s)
        while self._drain_stderr():
            pass
        return code

    def _last_words(self, buffers: Sequence[bytearray | memoryview]) -> int:
        # What was written between our look at the pipe and the exit is still in the pipe.
        try:
            return os.readv(self._from_compiler, buffers)
        except BlockingIOError:
            return 0

    def _drain_stderr(self) -> bool:
        if self._stderr_end < 0:
            return False
        try:
            chunk = os.read(self._stderr_end, 64 << 10)
        except BlockingIOError:
            return False
        if not chunk:
            self._poller.unregister(self._stderr_end)
            self._stderr_end = -1
        self.stderr += chunk
        del self.stderr[:-STDERR_TAIL_BYTES]
        return bool(chunk)

    def _too_slow(self) -> ChannelError:
        limits = self._limits
        if time.monotonic() >= self._ends_at:
            return ChannelError(
                f"the compiler did not finish within {limits.compile_s:g} s", hint="raise the limit of a compile"
            )
        return ChannelError(
            f"the compiler said nothing for {limits.decision_s:g} s", hint="raise the limit of a decision"
        )
