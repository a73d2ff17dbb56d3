"""The watch over a compiler: its end, its stderr and its silence, while another thread talks with it.

The thread that talks reads the pipe with a plain blocking read; all waiting with limits is done here, since a poll
before each read would be one more system call at every decision.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pymlgo.channel.conversation import Conversation
from pymlgo.channel.pipes import Pipes
from pymlgo.channel.reader import END_MARK
from pymlgo.errors import ChannelError
from pymlgo.toolchain.process import STDERR_TAIL_BYTES, Child, opened_pidfd

LOOKS_PER_LIMIT = 4
"""How often within `decision_s` the watch looks whether the compiler said something."""

STRANGER_S = 1.0
"""How long the end of file may take after the compiler's end: it needs no time where nobody else has the pipe open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long we wait, in wall seconds.

    Attributes:
        decision_s: from one message of the compiler to the next, or to its end; noticed within a quarter of it. Code
            generation after the last decision counts here, and takes a minute for the largest files. The time that we
            take for an answer does not count.
        compile_s: from its start to its end, our answers included.
    """

    decision_s: float = 120.0
    compile_s: float = 600.0


class Watch(threading.Thread):
    """Runs until the compiler has exited or passed a limit, and then wakes the thread that talks.

    Attributes:
        stderr: the end of what the compiler wrote there; whole once the thread was joined.
    """

    def __init__(self, process: Child, exited: int, pipes: Pipes, limits: Limits) -> None:
        super().__init__(name=f"watch-{process.pid}", daemon=True)
        self.stderr = bytearray()
        self._conversation: Conversation | None = None
        self._process = process
        self._from_compiler = pipes.from_compiler
        self._limits = limits
        self._ends_at = time.monotonic() + limits.compile_s
        self._verdict: ChannelError | None = None
        self._heard = threading.Event()
        self._stopped = os.eventfd(0, os.EFD_CLOEXEC)
        self._path = f"{pipes.base}.out"
        # Between two compilers of one command nobody else has the pipe open for writing.
        self._holds_open = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._poller = select.poll()
        self._poller.register(exited, select.POLLIN)
        self._poller.register(self._stopped, select.POLLIN)
        self._stderr_end = -1
        if process.stderr is not None:
            self._stderr_end = process.stderr.fileno()
            os.set_blocking(self._stderr_end, False)
            self._poller.register(self._stderr_end, select.POLLIN)
        os.set_blocking(self._from_compiler, True)

    def gone(self) -> None:
        """Called by the thread that talks when it has seen the end of the pipe.

        Raises:
            ChannelError: the compiler was ended because it passed a limit.
        """
        self._heard.set()
        if self._verdict is not None:
            raise self._verdict

    def over(self, conversation: Conversation) -> None:
        """Begin to watch that `conversation` goes on."""
        self._conversation = conversation
        self.start()

    def stop(self) -> None:
        """End the watch and, with it, the compiler."""
        self._heard.set()
        if self.is_alive():
            os.eventfd_write(self._stopped, 1)
            self.join()

    def close(self) -> None:
        """Close what the watch has opened; it must have been stopped."""
        os.close(self._stopped)
        if self.ident is None:  # never started
            os.close(self._holds_open)

    def run(self) -> None:
        """The thread."""
        try:
            if self._conversation is not None:
                self._verdict = self._look(self._conversation)
        finally:
            self._process.kill_group()
            while self._drain_stderr():
                pass
            self._hang_up()

    def _look(self, conversation: Conversation) -> ChannelError | None:
        """Wait for the compiler's end, or for a limit: the error that says which."""
        limits = self._limits
        seen, heard_at = 0, time.monotonic()
        while True:
            if self._is_over(min(limits.decision_s / LOOKS_PER_LIMIT, self._ends_at - time.monotonic())):
                return None
            now, progress = time.monotonic(), conversation.progress()
            if progress != seen or conversation.is_waiting():
                seen, heard_at = progress, now
            if now >= self._ends_at:
                return ChannelError(
                    f"the compiler did not finish within {limits.compile_s:g} s", hint="raise the limit of a compile"
                )
            if now >= heard_at + limits.decision_s:
                return ChannelError(
                    f"the compiler said nothing for {limits.decision_s:g} s", hint="raise the limit of a decision"
                )

    def _is_over(self, patience_s: float) -> bool:
        """Wait; whether the compiler has exited or `stop` was called."""
        for descriptor, _ in self._poller.poll(max(0.0, patience_s) * 1000):
            if descriptor != self._stderr_end:
                return True
            if not self._drain_stderr():
                self._poller.unregister(descriptor)
        return False

    def _hang_up(self) -> None:
        """End the read of the thread that talks, now or when it comes to it."""
        os.set_blocking(self._from_compiler, False)
        os.close(self._holds_open)  # the usual end: no writer is left, and a read that waits sees the end of file
        if not self._heard.wait(STRANGER_S):
            # Somebody outside the group has the pipe open. A line that is no message wakes the read.
            with contextlib.suppress(OSError):
                writer = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                os.write(writer, END_MARK)
                os.close(writer)

    def _drain_stderr(self) -> bool:
        """Keep what is there; False at its end."""
        if self._stderr_end < 0:
            return False
        try:
            chunk = os.read(self._stderr_end, 64 << 10)
        except BlockingIOError:
            return False
        self.stderr += chunk
        del self.stderr[:-STDERR_TAIL_BYTES]
        return bool(chunk)


@contextmanager
def watched(process: Child, pipes: Pipes, limits: Limits) -> Iterator[Watch]:
    """A watch for the length of the block; it begins with `over`."""
    with opened_pidfd(process.pid) as exited:
        watch = Watch(process, exited, pipes, limits)
        try:
            yield watch
        finally:
            watch.stop()
            watch.close()
