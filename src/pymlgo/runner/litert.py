"""The door to LiteRT, which evaluates `.tflite` files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError
from pymlgo.optional import need


class LiteRTModel:
    """A `.tflite` file as a function from inputs by name to outputs by name.

    Args:
        file: the model.
        inputs: for each input's name the tensor's in the file.
        outputs: for each output's name the tensor's in the file.

    Raises:
        MissingDependency: LiteRT is not installed.
        PolicyError: it cannot load the file, or the file lacks a tensor.
    """

    def __init__(self, file: Path, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> None:
        litert = need("ai_edge_litert.interpreter", extra="tflite", purpose="evaluate .tflite files")
        try:
            # Without delegates: their start-up message goes to stderr, and they do not pay at this size.
            self._interpreter = litert.Interpreter(
                model_content=file.read_bytes(),
                experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )
            self._interpreter.allocate_tensors()
        except (OSError, RuntimeError, ValueError) as error:
            raise PolicyError(f"{file}: LiteRT cannot load it: {error}") from error
        given = {detail["name"]: detail["index"] for detail in self._interpreter.get_input_details()}
        made = {detail["name"]: detail["index"] for detail in self._interpreter.get_output_details()}
        for kind, wanted, there in (("input", inputs, given), ("output", outputs, made)):
            for tensor in wanted.values():
                if tensor not in there:
                    raise PolicyError(f"{file}: LiteRT finds no {kind} {tensor!r}")
        self._inputs = {name: given[tensor] for name, tensor in inputs.items()}
        self._outputs = {name: made[tensor] for name, tensor in outputs.items()}

    def __call__(self, inputs: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
        """The outputs for these inputs, copied out of the interpreter."""
        for name, index in self._inputs.items():
            self._interpreter.set_tensor(index, inputs[name])
        self._interpreter.invoke()
        return {name: np.asarray(self._interpreter.get_tensor(index)) for name, index in self._outputs.items()}
