"""One decision that the compiler asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import ChannelError
from pymlgo.training_log.header import Header

Correct: TypeAlias = Callable[[Header], Header]
"""What a compiler's header should have said, for a compiler that puts other tensors into its observations than it says.
The corrected features describe the observation from its start; they may leave out its end."""

LARGEST_OBSERVATION_BYTES = 256 << 20
"""A header that asks for more is taken for garbage; LLVM's largest, the eviction advisor's, takes 3.4 KiB."""


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
