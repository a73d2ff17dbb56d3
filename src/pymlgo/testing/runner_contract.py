"""Checks that a model runner keeps the contract of LLVM's `MLModelRunner`; for runners of your own."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import MLGOError, SpecError
from pymlgo.runner.model_runner import MLModelRunner
from pymlgo.tensor_spec import TensorSpec

UNKNOWN_FEATURES = (
    TensorSpec("feature_that_no_model_knows", "int64_t", (3,)),
    TensorSpec("matrix_that_no_model_knows", "float", (2, 5)),
)
"""What a newer compiler may send to an older model."""


def check_model_runner(
    factory: Callable[[Sequence[TensorSpec]], MLModelRunner],
    inputs: Sequence[TensorSpec],
    *,
    evaluates: bool = True,
    knows_types: bool = True,
    seed: int = 0,
) -> None:
    """Raise an `AssertionError` that names the broken clause, or return.

    The clauses: every input has a buffer of its spec's type, shape and size; buffers do not overlap, keep their
    address and their values over `evaluate` and `switch_context`, and outlive garbage collection; untyped and typed
    access show the same bytes; features that the model does not know get a buffer all the same, and do not change the
    decision; equal features make equal decisions; the advice fits its spec; indices outside and a second buffer are
    refused; a feature under a known name but of another type is refused, naming it.

    Args:
        factory: makes a runner for the given inputs; called several times.
        inputs: features that the runner's model knows.
        evaluates: False for a runner that has no model (`NoInferenceModelRunner`): `evaluate` must then raise.
        knows_types: False for a runner that takes any features (`InteractiveModelRunner`): nothing can mismatch.
        seed: of the values that the buffers are filled with.
    """
    rng = np.random.default_rng(seed)
    every = (*inputs, *UNKNOWN_FEATURES)
    runner = factory(every)
    _check_buffers(runner, every)
    _check_refusals(runner, every)
    addresses = [runner.get_tensor(index).ctypes.data for index in range(len(every))]
    for _ in range(3):
        values = _filled(runner, every, rng)
        runner.switch_context("a function")
        if evaluates:
            runner.evaluate()
            _check_kept(runner, every, values, addresses)
            _check_evaluation(runner, rng, known=len(inputs), values=values)
        else:
            _check_refusal_to_evaluate(runner)
        gc.collect()
        _check_kept(runner, every, values, addresses)
    if evaluates and knows_types:
        _check_mismatch(factory, inputs)


def _check_buffers(runner: MLModelRunner, every: Sequence[TensorSpec]) -> None:
    _require(runner.inputs == tuple(every), "inputs are the specs given at construction, in their order")
    ranges = []
    for index, spec in enumerate(every):
        tensor, untyped = runner.get_tensor(index), runner.get_tensor_untyped(index)
        _require(tensor.dtype == spec.dtype, f"get_tensor({index}) has the type of {spec.to_json()}")
        _require(tensor.shape == spec.shape, f"get_tensor({index}) has the shape of {spec.to_json()}")
        _require(
            tensor.flags.c_contiguous and tensor.flags.writeable, f"get_tensor({index}) is contiguous and writable"
        )
        _require(untyped.nbytes == spec.byte_size, f"get_tensor_untyped({index}) has {spec.byte_size} bytes")
        tensor[...] = 1
        _require(bytes(untyped) == tensor.tobytes(), f"both ways to input {index} show the same bytes")
        ranges.append((tensor.ctypes.data, tensor.ctypes.data + tensor.nbytes))
    ranges.sort()
    apart = all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))
    _require(apart, "buffers do not overlap")


def _check_refusals(runner: MLModelRunner, every: Sequence[TensorSpec]) -> None:
    for index in (-1, len(every)):
        _require(_raises(SpecError, partial(runner.get_tensor, index)), f"index {index} is refused")
    again = _raises(SpecError, lambda: runner.set_up_buffer_for_tensor(0, every[0], None))
    _require(again, "a second buffer for an input is refused: users may have kept the first one's address")


def _check_evaluation(
    runner: MLModelRunner, rng: np.random.Generator, *, known: int, values: Sequence[AnyArray]
) -> None:
    first = runner.evaluate()
    untyped = runner.evaluate_untyped()
    advice = runner.advice
    _require(
        untyped.dtype == advice.dtype and untyped.size == advice.element_count, f"the advice is {advice.to_json()}"
    )
    _require(untyped.reshape(-1)[0].item() == first, "equal features make equal decisions, typed or untyped")
    for index in range(known, len(values)):
        _fill(runner.get_tensor(index), rng)
    _require(runner.evaluate() == first, "features that the model does not know do not change the decision")
    for index in range(known, len(values)):
        runner.get_tensor(index)[...] = values[index]


def _check_refusal_to_evaluate(runner: MLModelRunner) -> None:
    _require(_raises(MLGOError, runner.evaluate), "without a model, evaluate raises")


def _check_kept(
    runner: MLModelRunner, every: Sequence[TensorSpec], values: Sequence[AnyArray], addresses: Sequence[int]
) -> None:
    for index, spec in enumerate(every):
        tensor = runner.get_tensor(index)
        _require(tensor.ctypes.data == addresses[index], f"the buffer of {spec.name!r} keeps its address")
        _require(tensor.tobytes() == values[index].tobytes(), f"evaluate leaves the buffer of {spec.name!r} as it is")


def _check_mismatch(factory: Callable[[Sequence[TensorSpec]], MLModelRunner], inputs: Sequence[TensorSpec]) -> None:
    first = inputs[0]
    for changed in (
        TensorSpec(first.name, "double" if first.type != "double" else "float", first.shape),
        TensorSpec(first.name, first.type, (*first.shape, 2)),
    ):
        try:
            factory((changed, *inputs[1:]))
        except MLGOError as error:
            _require(first.name in str(error), f"the refusal of another {first.name!r} names it, found: {error}")
        else:
            raise AssertionError(f"the model takes {first.to_json()}, but {changed.to_json()} was accepted")


def _filled(runner: MLModelRunner, every: Sequence[TensorSpec], rng: np.random.Generator) -> list[AnyArray]:
    for index in range(len(every)):
        _fill(runner.get_tensor(index), rng)
    return [runner.get_tensor(index).copy() for index in range(len(every))]


def _fill(tensor: AnyArray, rng: np.random.Generator) -> None:
    if tensor.dtype.kind == "f":
        tensor[...] = rng.normal(0, 10, tensor.shape)
    else:
        tensor[...] = rng.integers(0, 100, tensor.shape)


def _raises(kind: type[BaseException], action: Callable[[], object]) -> bool:
    try:
        action()
    except kind:
        return True
    return False


def _require(holds: bool, clause: str) -> None:
    if not holds:
        raise AssertionError(f"MLModelRunner's contract is broken: {clause}")
