"""Headers, contexts and observations out of the bytes of a channel."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pymlgo.channel.observation import Correct, Observation
from pymlgo.errors import ChannelError, SpecError
from pymlgo.training_log.header import Header

Receive: TypeAlias = Callable[[Sequence[bytearray | memoryview]], int]
"""Fill the buffers, in order, with what the compiler wrote; the number of bytes, 0 once the compiler is gone."""

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

    The usual message is the next observation of the same context. Its text is known, so the kernel is asked to put the
    text into one buffer and the tensors into the memory that the views of `Observation` look at: one system call and
    one comparison a decision, and no copy. Whatever else comes is taken apart in `_pending`.

    Attributes:
        delivered: how many decisions `read` returned.
        observation: the one it returned last; None before the first header.
    """

    _number: int
    """Of the next observation of the context."""
    _expected: bytes
    """The text that announces it."""
    _head: bytearray
    """Where that text should come to."""
    _buffers: list[bytearray | memoryview]
    """What is filled by a read: the text, the tensors."""
    _whole: int
    """How many bytes both take."""
    _longer_from: int
    """The number whose text has one more digit."""

    def __init__(
        self,
        receive: Receive,
        *,
        correct: Correct | None,
        on_header: Callable[[Header], None],
        on_context: Callable[[str], None],
    ) -> None:
        self.delivered = 0
        self.observation: Observation | None = None
        self._receive = receive
        self._correct = correct
        self._on_header = on_header
        self._on_context = on_context
        self._pending = bytearray()
        self._scratch = bytearray(64 << 10)
        self._body = memoryview(bytearray())
        self._in_context = False
        self._counts: dict[str, int] = {}
        self._expect_anything()

    def read(self) -> Observation | None:
        """The next decision; None once the compiler is gone.

        Raises:
            ChannelError: the bytes are none of the protocol, or the compiler went away in the middle of them.
        """
        received = 0 if self._pending else self._receive(self._buffers)
        if (
            received != self._whole or self._head != self._expected or self._body[-1] != _NEWLINE
        ) and not self._read_unusual(received):
            return None
        observation = self.observation
        if observation is None:  # nothing is expected before a header
            raise ChannelError("an observation came before its header")
        observation.number = self._number
        self._number = number = self._number + 1
        self._expected = b'{"observation":%d}\n' % number
        if number == self._longer_from:
            self._expect(number)
        self.delivered += 1
        return observation

    def _read_unusual(self, received: int) -> bool:
        """Read up to the next observation, whatever comes before it; whether there is one."""
        self._pending += self._head[:received]
        if received > len(self._head):
            self._pending += self._body[: received - len(self._head)]
        if not self._pending:
            return False
        while self._pending or self._receive_more():
            line = self._line()
            if line.startswith(_OBSERVATION):
                self._fill(line)
                return True
            if line.startswith(_CONTEXT):
                self._enter_context(line)
            elif line.startswith(_HEADER):
                self._begin(line)
            elif line != END_MARK or self._pending or self._receive_more():
                raise ChannelError(f"expected a header, a context or an observation, found {_shown(line)}", hint=_HINT)
            else:
                return False
        return False

    def _expect(self, number: int) -> None:
        """Make ready for observation `number` of the current context."""
        self._number = number
        self._longer_from = 10 ** len(str(number))
        self._expected = b'{"observation":%d}\n' % number
        self._head = bytearray(len(self._expected))
        self._buffers = [self._head, self._body]
        self._whole = len(self._head) + len(self._body)

    def _expect_anything(self) -> None:
        """Make ready for what comes before the first context of a compiler."""
        self._number = self._longer_from = 0
        self._expected, self._whole = b"", -1
        self._head = self._scratch
        self._buffers = [self._scratch]

    def _receive_more(self) -> int:
        """Put what comes next to what is pending; the number of bytes."""
        received = self._receive([self._scratch])
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
        self.observation = Observation(corrected, header.observation_bytes)
        self._body = self.observation.memory
        self._counts = {}
        self._in_context = False
        self._expect_anything()
        self._on_header(corrected)

    def _enter_context(self, line: bytes) -> None:
        observation = self.observation
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
        self._expect(self._counts.get(name, 0))
        self._on_context(name)

    def _fill(self, line: bytes) -> None:
        """Fill the observation that `line` begins."""
        observation = self.observation
        if observation is None or not self._in_context:
            raise ChannelError(f"expected a header and a context before {_shown(line)}", hint=_HINT)
        if line != self._expected:
            raise ChannelError(f"expected {_shown(self._expected)}, found {_shown(line)}", hint=_HINT)
        body, pending = self._body, self._pending
        filled = min(len(pending), len(body))
        body[:filled] = pending[:filled]
        del pending[:filled]
        while filled < len(body):
            received = self._receive([body[filled:]])
            if not received:
                raise ChannelError(
                    f"the compiler went away in the middle of observation {self._number} of context "
                    f"{observation.context!r}: {filled} of {len(body)} bytes came"
                )
            filled += received
        if body[-1] != _NEWLINE:
            raise ChannelError(f"expected a newline after the tensors of {_shown(line)}", hint=_HINT)


_HINT = "two compilers may be talking at once: let the command run one job at a time (lld: --thinlto-jobs=1)"


def _shown(line: bytes) -> str:
    text = line[:80].decode(errors="backslashreplace").rstrip("\n")
    return repr(text if len(line) <= 80 else f"{text}…")
