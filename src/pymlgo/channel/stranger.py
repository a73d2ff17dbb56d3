"""A compiler that somebody else started, on a channel that both know by name."""

from __future__ import annotations

import contextlib
import os
import select
import time
from dataclasses import dataclass
from pathlib import Path

from pymlgo.channel.advice import CheckAdvice
from pymlgo.channel.conversation import Advise, AdviseFor, Conversation, Listener
from pymlgo.channel.host import advise_for
from pymlgo.channel.observation import Correct
from pymlgo.channel.pipes import Pipes, named_pipes
from pymlgo.channel.reader import Buffers
from pymlgo.errors import ChannelError

_HUNG_UP = select.POLLHUP | select.POLLERR


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long we wait for a stranger, in wall seconds.

    Attributes:
        first_s: for the first compiler.
        next_s: for another one after the last has hung up: a command with two sources opens the channel twice.
        decision_s: from one message to the next, or to the hang-up.
    """

    first_s: float = 60.0
    next_s: float = 2.0
    decision_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What was said; the compiler's exit code and CPU time are known to whoever started it."""

    headers: int
    contexts: int
    decisions: int
    refused: int


def serve(
    base: Path,
    advise: Advise | None = None,
    *,
    on_header: AdviseFor | None = None,
    correct: Correct | None = None,
    check_advice: CheckAdvice | None = None,
    fallback: Advise | None = None,
    listener: Listener | None = None,
    patience: Patience = Patience(),
) -> Served:
    """Answer the compilers that come to the channel `base`, until none comes any more.

    Should this end with an error while a compiler waits, the compiler is let go: it gets one last answer, so that it
    does not spin, and its next message ends it with SIGPIPE. Nobody can do that after a SIGKILL: whoever starts the
    compiler should give it a limit of CPU time.

    Args:
        base: path of the channel without `.in` and `.out`; pipes that are missing are made for the time of the call.
        advise: as for `host`.
        on_header: as for `host`.
        correct: as for `open_channel`.
        check_advice: as for `open_channel`.
        fallback: as for `open_channel`.
        listener: as for `open_channel`.
        patience: how long to wait for compilers and their messages.

    Raises:
        ChannelError: nobody came, or a compiler broke the protocol, fell silent or went away within a message; or
            advice was refused.
    """
    answering = advise_for(advise, on_header)
    with named_pipes(base) as pipes:
        stranger = _Stranger(pipes, patience)
        conversation = Conversation(
            stranger.receive,
            pipes.to_compiler,
            correct=correct,
            check_advice=check_advice,
            fallback=fallback,
            listener=listener,
        )
        if not stranger.comes(patience.first_s):
            raise ChannelError(
                f"no compiler came to {base}.in and {base}.out within {patience.first_s:g} s",
                hint=f"start clang with the channel's flags, e.g. -mllvm -inliner-interactive-channel-base={base}",
            )
        try:
            conversation.answer_all(answering)
            while stranger.comes(patience.next_s):
                conversation.answer_all(answering)
        except BaseException:
            stranger.let_go(conversation)
            raise
        return Served(
            headers=conversation.headers,
            contexts=conversation.contexts,
            decisions=conversation.decisions,
            refused=conversation.refused,
        )


class _Stranger:
    """Our end of the pipe that strangers write to."""

    def __init__(self, pipes: Pipes, patience: Patience) -> None:
        self._pipes = pipes
        self._patience = patience
        self._poller = select.poll()
        self._poller.register(pipes.from_compiler, select.POLLIN)

    def comes(self, within_s: float) -> bool:
        """Wait for the first bytes of a compiler; whether they came."""
        ends_at = time.monotonic() + within_s
        while (left_s := ends_at - time.monotonic()) > 0:
            for _, events in self._poller.poll(left_s * 1000):
                if events & select.POLLIN:
                    return True
                self._hang_up()  # it opened the channel and said nothing
        return False

    def receive(self, buffers: Buffers) -> int:
        """Fill `buffers`, in order; the number of bytes, 0 once the compiler has hung up.

        Raises:
            ChannelError: it wrote nothing for `decision_s`.
        """
        ready = self._poller.poll(self._patience.decision_s * 1000)
        if not ready:
            raise ChannelError(
                f"the compiler said nothing for {self._patience.decision_s:g} s", hint="raise the limit of a decision"
            )
        if not ready[0][1] & select.POLLIN and ready[0][1] & _HUNG_UP:
            self._hang_up()
            return 0
        return os.readv(self._pipes.from_compiler, buffers)

    def let_go(self, conversation: Conversation) -> None:
        """Make sure that a compiler which waits for us neither spins nor goes on asking."""
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(nothing, self._pipes.from_compiler, inheritable=False)  # from here on its writes end it
        os.close(nothing)
        header = conversation.header
        if header is not None and header.advice is not None and conversation.is_waiting():
            with contextlib.suppress(BlockingIOError):
                os.write(self._pipes.to_compiler, bytes(header.advice.byte_size))

    def _hang_up(self) -> None:
        # A pipe whose writers have gone reports that for ever, and a loop over it would spin. Opened anew it reports
        # nothing until the next writer; what a compiler wrote meanwhile stays in it.
        again = os.open(f"{self._pipes.base}.out", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.dup2(again, self._pipes.from_compiler, inheritable=False)
        os.close(again)
