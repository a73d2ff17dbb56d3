"""A graph as a TFLite model, written with the flatbuffers library alone.

The inputs are tensors 0…N-1 in the graph's order, because LLVM's development mode takes the i-th input for tensor i.

Source: llvm/lib/Analysis/TFLiteUtils.cpp (LLVM 22) for that and the names; tensorflow/lite/schema/schema.fbs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import flatbuffers
import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.policy.graph import Graph, Node
from pymlgo.policy.operands import integer, integers
from pymlgo.policy.tflite import schema
from pymlgo.policy.values import ValueType

BUFFER_ALIGNMENT = 16
_OPERATOR_VERSION = 1


def write_model(graph: Graph, input_names: Sequence[str], output_names: Sequence[str]) -> bytes:
    """The `.tflite` file of a graph that `lowering.lowered` made; its inputs and outputs get these tensor names."""
    return _Writer(graph).write(input_names, output_names)


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = flatbuffers.Builder(1 << 16)
        self.buffers: list[bytes] = [b""]  # buffer 0 is the empty one
        self.tensors: list[tuple[str, ValueType, int]] = []
        self.index: dict[str, int] = {}
        self.codes: list[str] = []

    def write(self, input_names: Sequence[str], output_names: Sequence[str]) -> bytes:
        for spec, name in zip(self.graph.inputs, input_names, strict=True):
            self.index[spec.name] = self._tensor(name, self.graph.types[spec.name])
        renamed = {output.value: name for output, name in zip(self.graph.outputs, output_names, strict=True)}
        operators = [self._operator(node, renamed) for node in self.graph.nodes]
        inputs = [self.index[spec.name] for spec in self.graph.inputs]
        outputs = [self.index[output.value] for output in self.graph.outputs]
        return self._file(operators, inputs, outputs)

    def _tensor(self, name: str, value: ValueType, elements: AnyArray | None = None) -> int:
        buffer = 0
        if elements is not None:
            buffer = len(self.buffers)
            self.buffers.append(elements.astype(elements.dtype.newbyteorder("<"), copy=False).tobytes())
        self.tensors.append((name, value, buffer))
        return len(self.tensors) - 1

    def _value(self, name: str) -> int:
        """The tensor of a value; a constant's is made where it is first read."""
        if name not in self.index:
            self.index[name] = self._tensor(name, self.graph.types[name], self.graph.constants[name])
        return self.index[name]

    def _operator(self, node: Node, renamed: Mapping[str, str]) -> int:
        made = self.graph.types[node.output]
        names = node.inputs[:1] if node.op == "BUCKETIZE" else node.inputs
        operands = [self._value(name) for name in names]
        for position, elements in enumerate(_extra_operands(node)):
            operands.append(self._tensor(f"{node.output}_operand_{position}", ValueType.of(elements), elements))
        if node.op == "FULLY_CONNECTED" and len(operands) == 2:
            operands.append(-1)
        self.index[node.output] = self._tensor(renamed.get(node.output, node.output), made)
        options = self._options(node)
        builder = self.builder
        inputs = builder.CreateNumpyVector(np.asarray(operands, np.int32))
        outputs = builder.CreateNumpyVector(np.asarray([self.index[node.output]], np.int32))
        if node.op not in self.codes:
            self.codes.append(node.op)
        builder.StartObject(9)
        builder.PrependUint32Slot(schema.OPERATOR_CODE, self.codes.index(node.op), 0)
        builder.PrependUOffsetTRelativeSlot(schema.OPERATOR_INPUTS, inputs, 0)
        builder.PrependUOffsetTRelativeSlot(schema.OPERATOR_OUTPUTS, outputs, 0)
        if options is not None:
            builder.PrependUint8Slot(schema.OPERATOR_OPTIONS_TYPE, schema.OPTION_TYPES[node.op], 0)
            builder.PrependUOffsetTRelativeSlot(schema.OPERATOR_OPTIONS, options, 0)
        return int(builder.EndObject())

    def _options(self, node: Node) -> int | None:
        if node.op not in schema.OPTION_TYPES:
            return None
        builder, vector = self.builder, None
        match node.op:
            case "BUCKETIZE":
                vector = builder.CreateNumpyVector(self.graph.constants[node.inputs[1]].astype("<f4"))
            case "RESHAPE":
                vector = builder.CreateNumpyVector(np.asarray(integers(node.attributes, "shape"), np.int32))
            case "SQUEEZE":
                vector = builder.CreateNumpyVector(np.asarray(integers(node.attributes, "axes"), np.int32))
        builder.StartObject(8)
        if vector is not None:
            builder.PrependUOffsetTRelativeSlot(0, vector, 0)
        self._option_fields(node)
        return int(builder.EndObject())

    def _option_fields(self, node: Node) -> None:
        builder, attributes = self.builder, node.attributes
        match node.op:
            case "CAST":
                builder.PrependInt8Slot(0, schema.TENSOR_TYPES[self.graph.types[node.inputs[0]].type], 0)
                builder.PrependInt8Slot(1, schema.TENSOR_TYPES[str(attributes["type"])], 0)
            case "CONCATENATION" | "GATHER":
                builder.PrependInt32Slot(0, integer(attributes, "axis"), 0)
            case "PACK":
                builder.PrependInt32Slot(0, len(node.inputs), 0)
                builder.PrependInt32Slot(1, integer(attributes, "axis"), 0)
            case "FULLY_CONNECTED":
                relu = attributes["activation"] == "relu"
                builder.PrependInt8Slot(0, schema.ACTIVATION_RELU if relu else schema.ACTIVATION_NONE, 0)
            case "SUM" | "MEAN" | "REDUCE_MAX":
                builder.PrependBoolSlot(0, bool(attributes["keep_dims"]), False)
            case "SOFTMAX":
                builder.PrependFloat32Slot(0, 1.0, 0.0)
            case "ARG_MAX":
                builder.PrependInt8Slot(0, schema.TENSOR_TYPES[str(attributes["type"])], 0)

    def _file(self, operators: list[int], inputs: list[int], outputs: list[int]) -> bytes:
        builder = self.builder
        tensors = self._offsets([self._tensor_table(*each) for each in self.tensors])
        input_vector = builder.CreateNumpyVector(np.asarray(inputs, np.int32))
        output_vector = builder.CreateNumpyVector(np.asarray(outputs, np.int32))
        operator_vector = self._offsets(operators)
        name = builder.CreateString("main")
        builder.StartObject(6)
        builder.PrependUOffsetTRelativeSlot(schema.SUBGRAPH_TENSORS, tensors, 0)
        builder.PrependUOffsetTRelativeSlot(schema.SUBGRAPH_INPUTS, input_vector, 0)
        builder.PrependUOffsetTRelativeSlot(schema.SUBGRAPH_OUTPUTS, output_vector, 0)
        builder.PrependUOffsetTRelativeSlot(schema.SUBGRAPH_OPERATORS, operator_vector, 0)
        builder.PrependUOffsetTRelativeSlot(schema.SUBGRAPH_NAME, name, 0)
        subgraphs = self._offsets([builder.EndObject()])
        codes = self._offsets([self._code_table(each) for each in self.codes])
        buffers = self._offsets([self._buffer_table(each) for each in self.buffers])
        description = builder.CreateString("pymlgo")
        builder.StartObject(8)
        builder.PrependUint32Slot(schema.MODEL_VERSION, schema.VERSION, 0)
        builder.PrependUOffsetTRelativeSlot(schema.MODEL_OPERATOR_CODES, codes, 0)
        builder.PrependUOffsetTRelativeSlot(schema.MODEL_SUBGRAPHS, subgraphs, 0)
        builder.PrependUOffsetTRelativeSlot(schema.MODEL_DESCRIPTION, description, 0)
        builder.PrependUOffsetTRelativeSlot(schema.MODEL_BUFFERS, buffers, 0)
        builder.Finish(builder.EndObject(), schema.IDENTIFIER)
        return bytes(builder.Output())

    def _tensor_table(self, name: str, value: ValueType, buffer: int) -> int:
        builder = self.builder
        shape = builder.CreateNumpyVector(np.asarray(value.shape, np.int32))
        text = builder.CreateString(name)
        builder.StartObject(10)
        builder.PrependUOffsetTRelativeSlot(schema.TENSOR_SHAPE, shape, 0)
        builder.PrependInt8Slot(schema.TENSOR_TYPE, schema.TENSOR_TYPES[value.type], 0)
        builder.PrependUint32Slot(schema.TENSOR_BUFFER, buffer, 0)
        builder.PrependUOffsetTRelativeSlot(schema.TENSOR_NAME, text, 0)
        builder.PrependBoolSlot(schema.TENSOR_HAS_RANK, True, False)
        return int(builder.EndObject())

    def _code_table(self, op: str) -> int:
        builder, code = self.builder, schema.OPERATOR_CODES[op]
        builder.StartObject(4)
        builder.PrependInt8Slot(schema.CODE_DEPRECATED_BUILTIN, min(code, 127), 0)
        builder.PrependInt32Slot(schema.CODE_VERSION, _OPERATOR_VERSION, 1)
        builder.PrependInt32Slot(schema.CODE_BUILTIN, code, 0)
        return int(builder.EndObject())

    def _buffer_table(self, data: bytes) -> int:
        builder, vector = self.builder, None
        if data:
            builder.StartVector(1, len(data), BUFFER_ALIGNMENT)
            builder.head = builder.Head() - len(data)
            builder.Bytes[builder.Head() : builder.Head() + len(data)] = data
            vector = builder.EndVector()
        builder.StartObject(3)
        if vector is not None:
            builder.PrependUOffsetTRelativeSlot(schema.BUFFER_DATA, vector, 0)
        return int(builder.EndObject())

    def _offsets(self, tables: Sequence[int]) -> int:
        self.builder.StartVector(4, len(tables), 4)
        for each in reversed(tables):
            self.builder.PrependUOffsetTRelative(each)
        return int(self.builder.EndVector())


def _extra_operands(node: Node) -> list[AnyArray]:
    """Attributes that TFLite has as constant operands."""
    attributes = node.attributes
    match node.op:
        case "RESHAPE":
            return [np.asarray(integers(attributes, "shape"), np.int32)]
        case "EXPAND_DIMS" | "ARG_MAX":
            return [np.asarray(integer(attributes, "axis"), np.int32)]
        case "TRANSPOSE":
            return [np.asarray(integers(attributes, "permutation"), np.int32)]
        case "TILE":
            return [np.asarray(integers(attributes, "multiples"), np.int32)]
        case "SLICE":
            return [np.asarray(integers(attributes, key), np.int32) for key in ("begin", "size")]
        case "SUM" | "MEAN" | "REDUCE_MAX":
            return [np.asarray(integers(attributes, "axes"), np.int32)]
        case _:
            return []
