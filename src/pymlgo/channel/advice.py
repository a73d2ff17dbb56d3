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

Send: TypeAlias = Callable[[object], str | None]
"""Send a value, made to fit; or what is wrong with it, and nothing is sent."""


def advice_sender(
    spec: TensorSpec, to_compiler: int, check: CheckAdvice | None, features: Mapping[str, AnyArray]
) -> tuple[Send, AnyArray]:
    """What sends advice to a compiler, and the array that holds what was sent last.

    Args:
        spec: the advice's.
        to_compiler: the descriptor to write to, non-blocking.
        check: says what must not be sent.
        features: the views on the decision at hand, for `check`.

    Raises:
        ChannelError: the spec is none of an advice; from the function: the pipe is full, nobody reads the advice.
    """
    if spec.byte_size > LARGEST_ADVICE_BYTES:
        raise ChannelError(f"advice {spec.name!r} takes {spec.byte_size} bytes, more than any advisor of LLVM asks")
    array: AnyArray = np.zeros(spec.shape, spec.dtype)
    data = memoryview(array.reshape(-1).view(np.uint8).data)
    pack_into = struct.Struct(f"={spec.element_count}{_STRUCT_CODES[spec.type]}").pack_into
    write = os.write

    def send(value: object) -> str | None:
        try:
            if type(value) in _PLAIN:
                pack_into(data, 0, value)
            else:
                _fit(value, spec, array)
        except (struct.error, OverflowError):  # it may still fit (1.0 for an integer), or deserves a better message
            try:
                _fit(value, spec, array)
            except SpecError as error:
                return str(error)
        except SpecError as error:
            return str(error)
        if check is not None and (refusal := check(features, array)) is not None:
            return refusal
        try:
            write(to_compiler, data)
        except BlockingIOError as error:
            raise ChannelError("the compiler does not read its advice: its pipe is full") from error
        return None

    return send, array


def _fit(value: object, spec: TensorSpec, array: AnyArray) -> None:
    if type(value) is np.ndarray and value.dtype == array.dtype and value.size == array.size:
        array[...] = value.reshape(array.shape)
    else:
        array[...] = spec.array(value)
