"""Advice on its way to the compiler: made to fit, checked, sent."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.channel.observation import Observation
from pymlgo.errors import ChannelError, SpecError
from pymlgo.tensor_spec import TensorSpec

CheckAdvice: TypeAlias = Callable[[Mapping[str, AnyArray], AnyArray], str | None]
"""(features, advice) → None where the compiler may get it, else what is wrong with it."""

LARGEST_ADVICE_BYTES = 4096
"""`PIPE_BUF`: what a pipe takes in one piece. LLVM's advice takes 4 or 8 bytes."""

_STRUCT_CODES = {
    "float": "f",
    "double": "d",
    "int8_t": "b",
    "uint8_t": "B",
    "int16_t": "h",
    "uint16_t": "H",
    "int32_t": "i",
    "uint32_t": "I",
    "int64_t": "q",
    "uint64_t": "Q",
}


class AdviceSender:
    """Sends advice of one spec through one descriptor; `array` holds the value that was made to fit last."""

    def __init__(self, spec: TensorSpec, to_compiler: int, check: CheckAdvice | None) -> None:
        if spec.byte_size > LARGEST_ADVICE_BYTES:
            raise ChannelError(f"advice {spec.name!r} takes {spec.byte_size} bytes, more than any advisor of LLVM asks")
        self.array: AnyArray = np.zeros(spec.shape, spec.dtype)
        self._spec = spec
        self._bytes = memoryview(self.array.reshape(-1).view(np.uint8).data)
        self._to_compiler = to_compiler
        self._check = check
        self._pack_into = struct.Struct(f"={_STRUCT_CODES[spec.type]}").pack_into if spec.element_count == 1 else None

    def refusal(self, observation: Observation, value: object) -> str | None:
        """Make `value` fit into `array`; what is wrong with it, or None where `send` may send it."""
        try:
            self._fit(value)
        except SpecError as error:
            return str(error)
        return self._check(observation.features, self.array) if self._check is not None else None

    def send(self) -> None:
        """Write `array` to the compiler.

        Raises:
            ChannelError: the pipe is full: nobody reads the advice.
        """
        try:
            os.write(self._to_compiler, self._bytes)
        except BlockingIOError as error:
            raise ChannelError("the compiler does not read its advice: its pipe is full") from error

    def _fit(self, value: object) -> None:
        if self._pack_into is not None:
            plain = value.item() if isinstance(value, np.ndarray | np.generic) and value.size == 1 else value
            try:
                self._pack_into(self._bytes, 0, plain)
                return
            except (struct.error, OverflowError):  # it may still fit (1.0 for an integer), or deserves a better message
                pass
        self.array[...] = self._spec.array(value)
