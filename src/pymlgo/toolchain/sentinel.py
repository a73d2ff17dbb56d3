"""What ends our children when we die without a chance to: one small process that outlives us by a moment.

A compiler on the interactive channel spins for ever once its host is gone, so a host that is killed must take its
compilers with it. The kernel's parent-death signal reaches only direct children, and clang's driver runs a `cc1` for
each source; it also fires when the *thread* that started the child ends. The sentinel has neither gap: it waits for the
end of a pipe that only this process holds open, which comes with our death however we die, and then kills every process
whose environment carries our mark. The mark is inherited, so nothing has to be registered and no moment is uncovered.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Mapping

MARK = "PYMLGO_CHILD_OF"
"""The environment variable whose value names the process that a child belongs to."""

_PROGRAM = """
import os, sys, time
try:
    open("/proc/self/comm", "w").write("mlgo-sentinel")
except OSError:
    pass
mark = sys.argv[1].encode()
while os.read(0, 64):
    pass
# A child that was between fork and exec shows its mark a little later.
for pause_s in (0, 0.05, 0.5):
    time.sleep(pause_s)
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                if mark in open(f"/proc/{entry}/environ", "rb").read().split(b"\\0"):
                    os.kill(int(entry), 9)
            except OSError:
                pass
"""


class Sentinel:
    """The sentinel of this process; started at its first use and again whenever somebody ended it.

    Attributes:
        pid: of the process that watches; 0 before the first use.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._token = ""
        self.pid = 0
        self._our_end: int | None = None  # the descriptor whose end of file is our death

    def marked(self, environment: Mapping[str, str]) -> dict[str, str]:
        """`environment` with the mark that gives a child started with it into the sentinel's care."""
        with self._lock:
            if not self._is_alive():
                self.forget()
                self._start()
            return {**environment, MARK: self._token}

    def _is_alive(self) -> bool:
        try:
            return self.pid != 0 and os.waitpid(self.pid, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            return False

    def _start(self) -> None:
        self._token = self._token or secrets.token_hex(16)
        command = [sys.executable, "-I", "-S", "-c", _PROGRAM, f"{MARK}={self._token}"]
        # Its own session: the Ctrl-C and the hang-up that end us must not end it first. An empty environment, so that
        # it carries nobody's mark.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
        )
        process.returncode = 0  # it outlives us: Popen need not wait for it, nor warn that nobody did
        self.pid = process.pid
        if process.stdin is not None:
            self._our_end = os.dup(process.stdin.fileno())
            process.stdin.close()

    def forget(self) -> None:
        """Let go of the pipe; the next child gets a new sentinel."""
        if self._our_end is not None:
            os.close(self._our_end)
        self.pid, self._our_end = 0, None

    def forget_parents(self) -> None:
        """In a forked child: the parent's sentinel waits for the parent's death, so our copy of its pipe must go."""
        self._lock = threading.Lock()
        self._token = ""
        self.forget()


SENTINEL = Sentinel()
"""One for each process, as `multiprocessing` has one resource tracker."""

os.register_at_fork(after_in_child=SENTINEL.forget_parents)
