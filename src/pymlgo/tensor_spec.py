"""Names, element types and shapes of the tensors that LLVM and a model exchange."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import SpecError

ELEMENT_TYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        "float": np.dtype(np.float32),
        "double": np.dtype(np.float64),
        "int8_t": np.dtype(np.int8),
        "uint8_t": np.dtype(np.uint8),
        "int16_t": np.dtype(np.int16),
        "uint16_t": np.dtype(np.uint16),
        "int32_t": np.dtype(np.int32),
        "uint32_t": np.dtype(np.uint32),
        "int64_t": np.dtype(np.int64),
        "uint64_t": np.dtype(np.uint64),
    }
)
"""LLVM's spelling to numpy's, in the host's byte order: writer and reader share a host.

Source: SUPPORTED_TENSOR_TYPES in llvm/Analysis/TensorSpec.h (LLVM 22).
"""

LARGEST_TENSOR_BYTES = 1 << 31
"""A tensor beyond this is taken for a damaged header; LLVM's own sizes its buffers with a 32-bit product."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor on the wire: `shape` is row-major, `port` the output index of its op.

    Source: llvm/Analysis/TensorSpec.h (LLVM 22). Departure: a dimension below 1, an empty name or a tensor of 2 GiB is
    refused here, where LLVM goes on with it.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    port: int = 0

    def __post_init__(self) -> None:
        if not self.name:
            raise SpecError("a tensor needs a name, found an empty one")
        if self.type not in ELEMENT_TYPES:
            raise SpecError(
                f"tensor {self.name!r}: unknown element type {self.type!r}",
                hint=f"LLVM knows {', '.join(ELEMENT_TYPES)}",
            )
        if any(dimension < 1 for dimension in self.shape):
            raise SpecError(f"tensor {self.name!r}: shape {list(self.shape)} has a dimension below 1")
        if self.byte_size >= LARGEST_TENSOR_BYTES:
            raise SpecError(f"tensor {self.name!r}: shape {list(self.shape)} would take {self.byte_size} bytes")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of one element."""
        return ELEMENT_TYPES[self.type]

    @property
    def element_count(self) -> int:
        """Elements in the tensor."""
        return math.prod(self.shape)

    @property
    def byte_size(self) -> int:
        """Bytes of the whole tensor, as `getTotalTensorBufferSize()` counts them."""
        return self.element_count * self.dtype.itemsize

    def view(self, buffer: memoryview | bytes | bytearray, offset: int = 0) -> AnyArray:
        """The tensor that starts at `buffer[offset]`, shaped `shape`, without a copy.

        Raises:
            SpecError: fewer than `byte_size` bytes are left in `buffer`.
        """
        left = memoryview(buffer).nbytes - offset
        if offset < 0 or left < self.byte_size:
            raise SpecError(f"tensor {self.name!r} needs {self.byte_size} bytes at offset {offset}, {left} are left")
        return np.frombuffer(buffer, self.dtype, self.element_count, offset).reshape(self.shape)

    def array(self, value: object) -> AnyArray:
        """`value` as an array of this type and shape; a scalar or a flat list fits where its element count does.

        Raises:
            SpecError: another number of elements, or a value that the type cannot hold exactly.
        """
        try:
            given = np.asarray(value)
            with np.errstate(invalid="ignore", over="ignore"):  # what does not fit is found below
                converted = given.astype(self.dtype, copy=False)
        except (TypeError, ValueError, OverflowError) as error:
            raise SpecError(f"tensor {self.name!r} of {self.type} cannot hold {value!r}: {error}") from error
        if converted.size != self.element_count:
            raise SpecError(f"tensor {self.name!r} has shape {list(self.shape)}, found {list(given.shape)}")
        if self.dtype.kind in "iu" and not np.array_equal(converted, given):
            raise SpecError(f"tensor {self.name!r} of {self.type} cannot hold {value!r} exactly")
        return converted.reshape(self.shape)

    def to_dict(self) -> dict[str, Any]:
        """The JSON object, keys in LLVM's order."""
        return {"name": self.name, "type": self.type, "port": self.port, "shape": list(self.shape)}

    def to_json(self) -> str:
        """The JSON text exactly as LLVM prints it: no spaces, keys `name`, `type`, `port`, `shape`."""
        return json.dumps(self.to_dict(), separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_dict(cls, value: object) -> TensorSpec:
        """The spec that a parsed JSON object describes; other keys than the four are ignored, as LLVM does.

        Raises:
            SpecError: a key is missing or has the wrong type, or the spec itself is refused.
        """
        if not isinstance(value, Mapping):
            raise SpecError(f"a tensor spec is a JSON object, found {_shown(value)}")
        name, kind, port, shape = (_member(value, key) for key in ("name", "type", "port", "shape"))
        if not isinstance(name, str):
            raise SpecError(f"tensor spec: 'name' must be a string, found {_shown(name)}")
        if not isinstance(kind, str):
            raise SpecError(f"tensor {name!r}: 'type' must be a string, found {_shown(kind)}")
        if not _is_int(port):
            raise SpecError(f"tensor {name!r}: 'port' must be an integer, found {_shown(port)}")
        if not isinstance(shape, list) or not all(_is_int(dimension) for dimension in shape):
            raise SpecError(f"tensor {name!r}: 'shape' must be a list of integers, found {_shown(shape)}")
        return cls(name, kind, tuple(shape), port)

    @classmethod
    def from_json(cls, text: str | bytes) -> TensorSpec:
        """The spec that a JSON text describes.

        Raises:
            SpecError: the text is no JSON, or not that of a tensor spec.
        """
        try:
            return cls.from_dict(json.loads(text))
        except (ValueError, RecursionError) as error:
            if isinstance(error, SpecError):
                raise
            raise SpecError(f"a tensor spec must be JSON, found {_shown(text)}") from error


def _member(value: Mapping[str, Any], key: str) -> Any:
    if key not in value:
        raise SpecError(
            f"tensor spec {_shown(dict(value))} lacks {key!r}", hint="LLVM requires name, type, port and shape"
        )
    return value[key]


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
