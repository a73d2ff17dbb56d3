"""A process that reads modules for us, so that one that LLVM cannot stand costs only that process."""

from __future__ import annotations

import os
import select
import signal
import struct
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from pymlgo.embed.core import core, reader_program
from pymlgo.errors import CorpusError, ToolchainError
from pymlgo.toolchain.process import Child, child

if TYPE_CHECKING:
    from pymlgo._native import Walk

READ_LIMIT_S = 600.0
"""Seconds for one module. Code generation of the largest amalgamations takes tens of seconds."""

LARGEST_ANSWER_BYTES = 1 << 36
"""An answer that claims more than this comes from a damaged process."""

_STDERR_TAIL_BYTES = 4096
_NUMBER = struct.Struct("=Q")


class Reader:
    """Reads modules in a child process that lives as long as the block; a crash ends one reading, not the block.

    Not for several threads at once: each takes a reader of its own.
    """

    def __init__(self, *, limit_s: float = READ_LIMIT_S) -> None:
        self._limit_s = limit_s
        self._stack = ExitStack()
        self._process: Child | None = None
        self._stderr: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def read(self, verb: str, name: str, data: bytes, options: Sequence[str] = ()) -> Walk:
        """The module `data` as a walk.

        Args:
            verb: `ir`, `mir`, or `ir-as-mir` (code generation first).
            name: what messages call the module.
            data: bitcode or text.
            options: `key=value` texts; see `native/core/reader_main.cpp`.

        Raises:
            CorpusError: LLVM refuses the module, crashes on it, or takes too long.
            ToolchainError: the reading program cannot be started.
        """
        ends_at = time.monotonic() + self._limit_s
        request = _encoded([verb.encode(), os.fsencode(name), data or b"\n", *(each.encode() for each in options)])
        try:
            process = self._started()
            self._send(process, request, ends_at)
            status, answer = self._receive(process, ends_at)
        except (BrokenPipeError, EOFError) as error:
            raise self._crash(name) from error
        except TimeoutError as error:
            self._stop()
            raise CorpusError(f"{name}: LLVM did not finish with the module within {self._limit_s:g} s") from error
        except BaseException:
            self._stop()  # the conversation is broken off in the middle
            raise
        if status != b"ok":
            raise CorpusError(answer.decode(errors="backslashreplace"))
        native = core()
        try:
            walk: Walk = native.Walk.deserialize(answer)
        except native.ReadError as error:
            self._stop()
            raise CorpusError(f"{name}: {error}", hint="the module damaged the process that read it") from error
        return walk

    def _started(self) -> Child:
        if self._process is None:
            self._stderr = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
            self._process = self._stack.enter_context(
                child([reader_program()], stdin=-1, stdout=-1, stderr=self._stderr)
            )
        return self._process

    def _stop(self) -> None:
        self._stack.close()
        self._process = self._stderr = None

    def _crash(self, name: str) -> CorpusError:
        """The error for a process that went away in the middle of a module."""
        process = self._process
        code = process.wait(self._limit_s) if process else 0
        tail = self._stderr_tail()
        self._stop()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        said = next((line for line in tail.splitlines() if "error" in line.lower() or "fatal" in line.lower()), "")
        message = f"{name}: LLVM {core().llvm_version()} crashed on the module ({how})"
        return CorpusError(f"{message}: {said.strip()}" if said else message, hint="only the reading process was lost")

    def _stderr_tail(self) -> str:
        if self._stderr is None:
            return ""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _STDERR_TAIL_BYTES))
        return self._stderr.read().decode(errors="replace")

    @staticmethod
    def _send(process: Child, request: bytes, ends_at: float) -> None:
        descriptor = _descriptor(process.stdin)
        os.set_blocking(descriptor, False)
        left = memoryview(request)
        while left:
            _wait([], [descriptor], ends_at)
            left = left[os.write(descriptor, left) :]

    @staticmethod
    def _receive(process: Child, ends_at: float) -> tuple[bytes, bytes]:
        descriptor = _descriptor(process.stdout)
        if _number(descriptor, ends_at) != 2:
            raise EOFError
        status = _exactly(descriptor, _number(descriptor, ends_at), ends_at)
        return status, _exactly(descriptor, _number(descriptor, ends_at), ends_at)


def _descriptor(stream: IO[bytes] | None) -> int:
    if stream is None:
        raise ToolchainError("the reading process has no pipe")
    return stream.fileno()


def _encoded(parts: Sequence[bytes]) -> bytes:
    return _NUMBER.pack(len(parts)) + b"".join(_NUMBER.pack(len(part)) + part for part in parts)


def _wait(readable: list[int], writable: list[int], ends_at: float) -> None:
    if not any(select.select(readable, writable, [], max(0.0, ends_at - time.monotonic()))):
        raise TimeoutError


def _number(descriptor: int, ends_at: float) -> int:
    (value,) = _NUMBER.unpack(_exactly(descriptor, _NUMBER.size, ends_at))
    if value > LARGEST_ANSWER_BYTES:
        raise EOFError
    return int(value)


def _exactly(descriptor: int, count: int, ends_at: float) -> bytes:
    chunks: list[bytes] = []
    while count:
        _wait([descriptor], [], ends_at)
        chunk = os.read(descriptor, min(count, 1 << 20))
        if not chunk:
            raise EOFError
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)
