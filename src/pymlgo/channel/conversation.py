"""Questions and answers, whoever started the compiler."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import NoReturn, Protocol, TypeAlias

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.channel.advice import CheckAdvice, Send, advice_sender
from pymlgo.channel.observation import Correct, Observation
from pymlgo.channel.reader import ObservationReader, Receive
from pymlgo.errors import ChannelError
from pymlgo.training_log.header import Header

Advise: TypeAlias = Callable[[Observation], object]
"""The advice for a decision: a number, or an array that fits the advice's spec."""

AdviseFor: TypeAlias = Callable[[Header], Advise]
"""Makes the advice for a compiler from its header: features are bound by name there, once, and a policy that does not
fit the compiler is refused before its first decision."""


class Listener(Protocol):
    """Who wants to know what is said, e.g. to record it."""

    def on_header(self, header: Header) -> None:
        """A compiler introduced itself; there may be several in one conversation."""

    def on_context(self, name: str) -> None:
        """A context began; it may have no decision at all."""

    def on_advice(self, observation: Observation, advice: AnyArray) -> None:
        """`advice` was sent for `observation`; both are views, valid until the next decision."""


class Conversation:
    """Reads decisions with `observe` and answers each with `answer`; or `answer_all` does both, which is faster.

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
        gone: Callable[[], None] = lambda: None,
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
        self._send: Send = _no_compiler
        self._advice: AnyArray = np.zeros(0)
        self._asked: Observation | None = None
        self._reader = ObservationReader(
            receive, gone=gone, correct=correct, on_header=self._on_header, on_context=self._on_context
        )
        self._observations = self._reader.observations()

    def observe(self) -> Observation | None:
        """The next decision, a view that is valid until the next call; None once the compiler is gone.

        Raises:
            ChannelError: the last decision waits for its answer, or the compiler breaks the protocol or falls silent.
        """
        if self._asked is not None:
            raise ChannelError("the compiler waits for an answer: call answer() before observe()")
        self._asked = next(self._observations, None)
        return self._asked

    def answer(self, value: object) -> None:
        """Send the advice for the decision that `observe` returned.

        Raises:
            ChannelError: there is no open question, or the advice is not acceptable and there is no fallback.
        """
        observation = self._asked
        if observation is None:
            raise ChannelError("the compiler asks nothing: call observe() before answer()")
        self._reply(observation, value)
        self._asked = None

    def answer_all(self, on_header: AdviseFor) -> None:
        """Answer until the compiler is gone, with what `on_header` makes of each header that asks something.

        May be called again when another compiler comes.
        """
        if inspect.getgeneratorstate(self._observations) == inspect.GEN_CLOSED:
            self._observations = self._reader.observations()
        introduced = 0
        advise: Advise = _no_compiler
        reply = self._reply
        for observation in self._observations:
            if self.headers != introduced:  # another compiler may send an equal header
                introduced = self.headers
                advise = on_header(observation.header)
            reply(observation, advise(observation))

    def is_waiting(self) -> bool:
        """Whether the compiler waits for our answer; may be asked by another thread."""
        return inspect.getgeneratorstate(self._observations) == inspect.GEN_SUSPENDED

    def progress(self) -> int:
        """A number that changes with each message of the compiler; may be asked by another thread."""
        return self.headers + self.contexts + self.decisions

    def _reply(self, observation: Observation, value: object) -> None:
        refusal = self._send(value)
        if refusal is not None:
            self._fall_back(observation, value, refusal)
        self.decisions += 1
        if self._listener is not None:
            self._listener.on_advice(observation, self._advice)

    def _fall_back(self, observation: Observation, value: object, refusal: str) -> None:
        where = f"decision {observation.number} of context {observation.context!r}"
        if self._fallback is None:
            raise ChannelError(f"{where}: advice {_shown(value)} is refused: {refusal}")
        self.refused += 1
        second = self._send(self._fallback(observation))
        if second is not None:
            raise ChannelError(f"{where}: advice {_shown(value)} and its fallback are refused: {refusal}; {second}")

    def _on_header(self, observation: Observation) -> None:
        header = observation.header
        if header.advice is None:
            raise ChannelError("the compiler's header names no advice: it is that of a training log, not of a channel")
        self._forget_unread_advice()
        self.header = header
        self.headers += 1
        self._send, self._advice = advice_sender(
            header.advice, self._to_compiler, self._check_advice, observation.features
        )
        if self._listener is not None:
            self._listener.on_header(header)

    def _on_context(self, name: str) -> None:
        self.contexts += 1
        if self._listener is not None:
            self._listener.on_context(name)

    def _forget_unread_advice(self) -> bool:
        """Take advice that nobody read out of the pipe; whether there was any."""
        # A compiler that crashed between question and answer left it there; it is not for the next one.
        found = False
        try:
            while os.read(self._to_compiler, 4096):
                found = True
        except BlockingIOError:
            pass
        return found


def _no_compiler(value: object) -> NoReturn:
    raise ChannelError(f"no compiler asked for {_shown(value)}")


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:60]}…"
