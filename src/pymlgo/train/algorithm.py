"""What a training session asks of an algorithm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from pymlgo.train.checkpoint import State
from pymlgo.train.workshop import Event


class Algorithm(Protocol):
    """One way to learn. Its compiles and candidates go through the session's `Workshop`, which keeps the best."""

    @property
    def labels(self) -> int:
        """Labelled decisions so far; 0 for an algorithm that labels none."""

    def run(self) -> Iterator[Event]:
        """Do the work, piece by piece; `state` is asked for only after the events "sweep" and "round".

        Raises:
            CorpusError: nothing can be learned from these modules.
        """

    def state(self) -> State:
        """What a resumed run needs in order to end as an uninterrupted one."""

    def restore(self, state: State) -> None:
        """Go on from `state`; what `run` compiles anew is the same again."""
