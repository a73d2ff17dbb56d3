"""The client of the compile server, `native/engine`: a clang that stays loaded, one process for each compile."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymlgo.errors import ToolchainError
from pymlgo.toolchain.process import Child, child

PROTOCOL = 1
GRACE_S = 30.0
"""The server itself ends a forked compile at its limit; this much longer silence means that the server is stuck."""


class ServerLost(ToolchainError):
    """The server died or fell silent, and a compile with it.

    Attributes:
        silent: it said nothing for too long; else it died.
        returncode: how it died, negative for a signal; None while it lives.
    """

    def __init__(self, message: str, *, silent: bool = False, returncode: int | None = None) -> None:
        super().__init__(message)
        self.silent = silent
        self.returncode = returncode


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """How a compile ended; `returncode` is negative for a signal, `cpu_s` that of the compile's own process."""

    returncode: int
    timed_out: bool
    stderr: bytes
    cpu_s: float


class Engine:
    """A running server; from `open_engine`."""

    def __init__(self, process: Child) -> None:
        self._process = process
        self._pending = b""

    def compile(
        self,
        arguments: Sequence[str | bytes],
        *,
        limit_s: float,
        fork: bool = True,
    ) -> Compiled:
        """Compile what the arguments of `clang -cc1` (without `-cc1`) say.

        Args:
            arguments: with input and output.
            limit_s: wall seconds after which the compile is killed.
            fork: a process of its own; False saves the fork, but a crash or a compile over its limit costs the server.

        Raises:
            ServerLost: the server died, or fell silent; close it.
            ToolchainError: it did not understand.
        """
        request = {
            "arguments": [os.fsdecode(each) for each in arguments],
            "fork": fork,
            "limit_s": limit_s,
        }
        reply = self._exchange(json.dumps(request).encode() + b"\n", limit_s + (GRACE_S if fork else 0.0))
        if "error" in reply:
            raise ToolchainError(f"the compile server refused a request: {reply['error']}")
        return Compiled(
            returncode=int(reply["returncode"]),
            timed_out=bool(reply["timeout"]),
            stderr=str(reply["stderr"]).encode(),
            cpu_s=float(reply["cpu_s"]),
        )

    def greet(self) -> str:
        """The version of the LLVM inside, which the server says first."""
        hello = self._read_line(GRACE_S)
        if hello.get("engine") != PROTOCOL:
            raise ToolchainError(f"the compile server speaks protocol {hello.get('engine')}, expected {PROTOCOL}")
        return str(hello["llvm"])

    def _exchange(self, request: bytes, limit_s: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._died() from None
        return self._read_line(limit_s)

    def _read_line(self, limit_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._process.stdout], [], [], limit_s)
            if not ready:
                raise ServerLost(f"the compile server said nothing for {limit_s:g} s", silent=True)
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise self._died()
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        parsed = json.loads(line)
        return dict(parsed)

    def _died(self) -> ServerLost:
        code = self._process.wait(GRACE_S)
        return ServerLost(f"the compile server died (exit code {code})", returncode=code)


@contextmanager
def open_engine(program: Path, plugin: Path | None) -> Iterator[Engine]:
    """A server, with `plugin` loaded before its first compile; gone with its compiles when the block ends.

    Raises:
        ToolchainError: it cannot be started, or is another version's.
    """
    command = [program, *([plugin] if plugin else [])]
    with child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None) as process:
        engine = Engine(process)
        engine.greet()
        yield engine
