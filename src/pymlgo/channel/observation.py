"""One decision that the compiler asks for, and the reader that finds it in the bytes of the channel."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import ChannelError, SpecError
from pymlgo.training_log.header import Header

Receive: TypeAlias = Callable[[Sequence[bytearray | memoryview]], int]
"""Fill the buffers, in order, with what the compiler wrote; the number of bytes, 0 once the compiler is gone."""

Correct: TypeAlias = Callable[[Header], Header]
"""What a compiler's header should have said, for a compiler that puts other tensors into its observations than it says.
The corrected features describe the observation from its start; they may leave out its end."""

LONGEST_LINE_BYTES = 1 << 20
"""The inliner's header takes 2.5 KiB; the longest context is the longest mangled name."""

LARGEST_OBSERVATION_BYTES = 256 << 20
"""A header that asks for more is taken for garbage; LLVM's largest, the eviction advisor's, takes 3.4 KiB."""

END_MARK = b"\n"
"""No message begins with it: where one is expected, it says that nothing more may come."""

_NEWLINE = 0x0A
_OBSERVATION = b'{"observation":'
_CONTEXT = b'{"context":'
_HEADER = b'{"features":'


class Observation:
    """The features of one decision.

    There is one object for each header, and it is filled anew by each decision: `features` and `raw` show the present
    decision, and whoever keeps values must copy them (`snapshot`). So arrays taken from `features` once stay valid
    as windows on the decision at hand.

    Attributes:
        header: what the tensors are; the compiler's, corrected where it is known to be wrong.
        context: the function or module that the decision belongs to.
        number: of the decision in its context, from 0.
        features: read-only views by name, shaped as their specs say.
        raw: the tensors as they came: native byte order, in the header's order, unpadded.
    """

    __slots__ = ("context", "features", "header", "memory", "number", "raw")

    def __init__(self, header: Header, size: int) -> None:
        """Room for observations of `size` bytes, of which `header` describes the first ones."""
        if size > LARGEST_OBSERVATION_BYTES:
            raise ChannelError(f"the compiler's header asks for observations of {size} bytes")
        self.header = header
        self.context = ""
        self.number = 0
        self.memory = memoryview(np.zeros(size + 1, np.uint8).data)  # the tensors and the newline behind them
        self.raw = self.memory[: header.observation_bytes].toreadonly()
        views: dict[str, AnyArray] = {}
        offset = 0
        for spec in header.features:
            views[spec.name] = spec.view(self.raw, offset)
            offset += spec.byte_size
        self.features: Mapping[str, AnyArray] = MappingProxyType(views)

    def snapshot(self) -> dict[str, AnyArray]:
        """The features, copied: they stay as they are."""
        return {name: view.copy() for name, view in self.features.items()}


