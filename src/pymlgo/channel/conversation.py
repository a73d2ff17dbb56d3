"""Questions and answers, whoever started the compiler."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol, TypeAlias

from pymlgo.arrays import AnyArray
from pymlgo.channel.advice import AdviceSender, CheckAdvice
from pymlgo.channel.observation import Correct, Observation
from pymlgo.channel.reader import ObservationReader, Receive
from pymlgo.errors import ChannelError
from pymlgo.training_log.header import Header

Advise: TypeAlias = Callable[[Observation], object]
"""The advice for a decision: a number, or an array that fits the advice's spec."""


class Listener(Protocol):
    """Who wants to know what is said, e.g. to record it."""

    def on_header(self, header: Header) -> None:
        """A compiler introduced itself; there may be several in one conversation."""

    def on_context(self, name: str) -> None:
        """A context began; it may have no decision at all."""

    def on_advice(self, observation: Observation, advice: AnyArray) -> None:
        """`advice` was sent for `observation`; both are views, valid until the next decision."""


class Conversation:
    """Reads decisions with `observe` and answers each with `answer`.

    Attributes:
        header: of the compiler that talks; None before the first one.
        headers: how many compilers introduced themselves.
        contexts: how many contexts began.
        decisions: how many were answered.
        refused: how many answers did not pass the check and were replaced by the fallback's.
    """

    def __init__(
        self,
        receive: Receive,
        to_compiler: int,
        *,
        correct: Correct | None = None,
        check_advice: CheckAdvice | None = None,
        fallback: Advise | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.header: Header | None = None
        self.headers = self.contexts = self.decisions = self.refused = 0
        self._to_compiler = to_compiler
        self._check_advice = check_advice
        self._fallback = fallback
        self._listener = listener
        self._sender: AdviceSender | None = None
        self._reader = ObservationReader(
            receive, correct=correct, on_header=self._on_header, on_context=self._on_context
        )

    def observe(self) -> Observation | None:
        """The next decision, a view that is valid until the next call; None once the compiler is gone.

        Raises:
            ChannelError: the last decision waits for its answer, or the compiler breaks the protocol or falls silent.
        """
        if self._reader.delivered != self.decisions:
            raise ChannelError("the compiler waits for an answer: call answer() before observe()")
        return self._reader.read()

    def answer(self, value: object) -> None:
        """Send the advice for the decision that `observe` returned.

        Raises:
            ChannelError: there is no open question, or the advice is not acceptable and there is no fallback.
        """
        reader, sender = self._reader, self._sender
        observation = reader.observation
        if observation is None or sender is None or reader.delivered == self.decisions:
            raise ChannelError("the compiler asks nothing: call observe() before answer()")
        refusal = sender.send(observation.features, value)
        if refusal is not None:
            self._fall_back(observation, sender, value, refusal)
        self.decisions += 1
        if self._listener is not None:
            self._listener.on_advice(observation, sender.array)

    def progress(self) -> int | None:
        """A number that changes with each message of the compiler; None while it waits for our answer."""
        return self.headers + self.contexts + self.decisions if self._reader.delivered == self.decisions else None

    def _fall_back(self, observation: Observation, sender: AdviceSender, value: object, refusal: str) -> None:
        where = f"decision {observation.number} of context {observation.context!r}"
        if self._fallback is None:
            raise ChannelError(f"{where}: advice {_shown(value)} is refused: {refusal}")
        self.refused += 1
        second = sender.send(observation.features, self._fallback(observation))
        if second is not None:
            raise ChannelError(f"{where}: advice {_shown(value)} and its fallback are refused: {refusal}; {second}")

    def _on_header(self, header: Header) -> None:
        if header.advice is None:
            raise ChannelError("the compiler's header names no advice: it is that of a training log, not of a channel")
        self._forget_unread_advice()
        self.header = header
        self.headers += 1
        self._sender = AdviceSender(header.advice, self._to_compiler, self._check_advice)
        if self._listener is not None:
            self._listener.on_header(header)

    def _on_context(self, name: str) -> None:
        self.contexts += 1
        if self._listener is not None:
            self._listener.on_context(name)

    def _forget_unread_advice(self) -> None:
        # A compiler that crashed between question and answer left its advice in the pipe; it is not for the next one.
        try:
            while os.read(self._to_compiler, 4096):
                pass
        except BlockingIOError:
            pass


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:60]}…"
