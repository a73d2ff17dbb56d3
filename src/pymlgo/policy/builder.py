"""Graphs written readably: values with operators, named as they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pymlgo.arrays import AnyArray, Float32Array
from pymlgo.errors import PolicyError
from pymlgo.policy.graph import Graph, Node, Output
from pymlgo.policy.operands import Operand
from pymlgo.policy.ops import OPERATORS
from pymlgo.policy.values import LARGEST_GRAPH_ELEMENTS, Attribute, ValueType
from pymlgo.tensor_spec import TensorSpec


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value of the graph that `builder` makes; arithmetic and comparisons make further ones."""

    builder: GraphBuilder
    name: str
    type: ValueType

    def __add__(self, other: Value | float) -> Value:
        return self.builder.apply("ADD", self, self._paired(other))

    def __sub__(self, other: Value | float) -> Value:
        return self.builder.apply("SUB", self, self._paired(other))

    def __mul__(self, other: Value | float) -> Value:
        return self.builder.apply("MUL", self, self._paired(other))

    def __truediv__(self, other: Value | float) -> Value:
        return self.builder.apply("DIV", self, self._paired(other))

    def __neg__(self) -> Value:
        return self.builder.apply("NEG", self)

    def __abs__(self) -> Value:
        return self.builder.apply("ABS", self)

    def __lt__(self, other: Value | float) -> Value:
        return self.builder.apply("LESS", self, self._paired(other))

    def __le__(self, other: Value | float) -> Value:
        return self.builder.apply("LESS_EQUAL", self, self._paired(other))

    def __gt__(self, other: Value | float) -> Value:
        return self.builder.apply("GREATER", self, self._paired(other))

    def __ge__(self, other: Value | float) -> Value:
        return self.builder.apply("GREATER_EQUAL", self, self._paired(other))

    def equals(self, other: Value | float) -> Value:
        """True where the two are equal (`==` stays the identity of Python objects)."""
        return self.builder.apply("EQUAL", self, self._paired(other))

    def maximum(self, other: Value | float) -> Value:
        """The greater of the two; where either is NaN, `other`."""
        return self.builder.apply("MAXIMUM", self, self._paired(other))

    def minimum(self, other: Value | float) -> Value:
        """The smaller of the two; where either is NaN, `other`."""
        return self.builder.apply("MINIMUM", self, self._paired(other))

    def cast(self, type_name: str) -> Value:
        """The value in another element type; itself where it has that type."""
        return self if self.type.type == type_name else self.builder.apply("CAST", self, type=type_name)

    def reshape(self, *shape: int) -> Value:
        """The same elements in another shape; itself where it has that shape."""
        return self if self.type.shape == shape else self.builder.apply("RESHAPE", self, shape=shape)

    def tile(self, *multiples: int) -> Value:
        """Repeated along each axis."""
        return self.builder.apply("TILE", self, multiples=multiples)

    def slice(self, begin: Sequence[int], size: Sequence[int]) -> Value:
        """The window that starts at `begin`."""
        return self.builder.apply("SLICE", self, begin=tuple(begin), size=tuple(size))

    def arg_max(self, axis: int, type_name: str = "int64_t") -> Value:
        """Index of the first largest along `axis`."""
        return self.builder.apply("ARG_MAX", self, axis=axis, type=type_name)

    def bucketize(self, boundaries: ArrayLike) -> Value:
        """How many of the ascending `boundaries` are at most the value, as int32."""
        return self.builder.apply("BUCKETIZE", self, self.builder.constant(np.asarray(boundaries, np.float32)))

    def _paired(self, other: Value | float) -> Value:
        if isinstance(other, Value):
            return other
        return self.builder.constant(np.asarray(other, self.type.dtype))


