"""A TFLite model as a graph; nothing in the file is trusted.

Operators become the graph's operators one by one (`operators`); tensors get names that are identifiers. What the file
says about shapes and types is compared with what the graph's own rules give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError
from pymlgo.policy.builder import GraphBuilder, Value
from pymlgo.policy.graph import Graph
from pymlgo.policy.tflite import schema
from pymlgo.policy.tflite.flatbuffer import Table
from pymlgo.policy.tflite.operators import IMPORTERS, Imported
from pymlgo.policy.values import LARGEST_NODE_COUNT, LARGEST_RANK, ValueType
from pymlgo.tensor_spec import TensorSpec

LARGEST_TENSOR_COUNT = 5 * LARGEST_NODE_COUNT
LARGEST_OPERAND_COUNT = 1 << 18
"""Operands of all operators together: one small vector may be pointed to by many operators of a hostile file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TFLiteTensor:
    """One tensor of the file: `buffer` holds a constant's bytes; None where the model computes it."""

    index: int
    name: str
    type: ValueType
    buffer: memoryview | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TFLiteOperator:
    """One operator of the file: tensors that it reads (-1: an optional one that is absent) and makes."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Table | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TFLiteModel:
    """The one subgraph of a file, checked for itself but not yet a graph."""

    tensors: tuple[TFLiteTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[TFLiteOperator, ...]

    def graph(self, input_names: Mapping[int, str], outputs: Mapping[str, int]) -> Graph:
        """The typed graph.

        Args:
            input_names: what the graph calls an input tensor; inputs that are not named are dropped if nothing reads
                them, and an error else.
            outputs: the graph's outputs, by name, as tensor indices.

        Raises:
            PolicyError: an operator or type is not supported, or the file contradicts itself.
        """
        return _Conversion(self, input_names).run(outputs)


def read_model(data: bytes) -> TFLiteModel:
    """The model in a `.tflite` file's bytes.

    Raises:
        PolicyError: the file is truncated or damaged, or is no model with one subgraph of static shapes.
    """
    view = memoryview(data)
    model = Table.root(view, schema.IDENTIFIER)
    version = model.scalar(schema.MODEL_VERSION, "I")
    if version != schema.VERSION:
        raise PolicyError(f"TFLite schema version {version}, expected {schema.VERSION}")
    subgraphs = model.tables(schema.MODEL_SUBGRAPHS, 64)
    if len(subgraphs) != 1:
        raise PolicyError(f"the model has {len(subgraphs)} subgraphs, expected 1 (no control flow)")
    buffers = model.tables(schema.MODEL_BUFFERS, LARGEST_TENSOR_COUNT)
    names = tuple(_operator_name(code) for code in model.tables(schema.MODEL_OPERATOR_CODES, LARGEST_NODE_COUNT))
    described = subgraphs[0].tables(schema.SUBGRAPH_TENSORS, LARGEST_TENSOR_COUNT)
    tensors = tuple(_tensor(index, each, buffers) for index, each in enumerate(described))
    return TFLiteModel(
        tensors=tensors,
        inputs=_indices(subgraphs[0].integers(schema.SUBGRAPH_INPUTS, LARGEST_NODE_COUNT), tensors, "input"),
        outputs=_indices(subgraphs[0].integers(schema.SUBGRAPH_OUTPUTS, LARGEST_NODE_COUNT), tensors, "output"),
        operators=_operators(subgraphs[0].tables(schema.SUBGRAPH_OPERATORS, LARGEST_NODE_COUNT), names),
    )


def _operators(described: tuple[Table, ...], names: tuple[str, ...]) -> tuple[TFLiteOperator, ...]:
    operands_left = LARGEST_OPERAND_COUNT
    operators: list[TFLiteOperator] = []
    for each in described:
        code = each.scalar(schema.OPERATOR_CODE, "I")
        if code >= len(names):
            raise PolicyError(f"operator {len(operators)} has code {code}, the file lists {len(names)}")
        inputs = each.integers(schema.OPERATOR_INPUTS, operands_left)
        operands_left -= len(inputs)
        operators.append(
            TFLiteOperator(
                name=names[code],
                inputs=inputs,
                outputs=each.integers(schema.OPERATOR_OUTPUTS, 16),
                options=each.table(schema.OPERATOR_OPTIONS),
            )
        )
    return tuple(operators)


def _operator_name(code: Table) -> str:
    # Codes above 127 did not fit the old field, which then holds 127 (a placeholder).
    number = max(code.scalar(schema.CODE_DEPRECATED_BUILTIN, "b"), code.scalar(schema.CODE_BUILTIN, "i"))
    if not 0 <= number < len(schema.OPERATOR_NAMES):
        return f"builtin {number}"
    name = schema.OPERATOR_NAMES[number]
    return f"custom {code.text(schema.CODE_CUSTOM)!r}" if name == "CUSTOM" else name


def _tensor(index: int, described: Table, buffers: tuple[Table, ...]) -> TFLiteTensor:
    name = described.text(schema.TENSOR_NAME)
    where = f"tensor {index} ({name[:80]!r})"
    code = described.scalar(schema.TENSOR_TYPE, "b")
    if code not in schema.TYPE_NAMES:
        raise PolicyError(f"{where}: element type {code} is not supported")
    signature = described.integers(schema.TENSOR_SHAPE_SIGNATURE, LARGEST_RANK)
    if any(dimension < 0 for dimension in signature):
        raise PolicyError(
            f"{where}: shape {list(signature)} is not static", hint="convert the model for a batch of one"
        )
    try:
        value = ValueType(schema.TYPE_NAMES[code], described.integers(schema.TENSOR_SHAPE, LARGEST_RANK))
    except PolicyError as error:
        raise PolicyError(f"{where}: {error}", hint=error.hint) from error
    number = described.scalar(schema.TENSOR_BUFFER, "I")
    if number >= max(len(buffers), 1):
        raise PolicyError(f"{where}: its buffer is {number}, the file has {len(buffers)}")
    quantization = described.table(schema.TENSOR_QUANTIZATION)
    if quantization is not None and len(quantization.numbers(2, "f4")):
        raise PolicyError(
            f"{where} is quantized, which is not supported", hint="convert the model without quantization"
        )
    held = buffers[number].numbers(schema.BUFFER_DATA, "u1") if buffers and number else np.zeros(0, np.uint8)
    if not len(held):
        return TFLiteTensor(index=index, name=name, type=value, buffer=None)
    wanted = value.element_count * value.dtype.itemsize
    if len(held) != wanted:
        raise PolicyError(f"{where}: {value} takes {wanted} bytes, its buffer has {len(held)}")
    return TFLiteTensor(index=index, name=name, type=value, buffer=held.data)


def _indices(found: tuple[int, ...], tensors: tuple[TFLiteTensor, ...], what: str) -> tuple[int, ...]:
    for index in found:
        if not 0 <= index < len(tensors):
            raise PolicyError(f"an {what} is tensor {index}, the file has {len(tensors)}")
    return found


class _Conversion:
    """Makes the graph, operator by operator."""

    def __init__(self, model: TFLiteModel, input_names: Mapping[int, str]) -> None:
        self.model = model
        self.make = GraphBuilder()
        self.inputs = frozenset(model.inputs)
        self.values: dict[int, Value] = {}
        for index in model.inputs:
            if index in input_names:
                value = model.tensors[index].type
                self.values[index] = self.make.input(TensorSpec(input_names[index], value.type, value.shape))

    def run(self, outputs: Mapping[str, int]) -> Graph:
        for number, operator in enumerate(self.model.operators):
            self._convert(f"operator {number} ({operator.name})", operator)
        for name, index in outputs.items():
            self.make.output(name, self._value(index, f"output {name!r}"))
        return self.make.build()

    def _convert(self, where: str, operator: TFLiteOperator) -> None:
        made = operator.outputs
        convert: Callable[[Imported], Value] | None = IMPORTERS.get(operator.name)
        if convert is None:
            raise PolicyError(f"{where} is not supported", hint=f"supported are {', '.join(sorted(IMPORTERS))}")
        if len(made) != 1 or not 0 <= made[0] < len(self.model.tensors):
            raise PolicyError(f"{where} makes the tensors {list(made)}, expected one that the file has")
        result = self.model.tensors[made[0]]
        if made[0] in self.values or made[0] in self.inputs or result.buffer is not None:
            raise PolicyError(f"{where} makes tensor {made[0]}, which an input, a constant or another operator makes")
        imported = Imported(
            make=self.make,
            operands=tuple(None if index == -1 else self._value(index, where) for index in operator.inputs),
            constants=tuple(self._elements(index) for index in operator.inputs),
            options=operator.options,
            result=result.type,
        )
        try:
            value = convert(imported)
        except PolicyError as error:
            raise PolicyError(f"{where}: {error}", hint=error.hint) from error
        if value.type != result.type:
            raise PolicyError(f"{where}: the file says it makes {result.type}, it makes {value.type}")
        self.values[made[0]] = value

    def _value(self, index: int, where: str) -> Value:
        if index not in self.values:
            elements = self._elements(index)
            if elements is None:
                reason = "is an input that nothing names" if index in self.inputs else "is not made before (a cycle?)"
                raise PolicyError(f"{where} reads tensor {index}, which {reason}")
            self.values[index] = self.make.constant(elements)
        return self.values[index]

    def _elements(self, index: int) -> AnyArray | None:
        """A constant tensor's elements; None for other tensors."""
        if index == -1:
            return None
        if not 0 <= index < len(self.model.tensors):
            raise PolicyError(f"an operand is tensor {index}, the file has {len(self.model.tensors)}")
        tensor = self.model.tensors[index]
        if tensor.buffer is None:
            return None
        stored = np.frombuffer(tensor.buffer, tensor.type.dtype.newbyteorder("<"))
        return stored.astype(tensor.type.dtype, copy=False).reshape(tensor.type.shape)