class ObservationReader:
    """Headers, contexts and observations out of a compiler's bytes.

    The usual message is the next observation of the same context. Its text is known, so the kernel is asked to put the
    text into one buffer and the tensors into the memory that the views of `Observation` look at: one system call and
    one comparison a decision, and no copy. Whatever else comes is taken apart in `_pending`.
    """

    def __init__(
        self,
        receive: Receive,
        *,
        correct: Correct | None,
        on_header: Callable[[Header], None],
        on_context: Callable[[str], None],
    ) -> None:
        self._receive = receive
        self._correct = correct
        self._on_header = on_header
        self._on_context = on_context
        self._pending = bytearray()
        self._scratch = bytearray(64 << 10)
        self._observation: Observation | None = None
        self._body = memoryview(bytearray())
        self._in_context = False
        self._counts: dict[str, int] = {}
        self._head = self._scratch
        self._expected = b""
        self._buffers: list[bytearray | memoryview] = [self._scratch]
        self._whole = -1

    def read(self) -> Observation | None:
        """The next decision; None once the compiler is gone.

        Raises:
            ChannelError: the bytes are none of the protocol, or the compiler went away in the middle of them.
        """
        while True:
            if not self._pending:
                received = self._receive(self._buffers)
                if received == self._whole and self._head == self._expected and self._body[-1] == _NEWLINE:
                    return self._next_of_context()
                if not received:
                    return None
                self._set_aside(received)
            line = self._line()
            if line == END_MARK and not self._pending and not self._receive([self._scratch]):
                return None
            found = self._interpret(line)
            if found is not None:
                return found

    def _next_of_context(self) -> Observation:
        observation = self._observation
        if observation is None:  # nothing is expected before a header
            raise ChannelError("an observation came before its header")
        observation.number = number = self._counts[observation.context]
        self._counts[observation.context] = number + 1
        self._expect(number + 1)
        return observation

    def _expect(self, number: int) -> None:
        """Make ready for observation `number` of the current context."""
        self._expected = b'{"observation":%d}\n' % number
        if len(self._expected) != len(self._head):
            self._head = bytearray(len(self._expected))
            self._buffers = [self._head, self._body]
            self._whole = len(self._head) + len(self._body)

    def _set_aside(self, received: int) -> None:
        self._pending += self._head[:received]
        if received > len(self._head):
            self._pending += self._body[: received - len(self._head)]

    def _line(self) -> bytes:
        """The next line with its newline."""
        searched = 0
        while (end := self._pending.find(b"\n", searched)) < 0:
            searched = len(self._pending)
            if searched > LONGEST_LINE_BYTES:
                raise ChannelError(f"the compiler wrote a line of more than {LONGEST_LINE_BYTES} bytes", hint=_HINT)
            received = self._receive([self._scratch])
            if not received:
                raise ChannelError(f"the compiler went away in the middle of the line {_shown(bytes(self._pending))}")
            self._pending += self._scratch[:received]
        line = bytes(self._pending[: end + 1])
        del self._pending[: end + 1]
        return line

    def _interpret(self, line: bytes) -> Observation | None:
        if line.startswith(_OBSERVATION):
            return self._fill(line)
        if line.startswith(_CONTEXT):
            self._enter_context(line)
        elif line.startswith(_HEADER):
            self._begin(line)
        else:
            raise ChannelError(f"expected a header, a context or an observation, found {_shown(line)}", hint=_HINT)
        return None

    def _begin(self, line: bytes) -> None:
        try:
            header = Header.parse(line)
        except SpecError as error:
            raise ChannelError(f"the compiler's header cannot be read: {error}", hint=_HINT) from error
        if header.advice is None:
            raise ChannelError("the compiler's header names no advice: it is that of a training log, not of a channel")
        corrected = self._correct(header) if self._correct is not None else header
        self._observation = Observation(corrected, header.observation_bytes)
        self._body = self._observation.memory
        self._counts = {}
        self._in_context = False
        self._head, self._expected, self._whole = self._scratch, b"", -1
        self._buffers = [self._scratch]
        self._on_header(corrected)

    def _enter_context(self, line: bytes) -> None:
        observation = self._observation
        try:
            name = json.loads(line)["context"]
        except (ValueError, KeyError) as error:
            raise ChannelError(f"a context cannot be read: {_shown(line)}", hint=_HINT) from error
        if observation is None or not isinstance(name, str):
            raise ChannelError(f"expected a header before the context {_shown(line)}", hint=_HINT)
        observation.context = name
        self._in_context = True
        # LLVM counts by name: where a name comes back, its numbers go on.
        self._expect(self._counts.setdefault(name, 0))
        self._on_context(name)

    def _fill(self, line: bytes) -> Observation:
        if self._observation is None or not self._in_context:
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
                    f"the compiler went away in the middle of observation {self._counts[self._observation.context]} of "
                    f"context {self._observation.context!r}: {filled} of {len(body)} bytes came"
                )
            filled += received
        if body[-1] != _NEWLINE:
            raise ChannelError(f"expected a newline after the tensors of {_shown(line)}", hint=_HINT)
        return self._next_of_context()


_HINT = "two compilers may be talking at once: let the command run one job at a time (lld: --thinlto-jobs=1)"


def _shown(line: bytes) -> str:
    text = line[:80].decode(errors="backslashreplace").rstrip("\n")
    return repr(text if len(line) <= 80 else f"{text}…")
