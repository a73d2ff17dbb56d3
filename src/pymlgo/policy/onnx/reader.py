"""A policy out of an ONNX model; needs the extra `onnx`.

Read are the operators that `writer` writes and what small networks exported from elsewhere consist of. Shapes must be
static; a first dimension without a number is taken for a batch, of one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError
from pymlgo.optional import need
from pymlgo.policy.builder import GraphBuilder, Value
from pymlgo.policy.limited_file import read_limited
from pymlgo.policy.onnx.operators import CONVERTERS, Converted, attributes_of
from pymlgo.policy.onnx.writer import DOMAIN, METADATA_PREFIX
from pymlgo.policy.policy import DefaultValue, Policy
from pymlgo.policy.tflite.development_mode import PROBLEM_OF_DECISION
from pymlgo.policy.values import LARGEST_GRAPH_ELEMENTS, LARGEST_NODE_COUNT, VALUE_TYPES
from pymlgo.tensor_spec import TensorSpec

DOMAINS = ("", "ai.onnx", "ai.onnx.ml", DOMAIN)


def read_onnx(file: Path, *, problem: str | None = None) -> Policy:
    """The policy in an ONNX model; its first output is the decision.

    Args:
        file: the model, with its weights inside.
        problem: which decision it makes; by default what its metadata or the decision's name says.

    Raises:
        MissingDependency: onnx is not installed.
        PolicyError: the file is damaged, or uses what is not supported.
    """
    onnx = need("onnx", extra="onnx", purpose="read ONNX models")
    data = read_limited(file)
    try:
        model = onnx.ModelProto.FromString(data)
        return _policy(onnx, model, problem)
    except PolicyError as error:
        raise PolicyError(f"{file}: {error}", hint=error.hint) from error
    except Exception as error:  # protobuf and onnx raise what they like for damaged files
        raise PolicyError(f"{file}: not a usable ONNX model: {type(error).__name__}: {error}") from error


def _policy(onnx: Any, model: Any, problem: str | None) -> Policy:
    graph = model.graph
    if not graph.output:
        raise PolicyError("not an ONNX model, or one without outputs")
    if len(graph.node) > LARGEST_NODE_COUNT or len(graph.initializer) > LARGEST_NODE_COUNT:
        raise PolicyError(f"the model has {len(graph.node)} nodes, more than {LARGEST_NODE_COUNT}")
    reader = _Reader(onnx)
    constants = {tensor.name for tensor in graph.initializer}
    for tensor in graph.initializer:
        reader.constant(tensor.name, tensor)
    for info in graph.input:
        if info.name not in constants:
            reader.input(info)
    for node in graph.node:
        reader.node(node)
    for info in graph.output:
        reader.make.output(info.name, reader.value(info.name, "an output"))
    about = {each.key: each.value for each in model.metadata_props}
    decision = graph.output[0].name
    named = problem or about.get(f"{METADATA_PREFIX}problem") or PROBLEM_OF_DECISION.get(decision)
    if named is None:
        raise PolicyError(
            f"the first output is {decision!r}, none of LLVM's decisions ({', '.join(PROBLEM_OF_DECISION)})",
            hint="say which problem it solves, with --problem",
        )
    return Policy(
        problem=named,
        graph=reader.make.build(),
        advice=decision,
        defaults=_defaults(about.get(f"{METADATA_PREFIX}defaults", "{}")),
        provenance=_object(about.get(f"{METADATA_PREFIX}provenance", "{}")),
    )


class _Reader:
    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.make = GraphBuilder()
        self.values: dict[str, Value] = {}
        self.constants: dict[str, AnyArray] = {}
        self.elements_left = LARGEST_GRAPH_ELEMENTS

    def constant(self, name: str, tensor: Any) -> None:
        """Take the elements of a tensor that the file holds."""
        if tensor.data_location == self.onnx.TensorProto.EXTERNAL:
            raise PolicyError(f"tensor {name!r} lies in another file, which is not read")
        count = 1
        for dimension in tensor.dims:
            count *= max(int(dimension), 0)
        self.elements_left -= count
        if self.elements_left < 0:
            raise PolicyError(f"the constants have more than {LARGEST_GRAPH_ELEMENTS} elements")
        self.constants[name] = self.onnx.numpy_helper.to_array(tensor)

    def input(self, info: Any) -> None:
        """Take an input of the model."""
        tensor = info.type.tensor_type
        shape = []
        for axis, dimension in enumerate(tensor.shape.dim):
            if not dimension.HasField("dim_value") and axis > 0:
                raise PolicyError(f"input {info.name!r}: dimension {axis} is not static")
            shape.append(int(dimension.dim_value) if dimension.HasField("dim_value") else 1)
        spec = TensorSpec(info.name, self._type_name(tensor.elem_type), tuple(shape))
        self.values[info.name] = self.make.input(spec)

    def _type_name(self, number: int) -> str:
        """LLVM's name of ONNX's element type; numpy's where LLVM has none."""
        dtype = self.onnx.helper.tensor_dtype_to_np_dtype(number)
        return next((name for name, each in VALUE_TYPES.items() if each == dtype), str(dtype))

    def value(self, name: str, reader: str) -> Value:
        """The value of this name, which an earlier node, an input or a constant makes."""
        if name not in self.values:
            if name not in self.constants:
                raise PolicyError(f"{reader} reads {name!r}, which nothing before it makes (a cycle?)")
            self.values[name] = self.make.constant(self.constants[name])
        return self.values[name]

    def node(self, node: Any) -> None:
        """Convert one node."""
        where = f"{node.op_type} node {node.name or list(node.output)!r}"
        if node.domain not in DOMAINS or (node.op_type not in CONVERTERS and node.op_type != "Constant"):
            raise PolicyError(
                f"{where} of domain {node.domain!r} is not supported", hint=f"known: {', '.join(CONVERTERS)}"
            )
        if len(node.output) != 1 or node.output[0] in self.values or node.output[0] in self.constants:
            raise PolicyError(f"{where}: must make one value that nothing else makes, found {list(node.output)}")
        attributes = attributes_of(self.onnx, node)
        if node.op_type == "Constant":
            self._constant_node(node.output[0], attributes, where)
            return
        names = [name for name in node.input if name]
        converted = Converted(
            make=self.make,
            operand=lambda index: self.value(names[index], where),
            constant=lambda index: self.constants.get(names[index]) if index < len(names) else None,
            count=len(names),
            attributes=attributes,
            type_name=self._type_name,
        )
        try:
            self.values[node.output[0]] = CONVERTERS[node.op_type](converted)
        except PolicyError as error:
            raise PolicyError(f"{where}: {error}", hint=error.hint) from error
        except (IndexError, KeyError) as error:
            raise PolicyError(f"{where}: an operand or attribute is missing: {error}") from error

    def _constant_node(self, name: str, attributes: Mapping[str, Any], where: str) -> None:
        if "value" in attributes:
            self.constant(name, attributes["value"])
        elif "value_float" in attributes:
            self.constants[name] = np.asarray(attributes["value_float"], np.float32)
        elif "value_int" in attributes:
            self.constants[name] = np.asarray(attributes["value_int"], np.int64)
        else:
            raise PolicyError(f"{where}: only a tensor or one number is supported")


def _object(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise PolicyError(f"the model's metadata holds {text[:80]!r}, expected a JSON object")
    return found


def _defaults(text: str) -> dict[str, DefaultValue]:
    found = _object(text)
    if not all(isinstance(each, int | float | list) for each in found.values()):
        raise PolicyError(f"the model's defaults are {text[:80]!r}, expected numbers or lists of numbers")
    return found
