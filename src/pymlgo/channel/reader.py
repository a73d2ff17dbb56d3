"""Headers, contexts and observations out of the bytes of a channel."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

from pymlgo.channel.observation import Correct, Observation
from pymlgo.errors import ChannelError, SpecError
from pymlgo.training_log.header import Header

Buffers: TypeAlias = Sequence[bytearray | memoryview]

Receive: TypeAlias = Callable[[Buffers], int]
"""Fill the buffers, in order, with what the compiler wrote; the number of bytes. Once the compiler is gone: 0, or
BlockingIOError."""

LONGEST_LINE_BYTES = 1 << 20
"""The inliner's header takes 2.5 KiB; the longest context is the longest mangled name."""

END_MARK = b"\n"
"""No message begins with it: where one is expected, it says that nothing more may come."""

_NEWLINE = 0x0A
_OBSERVATION = b'{"observation":'
_CONTEXT = b'{"context":'
_HEADER = b'{"features":'


class ObservationReader:
    """Finds the decisions in what a compiler writes.

    Args:
        receive: where the bytes come from.
        gone: called when nothing comes any more; may raise to say why.
        correct: see `Correct`.
        on_header: called with the observations-to-be of each compiler.
        on_context: called with the name of each context.
    """

    def __init__(
        self,
        receive: Receive,
        *,
        gone: Callable[[], None],
        correct: Correct | None,
        on_header: Callable[[Observation], None],
        on_context: Callable[[str], None],
    ) -> None:
        self._receive = receive
        self._gone = gone
        self._correct = correct
        self._on_header = on_header
        self._on_context = on_context
        self._pending = bytearray()
        self._scratch = bytearray(64 << 10)
        self._observation: Observation | None = None
        self._in_context = False
        self._number = 0
        self._counts: dict[str, int] = {}

    def observations(self) -> Generator[Observation, None, None]:
        """Each decision, until the compiler is gone.

        The usual message is the next observation of the same context. Its text is known, so the kernel is asked to put
        the text into one buffer and the tensors into the memory that the views of `Observation` look at: one system
        call and one comparison a decision, and no copy. Whatever else comes is taken apart in `_pending`.

        The state of the usual case lies in local variables: at each decision the caches are cold, and every object that
        is touched counts.

        Raises:
            ChannelError: the bytes are none of the protocol, or the compiler went away in the middle of them.
        """
        receive, pending = self._receive, self._pending
        buffers: list[bytearray | memoryview]
        while (observation := self._next_unusual()) is not None:
            body, head, buffers, whole = observation.memory, bytearray(), [], 0
            number = self._number
            while True:
                observation.number = number
                yield observation
                number += 1
                if pending:  # the next message has come already
                    break
                expected = b'{"observation":%d}\n' % number
                if len(expected) != len(head):
                    head = bytearray(len(expected))
                    buffers = [head, body]
                    whole = len(head) + len(body)
                try:
                    received = receive(buffers)
                except BlockingIOError:
                    received = 0
                if received != whole or head != expected or body[-1] != _NEWLINE:
                    if not received:
                        self._gone()
                        return
                    pending += b"".join(buffers)[:received]
                    break
            self._number = number

    def _next_unusual(self) -> Observation | None:
        """Read up to the next observation, whatever comes before it."""
        while self._pending or self._receive_more():
            line = self._line()
            if line.startswith(_OBSERVATION):
                return self._filled(line)
            if line.startswith(_CONTEXT):
                self._enter_context(line)
            elif line.startswith(_HEADER):
                self._begin(line)
            elif line != END_MARK or self._pending or self._receive_more():
                raise ChannelError(f"expected a header, a context or an observation, found {_shown(line)}", hint=_HINT)
            else:
                return None
        return None

    def _received(self, buffers: Buffers) -> int:
        try:
            received = self._receive(buffers)
        except BlockingIOError:
            received = 0
        if not received:
            self._gone()
        return received

    def _receive_more(self) -> int:
        """Put what comes next to what is pending; the number of bytes."""
        received = self._received([self._scratch])
        self._pending += self._scratch[:received]
        return received

    def _line(self) -> bytes:
        """The next line with its newline."""
        searched = 0
        while (end := self._pending.find(b"\n", searched)) < 0:
            searched = len(self._pending)
            if searched > LONGEST_LINE_BYTES:
                raise ChannelError(f"the compiler wrote a line of more than {LONGEST_LINE_BYTES} bytes", hint=_HINT)
            if not self._receive_more():
                raise ChannelError(f"the compiler went away in the middle of the line {_shown(bytes(self._pending))}")
        line = bytes(self._pending[: end + 1])
        del self._pending[: end + 1]
        return line

    def _begin(self, line: bytes) -> None:
        try:
            header = Header.parse(line)
        except SpecError as error:
            raise ChannelError(f"the compiler's header cannot be read: {error}", hint=_HINT) from error
        if header.advice is None:
            raise ChannelError("the compiler's header names no advice: it is that of a training log, not of a channel")
        corrected = self._correct(header) if self._correct is not None else header
        self._observation = Observation(corrected, header.observation_bytes)
        self._counts = {}
        self._in_context = False
        self._on_header(self._observation)

    def _enter_context(self, line: bytes) -> None:
        observation = self._observation
        try:
            name = json.loads(line)["context"]
        except (ValueError, KeyError) as error:
            raise ChannelError(f"a context cannot be read: {_shown(line)}", hint=_HINT) from error
        if observation is None or not isinstance(name, str):
            raise ChannelError(f"expected a header before the context {_shown(line)}", hint=_HINT)
        if self._in_context:
            self._counts[observation.context] = self._number
        observation.context = name
        self._in_context = True
        # LLVM counts by name: where a name comes back, its numbers go on.
        self._number = self._counts.get(name, 0)
        self._on_context(name)

    def _filled(self, line: bytes) -> Observation:
        """The observation that `line` begins."""
        observation = self._observation
        if observation is None or not self._in_context:
            raise ChannelError(f"expected a header and a context before {_shown(line)}", hint=_HINT)
        expected = b'{"observation":%d}\n' % self._number
        if line != expected:
            raise ChannelError(f"expected {_shown(expected)}, found {_shown(line)}", hint=_HINT)
        body, pending = observation.memory, self._pending
        filled = min(len(pending), len(body))
        body[:filled] = pending[:filled]
        del pending[:filled]
        while filled < len(body):
            received = self._received([body[filled:]])
            if not received:
                raise ChannelError(
                    f"the compiler went away in the middle of observation {self._number} of context "
                    f"{observation.context!r}: {filled} of {len(body)} bytes came"
                )
            filled += received
        if body[-1] != _NEWLINE:
            raise ChannelError(f"expected a newline after the tensors of {_shown(line)}", hint=_HINT)
        return observation


_HINT = "two compilers may be talking at once: let the command run one job at a time (lld: --thinlto-jobs=1)"


def _shown(line: bytes) -> str:
    text = line[:80].decode(errors="backslashreplace").rstrip("\n")
    return repr(text if len(line) <= 80 else f"{text}…")
