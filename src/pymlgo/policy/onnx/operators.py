"""How an ONNX node becomes nodes of the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError
from pymlgo.policy.builder import GraphBuilder, Value
from pymlgo.policy.onnx.writer import SAME
from pymlgo.policy.trees import Trees
from pymlgo.policy.values import LARGEST_RANK


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """One node: its operands by index, those that are constants, its attributes as Python has them.

    `type_name` gives LLVM's name of an element type's number.
    """

    make: GraphBuilder
    operand: Callable[[int], Value]
    constant: Callable[[int], AnyArray | None]
    count: int
    attributes: Mapping[str, Any]
    type_name: Callable[[int], str]

    def operands(self) -> tuple[Value, ...]:
        """All of them."""
        return tuple(self.operand(index) for index in range(self.count))

    def integers(self, index: int, attribute: str | None = None) -> tuple[int, ...] | None:
        """A constant operand of a few integers, or the attribute that older versions have; None where neither is."""
        if attribute is not None and attribute in self.attributes:
            return tuple(int(each) for each in self.attributes[attribute])
        if index >= self.count:
            return None
        elements = self.constant(index)
        if elements is None or elements.dtype.kind != "i" or elements.size > LARGEST_RANK:
            raise PolicyError(f"operand {index} must be a constant of at most {LARGEST_RANK} integers")
        return tuple(int(each) for each in elements.ravel())


Converter: TypeAlias = Callable[[Converted], Value]


def attributes_of(onnx: Any, node: Any) -> dict[str, Any]:
    """The attributes of a node: numbers, strings, lists and tensors."""
    return {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}


def _axis(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


def _plain(op: str) -> Converter:
    return lambda given: given.make.apply(op, *given.operands())


def _reshape(given: Converted) -> Value:
    value, shape = given.operand(0), given.integers(1) or ()
    known = 1
    sizes = [value.type.shape[axis] if size == 0 else size for axis, size in enumerate(shape)]
    for size in sizes:
        known *= size if size != -1 else 1
    return value.reshape(*(value.type.element_count // max(known, 1) if size == -1 else size for size in sizes))


def _flatten(given: Converted) -> Value:
    value = given.operand(0)
    axis = _axis(int(given.attributes.get("axis", 1)), value.type.rank)
    rows = int(np.prod(value.type.shape[:axis], dtype=np.int64))
    return value.reshape(rows, value.type.element_count // rows)


def _unsqueeze(given: Converted) -> Value:
    value, axes = given.operand(0), given.integers(1, "axes") or ()
    for axis in sorted(_axis(axis, value.type.rank + len(axes)) for axis in axes):
        value = given.make.apply("EXPAND_DIMS", value, axis=axis)
    return value


def _squeeze(given: Converted) -> Value:
    value, axes = given.operand(0), given.integers(1, "axes")
    if axes is None:
        axes = tuple(axis for axis, size in enumerate(value.type.shape) if size == 1)
    return given.make.apply("SQUEEZE", value, axes=tuple(sorted(_axis(axis, value.type.rank) for axis in axes)))


def _transpose(given: Converted) -> Value:
    value = given.operand(0)
    order = given.attributes.get("perm", range(value.type.rank - 1, -1, -1))
    return given.make.apply("TRANSPOSE", value, permutation=tuple(int(each) for each in order))


def _slice(given: Converted) -> Value:
    value = given.operand(0)
    starts, ends = given.integers(1, "starts") or (), given.integers(2, "ends") or ()
    axes = given.integers(3, "axes") or tuple(range(len(starts)))
    steps = given.integers(4) or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) or any(step != 1 for step in steps):
        raise PolicyError("only windows with step 1 are supported")
    begin, size = [0] * value.type.rank, list(value.type.shape)
    for axis, start, end in zip((_axis(each, value.type.rank) for each in axes), starts, ends, strict=True):
        length = value.type.shape[axis]
        begin[axis] = min(max(_axis(start, length), 0), length)
        size[axis] = min(max(_axis(end, length), 0), length) - begin[axis]
    return value.slice(begin, size)


def _concat(given: Converted) -> Value:
    values = given.operands()
    axis = _axis(int(given.attributes["axis"]), values[0].type.rank)
    return given.make.apply("CONCATENATION", *values, axis=axis)


def _gather(given: Converted) -> Value:
    table, indices = given.operand(0), given.operand(1)
    axis = _axis(int(given.attributes.get("axis", 0)), table.type.rank)
    constant = given.constant(1)
    if constant is not None and constant.size and constant.min() < 0:
        indices = given.make.constant(np.where(constant < 0, constant + table.type.shape[axis], constant))
    return given.make.apply("GATHER", table, indices, axis=axis)


def _cast(given: Converted) -> Value:
    return given.operand(0).cast(given.type_name(int(given.attributes["to"])))


def _clip(given: Converted) -> Value:
    value = given.operand(0)
    if given.count > 1:
        value = value.maximum(given.operand(1))
    return value.minimum(given.operand(2)) if given.count > 2 else value


def _gemm(given: Converted) -> Value:
    attributes = given.attributes
    plain = (
        attributes.get("alpha", 1.0) == 1.0 and attributes.get("beta", 1.0) == 1.0 and not attributes.get("transA", 0)
    )
    weights = given.constant(1)
    if not plain or weights is None:
        raise PolicyError("only x @ constant weights + bias is supported")
    kernel = weights if attributes.get("transB", 0) else weights.T
    operands = [given.operand(0), given.make.constant(kernel)]
    if given.count > 2:
        bias = given.constant(2)
        if bias is None:
            raise PolicyError("the bias must be a constant")
        operands.append(given.make.constant(np.broadcast_to(bias.ravel(), (kernel.shape[0],))))
    return given.make.apply("FULLY_CONNECTED", *operands, activation="none")


def _matmul(given: Converted) -> Value:
    weights = given.constant(1)
    if weights is None or weights.ndim != 2:
        raise PolicyError("only x @ constant matrix is supported")
    kernel = given.make.constant(weights.T)
    return given.make.apply("FULLY_CONNECTED", given.operand(0), kernel, activation="none")


def _reduction(op: str) -> Converter:
    def convert(given: Converted) -> Value:
        value = given.operand(0)
        axes = given.integers(1, "axes") or tuple(range(value.type.rank))
        keep = bool(given.attributes.get("keepdims", 1))
        ordered = tuple(sorted(_axis(axis, value.type.rank) for axis in axes))
        return given.make.apply(op, value, axes=ordered, keep_dims=keep)

    return convert


def _last_axis(op: str) -> Converter:
    def convert(given: Converted) -> Value:
        value = given.operand(0)
        if _axis(int(given.attributes.get("axis", -1)), value.type.rank) != value.type.rank - 1:
            raise PolicyError("only over the last axis")
        return given.make.apply(op, value)

    return convert


def _arg_max(given: Converted) -> Value:
    value = given.operand(0)
    if given.attributes.get("select_last_index", 0):
        raise PolicyError("only the first of equals is supported")
    axis = _axis(int(given.attributes.get("axis", 0)), value.type.rank)
    made = given.make.apply("ARG_MAX", value, axis=axis, type="int64_t")
    return given.make.apply("EXPAND_DIMS", made, axis=axis) if given.attributes.get("keepdims", 1) else made


def _elu(given: Converted) -> Value:
    if given.attributes.get("alpha", 1.0) != 1.0:
        raise PolicyError("only alpha 1 is supported")
    return given.make.apply("ELU", given.operand(0))


def _bucketize(given: Converted) -> Value:
    return given.make.apply("BUCKETIZE", given.operand(0), given.operand(1))


def _trees(given: Converted) -> Value:
    """Tables as the standard has them, back to nested nodes."""
    attributes = given.attributes
    if attributes.get("n_targets", 1) != 1 or attributes.get("aggregate_function", b"SUM") != b"SUM":
        raise PolicyError("only sums of one target are supported")
    weights = dict(
        zip(
            zip(attributes["target_treeids"], attributes["target_nodeids"], strict=True),
            attributes["target_weights"],
            strict=True,
        )
    )
    rows = zip(*(attributes[f"nodes_{key}"] for key in _TREE_KEYS), strict=True)
    nodes = {(tree, node): rest for tree, node, *rest in rows}
    children = [
        (tree, child)
        for (tree, _), (_, _, mode, low, high) in nodes.items()
        if mode != b"LEAF"
        for child in (low, high)
    ]
    if len(set(children)) != len(children):  # so no walk from a root comes to a node twice
        raise PolicyError("a tree reaches a node in two ways")
    nested: dict[tuple[int, int], dict[str, object]] = {key: {} for key in nodes}
    for (tree, node), (feature, threshold, mode, low, high) in nodes.items():
        if mode == b"LEAF":
            nested[tree, node]["leaf_value"] = weights.get((tree, node), 0.0)
        elif mode != b"BRANCH_LEQ":
            raise PolicyError(f"a tree splits by {mode.decode(errors='replace')}, only BRANCH_LEQ is supported")
        else:
            below = {"left_child": nested[tree, low], "right_child": nested[tree, high]}
            nested[tree, node].update(split_feature=feature, threshold=threshold, **below)
    has_parent = set(children)
    roots = [nested[key] for key in nodes if key not in has_parent]
    base = attributes.get("base_values", [0.0])
    return Trees.from_nested(roots, base=float(base[0]) if base else 0.0).apply(given.make, given.operand(0))


_TREE_KEYS = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")

CONVERTERS: Mapping[str, Converter] = {
    **{name: _plain(op) for op, name in SAME.items() if op != "ELU"},
    "ArgMax": _arg_max,
    "Bucketize": _bucketize,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Elu": _elu,
    "Flatten": _flatten,
    "Gather": _gather,
    "Gemm": _gemm,
    "Identity": lambda given: given.operand(0),
    "LogSoftmax": _last_axis("LOG_SOFTMAX"),
    "MatMul": _matmul,
    "Max": _plain("MAXIMUM"),
    "Min": _plain("MINIMUM"),
    "ReduceMax": _reduction("REDUCE_MAX"),
    "ReduceMean": _reduction("MEAN"),
    "ReduceSum": _reduction("SUM"),
    "Reshape": _reshape,
    "Slice": _slice,
    "Softmax": _last_axis("SOFTMAX"),
    "Squeeze": _squeeze,
    "Tile": lambda given: given.operand(0).tile(*(given.integers(1) or ())),
    "Transpose": _transpose,
    "TreeEnsembleRegressor": _trees,
    "Unsqueeze": _unsqueeze,
}
"""By the node's type."""
