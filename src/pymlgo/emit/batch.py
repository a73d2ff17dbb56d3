"""A compiled policy called from Python: one foreign call for any number of observations."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError
from pymlgo.policy.compiled_library import load_library
from pymlgo.policy.graph import Graph


class CompiledBatch:
    """Fixed buffers for `size` observations, and the compiled policy that evaluates them in one call.

    `inputs[name]` and `outputs[name]` are arrays `[size, *shape]`, to be filled and read. Inputs lie one after the
    other in `block`, without gaps where all have one element type; so the features of a single observation of scalars
    can be stored in one assignment to `block.view(numpy.int64)`.

    Args:
        library: what `compile_policy` made of `graph`.
        graph: the policy's graph.
        size: observations a call.

    Raises:
        PolicyError: the library cannot be loaded, is not of this graph, or makes no instance on this CPU.
    """

    def __init__(self, library: Path, graph: Graph, size: int) -> None:
        self.size = size
        self._library = _loaded(library)
        self._instance = ctypes.c_void_p(self._library.mlgo_create())
        if not self._instance:
            raise PolicyError(f"{library} makes no instance here", hint="it may be compiled for another CPU")
        for kind, specs in (("input", graph.inputs), ("output", graph.output_specs)):
            found = [
                getattr(self._library, f"mlgo_{kind}_name")(index).decode()
                for index in range(getattr(self._library, f"mlgo_num_{kind}s")())
            ]
            if found != [spec.name for spec in specs]:
                raise PolicyError(f"{library} is another policy: its {kind}s are {', '.join(found)}")
        self.block = np.zeros(sum(spec.byte_size for spec in graph.inputs) * size, np.uint8)
        self.inputs: dict[str, AnyArray] = {}
        offset = 0
        for spec in graph.inputs:
            end = offset + spec.byte_size * size
            self.inputs[spec.name] = self.block[offset:end].view(spec.dtype).reshape(size, *spec.shape)
            offset = end
        self.outputs = {spec.name: np.zeros((size, *spec.shape), spec.dtype) for spec in graph.output_specs}
        self._pointers = (_pointers(self.inputs), _pointers(self.outputs))
        self._run = self._library.mlgo_run_batch
        self._arguments = (self._instance, ctypes.c_uint64(size), *self._pointers)

    def __del__(self) -> None:
        if getattr(self, "_instance", None):
            self._library.mlgo_destroy(self._instance)

    def run(self) -> None:
        """Evaluate all observations."""
        self._run(*self._arguments)

    def evaluate(self, inputs: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
        """The outputs, copied, for `size` observations by input name."""
        for name, array in self.inputs.items():
            array[...] = inputs[name]
        self.run()
        return {name: array.copy() for name, array in self.outputs.items()}


def _pointers(arrays: Mapping[str, AnyArray]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays.values()))


def _loaded(file: Path) -> ctypes.CDLL:
    library = load_library(file)
    library.mlgo_create.restype = ctypes.c_void_p
    library.mlgo_destroy.argtypes = [ctypes.c_void_p]
    for kind in ("input", "output"):
        name, count = getattr(library, f"mlgo_{kind}_name"), getattr(library, f"mlgo_num_{kind}s")
        name.restype, name.argtypes, count.restype = ctypes.c_char_p, [ctypes.c_uint32], ctypes.c_uint32
    return library
