"""A policy as an ONNX model, for tools that read nothing else; needs the extra `onnx`.

ONNX has no BUCKETIZE: the model carries a function `mlgo.Bucketize` that counts comparisons; other runtimes expand it,
our reader recognizes it. Trees become `ai.onnx.ml` TreeEnsembleRegressor. The arithmetic is the runtime's: its sums may
be ordered and fused otherwise than ours.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pymlgo import atomic_file
from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError
from pymlgo.optional import need
from pymlgo.policy.graph import Graph, Node
from pymlgo.policy.operands import integer, integers, real
from pymlgo.policy.policy import Policy
from pymlgo.policy.values import VALUE_TYPES

OPSET, ML_OPSET, IR_VERSION = 18, 3, 8
DOMAIN = "mlgo"
METADATA_PREFIX = "mlgo."

SAME = {
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
    "DIV": "Div",
    "ABS": "Abs",
    "NEG": "Neg",
    "SQRT": "Sqrt",
    "EXP": "Exp",
    "LOG": "Log",
    "TANH": "Tanh",
    "LOGISTIC": "Sigmoid",
    "ELU": "Elu",
    "RELU": "Relu",
    "EQUAL": "Equal",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
    "LOGICAL_NOT": "Not",
    "SELECT_V2": "Where",
}
"""Operators that ONNX has with the same operands and meaning."""


def write_onnx(policy: Policy, file: Path) -> None:
    """Write the policy to `file`; problem, defaults and provenance go into the model's metadata.

    Raises:
        MissingDependency: onnx is not installed.
        PolicyError: an operator has no ONNX form, or the file cannot be written.
    """
    onnx = need("onnx", extra="onnx", purpose="write ONNX models")
    if shared := {spec.name for spec in policy.graph.inputs} & {output.name for output in policy.graph.outputs}:
        raise PolicyError(f"{min(shared)!r} is both an input and an output, which ONNX cannot tell apart")
    model = _Writer(onnx, policy.graph).model()
    about = {"problem": policy.problem, "defaults": policy.defaults, "provenance": policy.provenance}
    texts = {"problem": policy.problem} | {key: json.dumps(about[key]) for key in ("defaults", "provenance")}
    onnx.helper.set_model_props(model, {f"{METADATA_PREFIX}{key}": text for key, text in texts.items()})
    onnx.checker.check_model(model)
    try:
        atomic_file.write_bytes(file, model.SerializeToString())
    except OSError as error:
        raise PolicyError(f"{file}: cannot be written: {error.strerror}") from error


class _Writer:
    def __init__(self, onnx: Any, graph: Graph) -> None:
        self.onnx = onnx
        self.helper = onnx.helper
        self.graph = graph
        self.nodes: list[Any] = []
        self.input_names = {spec.name for spec in graph.inputs}
        self.initializers: dict[str, AnyArray] = {}
        self.buckets = False

    def model(self) -> Any:
        for node in self.graph.nodes:
            self._node(node)
        for output in self.graph.outputs:
            self._add("Identity", [self._value(output.value)], output.name)
        inputs = [self._info(spec.name, spec.type, spec.shape) for spec in self.graph.inputs]
        outputs = [self._info(spec.name, spec.type, spec.shape) for spec in self.graph.output_specs]
        tensors = [self.onnx.numpy_helper.from_array(array, name) for name, array in self.initializers.items()]
        graph = self.helper.make_graph(self.nodes, "policy", inputs, outputs, tensors)
        opset = self.helper.make_opsetid
        return self.helper.make_model(
            graph,
            producer_name="pymlgo",
            ir_version=IR_VERSION,
            opset_imports=[opset("", OPSET), opset("ai.onnx.ml", ML_OPSET), opset(DOMAIN, 1)],
            functions=[self._bucketize_function()] if self.buckets else [],
        )

    def _info(self, name: str, type_name: str, shape: Sequence[int]) -> Any:
        return self.helper.make_tensor_value_info(name, self._type(type_name), list(shape))

    def _type(self, type_name: str) -> int:
        return int(self.helper.np_dtype_to_tensor_dtype(VALUE_TYPES[type_name]))

    def _add(self, op: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(self.helper.make_node(op, list(inputs), [output], domain=domain, **attributes))
        return output

    def _value(self, name: str) -> str:
        """The name of a value: inputs keep theirs, the rest is kept apart from the names of outputs."""
        inside = f"v.{name}"
        if name in self.graph.constants:
            self.initializers[inside] = self.graph.constants[name]
        return name if name in self.input_names else inside

    def _constant(self, base: str, elements: object, dtype: type = np.int64) -> str:
        name = f"{base}.{len(self.initializers)}"
        self.initializers[name] = np.asarray(elements, dtype)
        return name

    def _node(self, node: Node) -> None:
        made, attributes = self._value(node.output), node.attributes
        operands = [self._value(name) for name in node.inputs] if node.op != "TreeEnsemble" else []
        match node.op:
            case op if op in SAME:
                self._add(SAME[op], operands, made)
            case "NOT_EQUAL":
                self._add("Not", [self._add("Equal", operands, f"{made}.equal")], made)
            case "MAXIMUM" | "MINIMUM":  # not Max and Min, which treat NaN otherwise
                compare = "Greater" if node.op == "MAXIMUM" else "Less"
                self._add("Where", [self._add(compare, operands, f"{made}.first"), *operands], made)
            case "RESHAPE":
                self._add("Reshape", [*operands, self._constant(made, integers(attributes, "shape"))], made)
            case "EXPAND_DIMS":
                self._add("Unsqueeze", [*operands, self._constant(made, [integer(attributes, "axis")])], made)
            case "SQUEEZE":
                self._add("Squeeze", [*operands, self._constant(made, integers(attributes, "axes"))], made)
            case "TRANSPOSE":
                self._add("Transpose", operands, made, perm=list(integers(attributes, "permutation")))
            case "TILE":
                self._add("Tile", [*operands, self._constant(made, integers(attributes, "multiples"))], made)
            case "SLICE":
                begin, size = np.asarray(integers(attributes, "begin")), np.asarray(integers(attributes, "size"))
                self._add("Slice", [*operands, self._constant(made, begin), self._constant(made, begin + size)], made)
            case "PACK":
                axis = self._constant(made, [integer(attributes, "axis")])
                apart = [self._add("Unsqueeze", [each, axis], f"{made}.{i}") for i, each in enumerate(operands)]
                self._add("Concat", apart, made, axis=integer(attributes, "axis"))
            case "CONCATENATION":
                self._add("Concat", operands, made, axis=integer(attributes, "axis"))
            case "GATHER":
                self._gather(node, operands)
            case "CAST":
                self._add("Cast", operands, made, to=self._type(str(attributes["type"])))
            case "BUCKETIZE":
                self.buckets = True
                self._add("Bucketize", operands, made, domain=DOMAIN)
            case "FULLY_CONNECTED":
                self._fully_connected(node, operands)
            case "SUM" | "MEAN" | "REDUCE_MAX":
                op = {"SUM": "ReduceSum", "MEAN": "ReduceMean", "REDUCE_MAX": "ReduceMax"}[node.op]
                axes = self._constant(made, integers(attributes, "axes"))
                self._add(op, [*operands, axes], made, keepdims=int(bool(attributes["keep_dims"])))
            case "SOFTMAX" | "LOG_SOFTMAX":
                self._add("Softmax" if node.op == "SOFTMAX" else "LogSoftmax", operands, made, axis=-1)
            case "ARG_MAX":
                first = self._add("ArgMax", operands, f"{made}.index", axis=integer(attributes, "axis"), keepdims=0)
                self._add("Cast", [first], made, to=self._type(str(attributes["type"])))
            case "TreeEnsemble":
                self._trees(node)
            case _:
                raise PolicyError(f"{node.op} has no ONNX form")

    def _gather(self, node: Node, operands: list[str]) -> None:
        # ONNX counts negative indices from the end and fails outside; ours are clamped.
        made, axis = self._value(node.output), integer(node.attributes, "axis")
        table, indices = (self.graph.types[name] for name in node.inputs)
        low = self._add("Max", [operands[1], self._constant(made, 0, indices.dtype.type)], f"{made}.low")
        last = self._constant(made, table.shape[axis] - 1, indices.dtype.type)
        inside = self._add("Min", [low, last], f"{made}.inside")
        self._add("Gather", [operands[0], inside], made, axis=axis)

    def _fully_connected(self, node: Node, operands: list[str]) -> None:
        shape, result = self.graph.types[node.inputs[0]].shape, self._value(node.output)
        relu, flat = node.attributes["activation"] == "relu", len(shape) != 2
        made = f"{result}.linear" if relu or flat else result
        if flat:
            rows = self._constant(result, [-1, shape[-1]])
            operands = [self._add("Reshape", [operands[0], rows], f"{result}.rows"), *operands[1:]]
        self._add("Gemm", operands, made, transB=1)
        if flat:
            whole = self._constant(result, self.graph.types[node.output].shape)
            made = self._add("Reshape", [made, whole], f"{result}.whole" if relu else result)
        if relu:
            self._add("Relu", [made], result)

    def _trees(self, node: Node) -> None:
        feature, threshold, left, right, leaf, roots = (self.graph.constants[name] for name in node.inputs[1:])
        columns: dict[str, list[Any]] = {key: [] for key in _TREE_COLUMNS}
        targets: dict[str, list[Any]] = {key: [] for key in _TARGET_COLUMNS}
        for tree, root in enumerate(roots):
            numbers = _tree_numbers(int(root), left, right)
            for at, number in numbers.items():
                inner = at >= 0
                children = (numbers[int(left[at])], numbers[int(right[at])]) if inner else (0, 0)
                value = float(threshold[at]) if inner else 0.0
                mode = "BRANCH_LEQ" if inner else "LEAF"
                row = (tree, number, int(feature[at]) if inner else 0, value, mode, *children)
                for key, each in zip(_TREE_COLUMNS, row, strict=True):
                    columns[key].append(each)
                if not inner:
                    for key, each in zip(_TARGET_COLUMNS, (tree, number, 0, float(leaf[~at])), strict=True):
                        targets[key].append(each)
        self._tree_node(node, {**columns, **targets})

    def _tree_node(self, node: Node, tables: dict[str, list[Any]]) -> None:
        shape = self.graph.types[node.inputs[0]].shape
        made = self._value(node.output)
        rows = self._constant(made, [-1, shape[-1]])
        flat = self._add("Reshape", [self._value(node.inputs[0]), rows], f"{made}.rows")
        base = [real(node.attributes, "base")]
        sums = f"{made}.sums"
        self._add("TreeEnsembleRegressor", [flat], sums, domain="ai.onnx.ml", n_targets=1, base_values=base, **tables)
        self._add("Reshape", [sums, self._constant(made, [*shape[:-1], 1])], made)

    def _bucketize_function(self) -> Any:
        """`not (x < boundary)` counted over the boundaries, so that NaN counts them all."""
        make, integer_type = self.helper.make_node, self._type("int32_t")
        last = self.onnx.numpy_helper.from_array(np.asarray([-1], np.int64))
        nodes = [
            make("Cast", ["x"], ["number"], to=self._type("float")),
            make("Constant", [], ["last"], value=last),
            make("Unsqueeze", ["number", "last"], ["column"]),
            make("Less", ["column", "boundaries"], ["below"]),
            make("Not", ["below"], ["reached"]),
            make("Cast", ["reached"], ["counts"], to=integer_type),
            make("ReduceSum", ["counts", "last"], ["bucket"], keepdims=0),
        ]
        opsets = [self.helper.make_opsetid("", OPSET)]
        return self.helper.make_function(DOMAIN, "Bucketize", ["x", "boundaries"], ["bucket"], nodes, opsets)


_TREE_COLUMNS = (
    "nodes_treeids",
    "nodes_nodeids",
    "nodes_featureids",
    "nodes_values",
    "nodes_modes",
    "nodes_truenodeids",
    "nodes_falsenodeids",
)
_TARGET_COLUMNS = ("target_treeids", "target_nodeids", "target_ids", "target_weights")


def _tree_numbers(root: int, left: AnyArray, right: AnyArray) -> dict[int, int]:
    """The nodes and leaves below `root`, numbered from 0 for the root."""
    numbers: dict[int, int] = {}
    waiting = [root]
    while waiting:
        at = waiting.pop()
        if at in numbers:
            raise PolicyError("a tree that reaches a node or leaf in two ways has no ONNX form")
        numbers[at] = len(numbers)
        if at >= 0:
            waiting += [int(right[at]), int(left[at])]
    return numbers