class GraphBuilder:
    """Collects inputs, constants and nodes; `build` makes the graph.

    Example:
        >>> make = GraphBuilder()
        >>> cost = make.input(TensorSpec("cost_estimate", "int64_t", (1,)))
        >>> make.output("inlining_decision", (cost <= 0).cast("int64_t"))
        >>> make.build().decision.name
        'inlining_decision'
    """

    def __init__(self) -> None:
        self._inputs: list[TensorSpec] = []
        self._constants: dict[str, AnyArray] = {}
        self._known_constants: dict[tuple[str, tuple[int, ...], bytes], Value] = {}
        self._nodes: list[Node] = []
        self._outputs: list[Output] = []
        self._types: dict[str, ValueType] = {}
        self._counter = 0
        self._constant_elements = 0

    def input(self, spec: TensorSpec) -> Value:
        """A tensor that the compiler gives."""
        if spec.name in self._types:
            raise PolicyError(f"input {spec.name!r}: another value already has this name")
        self._inputs.append(spec)
        return self._made(spec.name, ValueType(spec.type, spec.shape))

    def constant(self, array: AnyArray) -> Value:
        """A constant; one with the same type and elements is used again.

        Raises:
            PolicyError: constants of more elements than a graph may have were asked for, counting each time.
        """
        self._constant_elements += array.size
        if self._constant_elements > LARGEST_GRAPH_ELEMENTS:
            raise PolicyError(f"the constants have more than {LARGEST_GRAPH_ELEMENTS} elements")
        kept = np.ascontiguousarray(array).reshape(array.shape)
        key = (kept.dtype.str, kept.shape, kept.tobytes())
        if key not in self._known_constants:
            name = self._fresh("constant")
            self._constants[name] = kept
            self._known_constants[key] = self._made(name, ValueType.of(kept))
        return self._known_constants[key]

    def apply(self, op: str, *operands: Value, **attributes: Attribute) -> Value:
        """The value that operator `op` makes.

        Raises:
            PolicyError: the operator is unknown or refuses operands or attributes.
        """
        if op not in OPERATORS:
            raise PolicyError(f"unknown operator {op!r}", hint=f"known are {', '.join(OPERATORS)}")
        known = tuple(Operand(type=each.type, constant=self._constants.get(each.name)) for each in operands)
        try:
            made = OPERATORS[op].infer(known, attributes)
        except PolicyError as error:
            raise PolicyError(f"{op}: {error}", hint=error.hint) from error
        name = self._fresh(op.lower())
        self._nodes.append(
            Node(op=op, inputs=tuple(each.name for each in operands), output=name, attributes=attributes)
        )
        return self._made(name, made)

    def concatenate(self, values: Sequence[Value], axis: int) -> Value:
        """The values joined along `axis`; one alone is itself."""
        return values[0] if len(values) == 1 else self.apply("CONCATENATION", *values, axis=axis)

    def select(self, condition: Value, then: Value | float, other: Value) -> Value:
        """`then` where the condition holds, else `other`."""
        return self.apply("SELECT_V2", condition, other._paired(then), other)

    def dense(self, value: Value, weights: Float32Array, bias: Float32Array, *, activation: str = "none") -> Value:
        """A dense layer over rows; weights f32[inputs, outputs], as `x @ weights + bias` has them.

        Args:
            value: f32[…, inputs].
            weights: f32[inputs, outputs].
            bias: f32[outputs].
            activation: `none`, `relu`, `tanh`, `elu` or `logistic`.
        """
        fused = "relu" if activation == "relu" else "none"
        kernel = self.constant(np.asarray(weights, np.float32).T)
        made = self.apply(
            "FULLY_CONNECTED", value, kernel, self.constant(np.asarray(bias, np.float32)), activation=fused
        )
        if activation in ("tanh", "elu", "logistic"):
            return self.apply(activation.upper(), made)
        if activation not in ("none", "relu"):
            raise PolicyError(f"unknown activation {activation!r}", hint="known are none, relu, tanh, elu, logistic")
        return made

    def output(self, name: str, value: Value) -> None:
        """`value` leaves the graph as `name`; the first output is the decision."""
        self._outputs.append(Output(name=name, value=value.name))

    def build(self) -> Graph:
        """The finished graph, without constants that nothing reads.

        Raises:
            PolicyError: as `Graph`.
        """
        read = {name for node in self._nodes for name in node.inputs} | {output.value for output in self._outputs}
        return Graph(
            inputs=tuple(self._inputs),
            nodes=tuple(self._nodes),
            outputs=tuple(self._outputs),
            constants={name: each for name, each in self._constants.items() if name in read},
        )

    def _made(self, name: str, made: ValueType) -> Value:
        self._types[name] = made
        return Value(self, name, made)

    def _fresh(self, base: str) -> str:
        while True:
            self._counter += 1
            name = f"{base}_{self._counter}"
            if name not in self._types:
                return name
