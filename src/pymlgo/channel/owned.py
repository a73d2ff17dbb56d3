"""A compiler that we start, talk to and end."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypedDict

from pymlgo.channel.advice import CheckAdvice
from pymlgo.channel.conversation import Advise, Conversation, Listener
from pymlgo.channel.observation import Correct
from pymlgo.channel.pinning import Core, pinned
from pymlgo.channel.pipes import Pipes, made_pipes
from pymlgo.channel.watch import Limits, Watch, watched
from pymlgo.errors import ChannelError
from pymlgo.toolchain.messages import explain
from pymlgo.toolchain.process import DYING_S, Argument, Child, Stream, child

Flags: TypeAlias = Callable[[Path], Sequence[str]]
"""What the command needs to use the channel of this base; see `toolchain/flags.py` and `problem/`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostResult:
    """How a compile under our advice ended.

    Attributes:
        returncode: the compiler's; a compile error is the caller's to judge.
        headers: compilers that introduced themselves: 0 where the command makes no decision of this kind (`-O0`),
            2 where it compiles two sources.
        contexts: modules or functions that were announced, with or without decisions.
        decisions: questions that were answered.
        refused: answers that the check refused and the fallback replaced.
        stderr: the end of what the compiler wrote there; empty where it was not captured.
        cpu_s: CPU seconds of the compiler and its children.
    """

    returncode: int
    headers: int
    contexts: int
    decisions: int
    refused: int
    stderr: bytes
    cpu_s: float


class Channel(Conversation):
    """A conversation with a compiler of ours."""

    def __init__(
        self,
        process: Child,
        watch: Watch,
        pipes: Pipes,
        *,
        correct: Correct | None,
        check_advice: CheckAdvice | None,
        fallback: Advise | None,
        listener: Listener | None,
    ) -> None:
        super().__init__(
            functools.partial(os.readv, pipes.from_compiler),
            pipes.to_compiler,
            gone=watch.gone,
            correct=correct,
            check_advice=check_advice,
            fallback=fallback,
            listener=listener,
        )
        self._process = process
        self._watch = watch

    def finish(self) -> HostResult:
        """The result, once `observe` has returned None.

        Raises:
            ChannelError: the compiler was killed by a signal, or left an answer unread.
        """
        self._watch.stop()
        code = self._process.wait(DYING_S)
        if code < 0:
            raise ChannelError(f"the compiler died from {_signal_name(-code)} after {self.decisions} decisions")
        if code == 0 and self._forget_unread_advice():
            raise ChannelError(
                "questions and answers got out of step: an answer was left over",
                hint="one of several compilers may have died while it asked, and the next one have read its answer",
            )
        return HostResult(
            returncode=code,
            headers=self.headers,
            contexts=self.contexts,
            decisions=self.decisions,
            refused=self.refused,
            stderr=bytes(self._watch.stderr),
            cpu_s=self._process.cpu_s,
        )


class ChannelOptions(TypedDict, total=False):
    """What `open_channel` takes beside the command and its flags, for functions that pass it on."""

    correct: Correct | None
    check_advice: CheckAdvice | None
    fallback: Advise | None
    listener: Listener | None
    limits: Limits
    core: Core
    cwd: Path | None
    env: Mapping[str, str] | None
    stdin: Stream
    stdout: Stream
    stderr: Stream


@contextmanager
def open_channel(
    command: Sequence[Argument],
    *,
    flags: Flags,
    correct: Correct | None = None,
    check_advice: CheckAdvice | None = None,
    fallback: Advise | None = None,
    listener: Listener | None = None,
    limits: Limits = Limits(),  # noqa: B008 — frozen
    core: Core = "current",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = None,
    stderr: Stream = subprocess.PIPE,
) -> Iterator[Channel]:
    """A channel to a compiler that is started here and gone, with everything it started, when the block ends.

    Args:
        command: the compile, without the channel's flags.
        flags: the channel's flags, from its base path.
        correct: mends the header of a compiler that is known to send something else; see `problem/`.
        check_advice: refuses advice that the compiler must not get.
        fallback: answers where advice was refused; without it a refusal is an error.
        listener: hears of headers, contexts and advice.
        limits: how long the compiler may take.
        core: where compiler and host run (see `pinning`): workers of a pool pass a core each, `None` leaves it free.
        cwd: the compiler's working directory; ours by default.
        env: the compiler's environment; ours by default.
        stdin: the compiler's, as for `Popen`; empty by default.
        stdout: the compiler's, as for `Popen`; ours by default.
        stderr: the compiler's, as for `Popen`; by default its end is kept for the result and for error messages.

    Raises:
        ToolchainError: the compiler cannot be started.
        ChannelError: everything that can go wrong between us; the hint holds the end of the compiler's stderr.
    """
    with (
        made_pipes() as pipes,
        pinned(core),
        child(
            [*command, *flags(pipes.base)],
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cpu_limit_s=limits.compile_s * (os.cpu_count() or 1),
        ) as process,
        watched(process, pipes, limits) as watch,
    ):
        channel = Channel(
            process,
            watch,
            pipes,
            correct=correct,
            check_advice=check_advice,
            fallback=fallback,
            listener=listener,
        )
        watch.over(channel)
        try:
            yield channel
        except ChannelError as error:
            watch.stop()
            error.hint = error.hint or _explained(watch.stderr)
            raise


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _explained(stderr: bytearray) -> str | None:
    text = stderr.decode(errors="replace").strip()
    return explain(text) or (f"the compiler said last: {text.splitlines()[-1].strip()}" if text else None)
