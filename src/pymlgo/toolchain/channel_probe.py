"""Does an LLVM ask over the interactive channel? Tried up to its first question, with no answer given."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pymlgo.errors import ToolchainError
from pymlgo.toolchain.experiment import CALLS, LIMIT_S, Capability, refusal
from pymlgo.toolchain.flags import (
    eviction_channel_options,
    inliner_channel_options,
    mllvm,
    priority_channel_options,
)
from pymlgo.toolchain.llvm import LLVM
from pymlgo.toolchain.process import Argument, child, opened_pidfd

_QUESTION = b'{"observation":'

_PRESSED_VALUES = 48
"""Values that are alive at once in the source for register allocation: more than any target has registers."""


def inliner_channel(llvm: LLVM, folder: Path) -> Capability:
    """Whether clang asks about an inlining decision over pipes."""
    return _channel(llvm, folder, CALLS, lambda base: inliner_channel_options(base, include_default=True))


def eviction_channel(llvm: LLVM, folder: Path) -> Capability:
    """Whether clang asks about a register eviction over pipes."""
    return _channel(llvm, folder, _pressing_source(), eviction_channel_options)


def priority_channel(llvm: LLVM, folder: Path) -> Capability:
    """Whether clang asks about a live range's priority over pipes."""
    return _channel(llvm, folder, _pressing_source(), priority_channel_options)


def _channel(llvm: LLVM, folder: Path, text: str, options: Callable[[Path], Sequence[str]]) -> Capability:
    base, source = folder / "channel", folder / "asked.c"
    source.write_text(text)
    command: list[Argument] = [llvm.clang, "-O2", "-c", source, "-o", folder / "asked.o", *mllvm(options(base))]
    pipes = [folder / "channel.in", folder / "channel.out"]
    for pipe in pipes:
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
    # O_RDWR: opening our ends waits for nobody, and the compiler, which would spin on an end of file, waits.
    opened = [os.open(pipes[0], os.O_RDWR), os.open(pipes[1], os.O_RDONLY | os.O_NONBLOCK)]
    try:
        with (folder / "stderr").open("wb") as stderr:
            with child(command, stdout=subprocess.DEVNULL, stderr=stderr) as process:
                said = _until_question(opened[1], process.pid)
            if said is None:
                return Capability(available=None, detail=f"neither a question nor an end within {LIMIT_S:g} s")
        return _asked(said) if _QUESTION in said else refusal((folder / "stderr").read_bytes(), "clang asked nothing")
    except ToolchainError as error:
        return Capability(available=None, detail=str(error))
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _until_question(from_compiler: int, pid: int) -> bytes | None:
    """What the compiler said up to its first question or its end; None when the limit came first."""
    ends_at, said = time.monotonic() + LIMIT_S, b""
    with opened_pidfd(pid) as exited:
        poller = select.poll()
        poller.register(exited, select.POLLIN)
        poller.register(from_compiler, select.POLLIN)
        while _QUESTION not in said:
            ready = dict(poller.poll(max(0.0, ends_at - time.monotonic()) * 1000))
            if not ready:
                return None
            chunk = os.read(from_compiler, 1 << 16) if ready.get(from_compiler, 0) & select.POLLIN else b""
            said += chunk
            if not chunk and exited in ready:
                break
            if not chunk:
                poller.unregister(from_compiler)  # it closed its end: only its exit is left to come
    return said


def _asked(said: bytes) -> Capability:
    try:
        header = json.loads(said.partition(b"\n")[0])
        return Capability(
            available=True, detail=f"{len(header['features'])} features, advice {header['advice']['name']}"
        )
    except (ValueError, KeyError, TypeError) as error:
        return Capability(available=False, detail=f"clang asks in a form that is not known: {error!r}")


def _pressing_source() -> str:
    names = range(_PRESSED_VALUES)
    loads = "".join(f"  long v{i} = p[{i}];\n" for i in names)
    body = "".join(f"    v{i} = v{i} * v{(i + 1) % _PRESSED_VALUES} + i;\n" for i in names)
    stores = "".join(f"  p[{i}] = v{i};\n" for i in names)
    return (
        f"void pressed(volatile long *p, long n) {{\n{loads}  for (long i = 0; i < n; i++) {{\n{body}  }}\n{stores}}}\n"
    )
