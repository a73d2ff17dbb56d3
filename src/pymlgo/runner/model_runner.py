"""The abstraction that a compiler sees of a model: buffers for features, and a decision made of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError, SpecError
from pymlgo.tensor_spec import TensorSpec


class MLModelRunner(ABC):
    """Features go into buffers by index, `evaluate` makes the decision of what they hold.

    For implementers: call `set_up_buffer_for_tensor` for every input in `__init__`, with a buffer of your own, or with
    None where the model does not know the feature (the runner then makes one, so that users need not care), and make
    the decision in `evaluate_untyped`. `testing.runner_contract.check_model_runner` checks a runner of yours.

    For users: fill `get_tensor(i)`, i being the place of the spec in the list given at construction; the arrays stay
    where they are as long as the runner lives, and keep their values from one `evaluate` to the next.

    Source: llvm/Analysis/MLModelRunner.h (LLVM 22). Departures: names follow Python's case; `evaluate` knows the type
    of the advice instead of being told it; a second input of the same name, a buffer of the wrong type or an index
    outside raise `SpecError`.
    """

    def __init__(self, inputs: Sequence[TensorSpec], advice: TensorSpec) -> None:
        names = [spec.name for spec in inputs]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise SpecError(f"features are told apart by name, {repeated[0]!r} stands there twice")
        self._inputs = tuple(inputs)
        self._advice = advice
        self._buffers: list[AnyArray | None] = [None] * len(inputs)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The features, in the order of their indices."""
        return self._inputs

    @property
    def advice(self) -> TensorSpec:
        """The decision."""
        return self._advice

    def set_up_buffer_for_tensor(self, index: int, spec: TensorSpec, buffer: AnyArray | None) -> None:
        """Take `buffer` as the place of the input `index`; None makes the runner own one of zeros.

        Raises:
            SpecError: `spec` is not the input's, the buffer is none for it, or the input has one already.
        """
        if spec != self._inputs[self._checked(index)]:
            raise SpecError(f"input {index} is {self._inputs[index].to_json()}, found {spec.to_json()}")
        if self._buffers[index] is not None:
            raise SpecError(f"input {index} ({spec.name!r}) has a buffer; users may have kept its address")
        if buffer is None:
            buffer = np.zeros(spec.shape, spec.dtype)
        usable = buffer.dtype == spec.dtype and buffer.shape == spec.shape
        if not (usable and buffer.flags.c_contiguous and buffer.flags.writeable):
            raise SpecError(
                f"the buffer of {spec.name!r} must be a contiguous writable {spec.type} {list(spec.shape)}, "
                f"found {buffer.dtype} {list(buffer.shape)}"
            )
        self._buffers[index] = buffer

    def get_tensor(self, index: int) -> AnyArray:
        """The buffer of an input: an array of the spec's type and shape, to be filled in place."""
        return self._buffer(index)

    def get_tensor_untyped(self, index: int) -> memoryview:
        """The buffer of an input as writable bytes."""
        return memoryview(self._buffer(index).reshape(-1).view(np.uint8).data)

    def evaluate(self) -> int | float:
        """The decision for what the buffers hold: the first element of the advice."""
        decided: int | float = self.evaluate_untyped().item(0)
        return decided

    @abstractmethod
    def evaluate_untyped(self) -> AnyArray:
        """The advice tensor for what the buffers hold, which stay as they are; the next call may overwrite it."""

    @property
    def extra_outputs(self) -> tuple[TensorSpec, ...]:
        """What the model computes beside the decision, for a log."""
        return ()

    def extra_output(self, index: int) -> AnyArray:
        """The value of an extra output in the last evaluation.

        Raises:
            SpecError: there is no such output, or nothing was evaluated.
        """
        raise SpecError(f"the model has {len(self.extra_outputs)} extra outputs, found index {index}")

    def switch_context(self, name: str) -> None:  # noqa: B027  # most runners have nothing to do
        """The next decisions belong to the function or module `name`."""

    def _checked(self, index: int) -> int:
        if not 0 <= index < len(self._inputs):
            raise SpecError(f"there are {len(self._inputs)} inputs, found index {index}")
        return index

    def _buffer(self, index: int) -> AnyArray:
        buffer = self._buffers[self._checked(index)]
        if buffer is None:
            raise SpecError(
                f"input {index} ({self._inputs[index].name!r}) has no buffer",
                hint="a runner calls set_up_buffer_for_tensor for every input when it is made",
            )
        return buffer


def check_same_tensor(asked: TensorSpec, known: TensorSpec, model: str) -> None:
    """Accept a feature that compiler and model describe alike (`port` aside).

    Raises:
        PolicyError: they differ in type or shape.
    """
    if (asked.type, asked.shape) != (known.type, known.shape):
        raise PolicyError(
            f"feature {asked.name!r}: {model} takes {known.type} {list(known.shape)}, "
            f"the compiler has {asked.type} {list(asked.shape)}",
            hint="the model was made for another LLVM or target",
        )
