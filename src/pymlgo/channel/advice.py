"""Advice on its way to the compiler: made to fit, checked, sent."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from pymlgo.arrays import AnyArray
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

_PLAIN = frozenset({bool, int, float})


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
        self._pack_into = struct.Struct(f"={spec.element_count}{_STRUCT_CODES[spec.type]}").pack_into

    def send(self, features: Mapping[str, AnyArray], value: object) -> str | None:
        """Send `value`, made to fit, for a decision with these features; or what is wrong with it, and nothing is sent.

        Raises:
            ChannelError: the pipe is full: nobody reads the advice.
        """
        try:
            if type(value) in _PLAIN:
                self._pack_into(self._bytes, 0, value)
            else:
                self._fit(value)
        except (struct.error, OverflowError):  # it may still fit (1.0 for an integer), or deserves a better message
            try:
                self._fit(value)
            except SpecError as error:
                return str(error)
        except SpecError as error:
            return str(error)
        if self._check is not None and (refusal := self._check(features, self.array)) is not None:
            return refusal
        try:
            os.write(self._to_compiler, self._bytes)
        except BlockingIOError as error:
            raise ChannelError("the compiler does not read its advice: its pipe is full") from error
        return None

    def _fit(self, value: object) -> None:
        array = self.array
        if type(value) is np.ndarray and value.dtype == array.dtype and value.size == array.size:
            array[...] = value.reshape(array.shape)
        else:
            array[...] = self._spec.array(value)
