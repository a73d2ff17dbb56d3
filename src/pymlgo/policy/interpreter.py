"""The graph's meaning, in numpy: every other way to run a policy is compared with this one.

Float32 arithmetic, operation by operation, in the orders that `ops` fixes. Everything is computed for a batch: a value
of static shape s is an array [n, *s], or [1, *s] where it does not depend on the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from pymlgo.arrays import AnyArray, Float32Array
from pymlgo.errors import PolicyError, SpecError
from pymlgo.policy import elementary
from pymlgo.policy.graph import Graph, Node, live_nodes
from pymlgo.policy.operands import integer, integers, real
from pymlgo.policy.values import VALUE_TYPES, Attribute
from pymlgo.tensor_spec import TensorSpec

Kernel: TypeAlias = Callable[..., AnyArray]

_CHUNK_ELEMENTS = 1 << 15
"""Rows of a dense layer are taken in pieces whose accumulators (128 KiB) stay in the cache."""

_FEW_ROWS = 4
"""Up to here a dense layer is fastest as one running sum over all its products."""


class Interpreter:
    """A graph made ready to run many times; only what the outputs need is computed.

    Raises:
        PolicyError: from the calls, where an input is missing or has the wrong type or shape.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._constants = {name: array[np.newaxis] for name, array in graph.constants.items()}
        nodes = live_nodes(graph, (output.value for output in graph.outputs))
        self._steps = tuple((node.output, *_prepared(node, graph)) for node in nodes)

    def __call__(self, inputs: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
        """The outputs by name for one observation; inputs are `[*shape]`, others than the graph's are ignored."""
        batched = {spec.name: _checked(spec, inputs, 0)[np.newaxis] for spec in self.graph.inputs}
        return {name: value[0] for name, value in self._run(batched, 1).items()}

    def batch(self, inputs: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
        """The outputs by name, `[n, *shape]`, for n observations; every input is `[n, *shape]`."""
        batched = {spec.name: _checked(spec, inputs, 1) for spec in self.graph.inputs}
        sizes = {len(array) for array in batched.values()}
        if len(sizes) > 1:
            raise PolicyError(f"inputs of one batch differ in length: {sorted(sizes)}")
        return self._run(batched, sizes.pop() if sizes else 1)

    def _run(self, inputs: dict[str, AnyArray], count: int) -> dict[str, AnyArray]:
        values: dict[str, AnyArray] = {**self._constants, **inputs}
        with np.errstate(all="ignore"):  # inf and NaN are values here
            for name, kernel, operands in self._steps:
                values[name] = kernel(*(values[operand] for operand in operands))
        outputs = {}
        for output in self.graph.outputs:
            value = values[output.value]
            outputs[output.name] = np.broadcast_to(value, (count, *value.shape[1:])) if len(value) != count else value
        return outputs


def evaluate(graph: Graph, inputs: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """The outputs by name for one observation (see `Interpreter`, which is faster when used more than once)."""
    return Interpreter(graph)(inputs)


def evaluate_batch(graph: Graph, inputs: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """The outputs by name, `[n, *shape]`, for inputs `[n, *shape]`."""
    return Interpreter(graph).batch(inputs)


def _checked(spec: TensorSpec, inputs: Mapping[str, AnyArray], leading: int) -> AnyArray:
    if spec.name not in inputs:
        raise PolicyError(f"input {spec.name!r} is missing", hint=f"given are {', '.join(inputs) or 'none'}")
    value = np.asarray(inputs[spec.name])
    if value.dtype == spec.dtype and value.shape[leading:] == spec.shape and value.ndim == leading + len(spec.shape):
        return value
    if leading == 0:
        try:
            return spec.array(value)
        except SpecError as error:
            raise PolicyError(f"input {spec.name!r}: {error}") from error
    raise PolicyError(
        f"input {spec.name!r}: expected {spec.type} [n, {', '.join(map(str, spec.shape))}], "
        f"found {value.dtype} {list(value.shape)}"
    )


# --- nodes to kernels ---------------------------------------------------------------------------------------


def _prepared(node: Node, graph: Graph) -> tuple[Kernel, tuple[str, ...]]:
    """The function of batched arrays that computes the node, and the values it takes."""
    attributes = node.attributes
    if node.op in _ELEMENTWISE:
        # The batch axis of a constant is 1, so numpy lines it up with whatever stands there.
        ranks = [None if name in graph.constants else graph.types[name].rank for name in node.inputs]
        return _aligned(_ELEMENTWISE[node.op], ranks, graph.types[node.output].rank), node.inputs
    if node.op == "FULLY_CONNECTED":
        weights = np.ascontiguousarray(graph.constants[node.inputs[1]].T)
        bias = graph.constants[node.inputs[2]] if len(node.inputs) == 3 else np.zeros(weights.shape[1], np.float32)
        relu = attributes["activation"] == "relu"
        return (lambda x: fully_connected(x, weights, bias, relu=relu)), node.inputs[:1]
    if node.op == "BUCKETIZE":
        boundaries = graph.constants[node.inputs[1]]
        return (lambda x: bucketize(x, boundaries)), node.inputs[:1]
    if node.op == "TreeEnsemble":
        tables = [graph.constants[name] for name in node.inputs[1:]]
        base = np.float32(real(attributes, "base"))
        return (lambda x: tree_ensemble(x, base, *tables)), node.inputs[:1]
    return _WITH_ATTRIBUTES[node.op](attributes), node.inputs


def _aligned(kernel: Kernel, ranks: list[int | None], rank: int) -> Kernel:
    """`kernel` with operands of lower rank padded after the batch axis, so that numpy's broadcasting is the graph's.

    Args:
        kernel: a function of batched arrays.
        ranks: the operands'; None for those that need no padding.
        rank: the result's.
    """
    if all(each in (None, rank) for each in ranks):
        return kernel
    padding = [() if each is None else (1,) * (rank - each) for each in ranks]

    def padded(*operands: AnyArray) -> AnyArray:
        return kernel(
            *(each.reshape(each.shape[0], *ones, *each.shape[1:]) for each, ones in zip(operands, padding, strict=True))
        )

    return padded


def _maximum(a: AnyArray, b: AnyArray) -> AnyArray:
    return np.where(a > b, a, b)


def _minimum(a: AnyArray, b: AnyArray) -> AnyArray:
    return np.where(a < b, a, b)


def _relu(x: AnyArray) -> AnyArray:
    return np.where(x < 0, np.zeros((), x.dtype), x)


def _joined(join: Callable[..., AnyArray], axis: int) -> Kernel:
    def kernel(*operands: AnyArray) -> AnyArray:
        counts = {len(each) for each in operands}
        if len(counts) == 1:
            return join(operands, axis=axis)
        count = max(counts)
        return join([np.broadcast_to(each, (count, *each.shape[1:])) for each in operands], axis=axis)

    return kernel


def _sliced(begin: tuple[int, ...], size: tuple[int, ...]) -> Kernel:
    window = (slice(None), *(slice(first, first + count) for first, count in zip(begin, size, strict=True)))
    return lambda x: x[window]


# --- kernels ------------------------------------------------------------------------------------------------


def cast(x: AnyArray, type_name: str) -> AnyArray:
    """`x` in another type; from float to integer it truncates, saturates, and takes NaN to 0."""
    dtype = VALUE_TYPES[type_name]
    if x.dtype.kind != "f" or dtype.kind not in "iu":
        return x.astype(dtype)
    limits = np.iinfo(dtype)
    above = x >= x.dtype.type(float(limits.max) + (limits.bits < 53))
    below = x <= x.dtype.type(limits.min)
    inside = np.where(above | below | np.isnan(x), x.dtype.type(0), x).astype(dtype)
    return np.where(above, dtype.type(limits.max), np.where(below, dtype.type(limits.min), inside))


def bucketize(x: AnyArray, boundaries: Float32Array) -> AnyArray:
    """How many boundaries are ≤ float32(x), as int32; NaN gives them all."""
    # numpy sorts NaN behind +inf, so NaN lands in the last bucket as in TFLite.
    return np.searchsorted(boundaries, x.astype(np.float32), side="right").astype(np.int32)


def fully_connected(x: Float32Array, weights: Float32Array, bias: Float32Array, *, relu: bool) -> Float32Array:
    """Dense layer of x f32[…, I], weights f32[I, O], bias f32[O]: the bias first, then i = 0…I-1 in order."""
    rows = x.reshape(-1, x.shape[-1])
    made = np.empty((len(rows), weights.shape[1]), np.float32)
    if len(rows) <= _FEW_ROWS:
        terms = np.empty((len(weights) + 1, weights.shape[1]), np.float32)
        for row, sums in zip(rows, made, strict=True):
            terms[0] = bias
            np.multiply(row[:, np.newaxis], weights, out=terms[1:])
            sums[:] = np.add.accumulate(terms, axis=0)[-1]  # in order; a plain sum may add pairwise
    else:
        _accumulate_rows(rows, weights, bias, made)
    made = made.reshape(*x.shape[:-1], weights.shape[1])
    return _relu(made) if relu else made


def _accumulate_rows(rows: Float32Array, weights: Float32Array, bias: Float32Array, made: Float32Array) -> None:
    step = max(1, _CHUNK_ELEMENTS // weights.shape[1])
    for first in range(0, len(rows), step):
        piece, columns = made[first : first + step], np.ascontiguousarray(rows[first : first + step].T)
        piece[:] = bias
        product = np.empty_like(piece)
        for column, weight in zip(columns, weights, strict=True):
            np.multiply(column[:, np.newaxis], weight, out=product)
            np.add(piece, product, out=piece)


def gather(table: AnyArray, indices: AnyArray, axis: int) -> AnyArray:
    """Elements of a batched table along `axis` (not counting the batch axis); indices outside are clamped."""
    inside = np.clip(indices, 0, table.shape[axis + 1] - 1)
    if len(table) == 1:
        taken = np.take(table[0], inside, axis=axis)
        return np.moveaxis(taken, axis, 0)
    count = max(len(table), len(inside))
    every = np.broadcast_to(inside, (count, *inside.shape[1:]))
    return np.stack([np.take(row, each, axis=axis) for row, each in zip(table, every, strict=True)])


def total(x: Float32Array) -> Float32Array:
    """Sum over the last axis, from 0, in order."""
    made = np.zeros(x.shape[:-1], np.float32)
    for index in range(x.shape[-1]):
        made = made + x[..., index]
    return made


def mean(x: Float32Array) -> Float32Array:
    """`total` divided by the number of elements."""
    return total(x) / np.float32(x.shape[-1])


def largest(x: Float32Array) -> Float32Array:
    """Largest over the last axis, from the first element, moving on where the next is greater."""
    made = x[..., 0]
    for index in range(1, x.shape[-1]):
        made = np.where(x[..., index] > made, x[..., index], made)
    return made


def softmax(x: Float32Array) -> Float32Array:
    """Over the last axis."""
    powers = elementary.exp(x - largest(x)[..., np.newaxis])
    return powers / total(powers)[..., np.newaxis]


def log_softmax(x: Float32Array) -> Float32Array:
    """Over the last axis."""
    shifted = x - largest(x)[..., np.newaxis]
    return shifted - elementary.log(total(elementary.exp(shifted)))[..., np.newaxis]


def arg_max(x: AnyArray, axis: int) -> AnyArray:
    """Index of the first largest along `axis`; starts at 0 and moves on where `x > best`."""
    moved = np.moveaxis(x, axis, -1)
    best, made = moved[..., 0], np.zeros(moved.shape[:-1], np.int64)
    for index in range(1, moved.shape[-1]):
        greater = moved[..., index] > best
        best = np.where(greater, moved[..., index], best)
        made[greater] = index
    return made


def _reduced(
    reduce: Callable[[Float32Array], Float32Array], x: Float32Array, attributes: Mapping[str, Attribute]
) -> Float32Array:
    axes = tuple(axis + 1 for axis in integers(attributes, "axes"))
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    flat = np.transpose(x, (*kept, *axes)).reshape(*(x.shape[axis] for axis in kept), -1)
    made = reduce(flat)
    return np.expand_dims(made, axes) if attributes["keep_dims"] else made


def tree_ensemble(
    x: Float32Array,
    base: np.float32,
    feature: AnyArray,
    threshold: Float32Array,
    left: AnyArray,
    right: AnyArray,
    leaf: Float32Array,
    roots: AnyArray,
) -> Float32Array:
    """Sum of trees over rows x f32[…, F], as `rules.tree_ensemble` defines it: f32[…, 1]."""
    rows = x.reshape(-1, x.shape[-1])
    made = np.empty(len(rows), np.float32)
    step = max(1, _CHUNK_ELEMENTS // len(roots))
    for first in range(0, len(rows), step):
        piece = rows[first : first + step]
        reached = _leaves_of(piece, feature, threshold, left, right, roots)
        terms = np.concatenate([np.full((1, len(piece)), base, np.float32), leaf[reached]])
        made[first : first + step] = np.add.accumulate(terms, axis=0)[-1]
    return made.reshape(*x.shape[:-1], 1)


def _leaves_of(
    rows: Float32Array,
    feature: AnyArray,
    threshold: Float32Array,
    left: AnyArray,
    right: AnyArray,
    roots: AnyArray,
) -> AnyArray:
    """The leaf that each tree leads each row to, i64[trees, rows]; all walk at once, a level a step."""
    at = np.repeat(roots.astype(np.int64), len(rows))
    row_of = np.tile(np.arange(len(rows)), len(roots))
    active = np.flatnonzero(at >= 0)
    while active.size:
        node = at[active]
        goes_left = rows[row_of[active], feature[node]] <= threshold[node]
        at[active] = np.where(goes_left, left[node], right[node])
        active = active[at[active] >= 0]
    return ~at.reshape(len(roots), len(rows))


_ELEMENTWISE: Mapping[str, Kernel] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "DIV": np.divide,
    "MAXIMUM": _maximum,
    "MINIMUM": _minimum,
    "ABS": np.abs,
    "NEG": np.negative,
    "SQRT": np.sqrt,
    "EXP": elementary.exp,
    "LOG": elementary.log,
    "TANH": elementary.tanh,
    "LOGISTIC": elementary.logistic,
    "ELU": elementary.elu,
    "RELU": _relu,
    "EQUAL": np.equal,
    "NOT_EQUAL": np.not_equal,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_OR": np.logical_or,
    "LOGICAL_NOT": np.logical_not,
    "SELECT_V2": np.where,
    "SOFTMAX": softmax,
    "LOG_SOFTMAX": log_softmax,
}


def _reshaped(shape: tuple[int, ...]) -> Kernel:
    return lambda x: x.reshape(len(x), *shape)


def _cast_to(type_name: str) -> Kernel:
    return lambda x: cast(x, type_name)


_WITH_ATTRIBUTES: Mapping[str, Callable[[Mapping[str, Attribute]], Kernel]] = {
    "RESHAPE": lambda a: _reshaped(integers(a, "shape")),
    "CAST": lambda a: _cast_to(str(a["type"])),
    "EXPAND_DIMS": lambda a: lambda x: np.expand_dims(x, integer(a, "axis") + 1),
    "SQUEEZE": lambda a: lambda x: np.squeeze(x, tuple(axis + 1 for axis in integers(a, "axes"))),
    "TRANSPOSE": lambda a: lambda x: np.transpose(x, (0, *(axis + 1 for axis in integers(a, "permutation")))),
    "TILE": lambda a: lambda x: np.tile(x, (1, *integers(a, "multiples"))),
    "SLICE": lambda a: _sliced(integers(a, "begin"), integers(a, "size")),
    "PACK": lambda a: _joined(np.stack, integer(a, "axis") + 1),
    "CONCATENATION": lambda a: _joined(np.concatenate, integer(a, "axis") + 1),
    "GATHER": lambda a: lambda table, indices: gather(table, indices, integer(a, "axis")),
    "SUM": lambda a: lambda x: _reduced(total, x, a),
    "MEAN": lambda a: lambda x: _reduced(mean, x, a),
    "REDUCE_MAX": lambda a: lambda x: _reduced(largest, x, a),
    "ARG_MAX": lambda a: lambda x: arg_max(x, integer(a, "axis") + 1).astype(VALUE_TYPES[str(a["type"])]),
}
