"""The typed graph of a policy: static shapes, named inputs and outputs, operators in the order of evaluation.

A graph that exists is valid: construction checks names, operand types, shapes, weights and sizes, so that interpreter,
emitter and exporters need not. `builder.GraphBuilder` writes graphs readably; `ops` holds the operators' rules.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError
from pymlgo.policy.operands import Operand
from pymlgo.policy.ops import OPERATORS
from pymlgo.policy.values import (
    LARGEST_ELEMENTS_READ,
    LARGEST_GRAPH_ELEMENTS,
    LARGEST_NODE_COUNT,
    Attribute,
    ValueType,
    check_identifier,
)
from pymlgo.tensor_spec import TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operator: the values it reads (graph inputs, constants or earlier outputs), and the one it makes."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A value that leaves the graph under `name`, which is what a log calls it (LLVM's `logging_name`)."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """Inputs, constants, nodes in the order of evaluation, and outputs; output 0 is the decision.

    Values share one name space: inputs, constants and node outputs are C identifiers, each made once. Constants are
    kept as read-only copies and hold no NaN. `types` has the type of every value.

    Raises:
        PolicyError: an unknown operator, wrong types or shapes, a value used before it is made (or a cycle), NaN
            weights, a duplicate or unusable name, or a graph beyond the limits of `values`.
    """

    inputs: tuple[TensorSpec, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Output, ...]
    constants: Mapping[str, AnyArray] = field(default_factory=dict)
    types: Mapping[str, ValueType] = field(init=False)

    def __post_init__(self) -> None:
        if len(self.nodes) > LARGEST_NODE_COUNT:
            raise PolicyError(f"the graph has {len(self.nodes)} nodes, more than {LARGEST_NODE_COUNT}")
        object.__setattr__(self, "constants", {name: _frozen(name, each) for name, each in self.constants.items()})
        object.__setattr__(self, "types", {})
        for spec in self.inputs:
            self._define(spec.name, ValueType(spec.type, spec.shape), "input")
        for name, array in self.constants.items():
            self._define(name, ValueType.of(array), "constant")
        self._check_constants_read()
        made_by_node = {node.output for node in self.nodes}
        for node in self.nodes:
            self._define(node.output, self._infer(node, made_by_node), f"{node.op} output")
        self._check_outputs()

    def _define(self, name: str, value_type: ValueType, what: str) -> None:
        check_identifier(name, what)
        types = self.types
        if name in types:
            raise PolicyError(f"{what} {name!r}: another value already has this name")
        types[name] = value_type  # type: ignore[index]  # a plain dict until construction ends

    def _check_constants_read(self) -> None:
        """Rules look at the elements of constants, so a small file must not have one large constant read often."""
        sizes = {name: array.size for name, array in self.constants.items()}
        read = sum(sizes.get(name, 0) for node in self.nodes for name in node.inputs)
        if read > LARGEST_ELEMENTS_READ:
            raise PolicyError(f"nodes read {read} elements of constants, more than {LARGEST_ELEMENTS_READ}")

    def _infer(self, node: Node, made_by_node: set[str]) -> ValueType:
        where = f"{node.op} node {node.output!r}"
        operator = OPERATORS.get(node.op)
        if operator is None:
            raise PolicyError(f"{where}: unknown operator", hint=f"known are {', '.join(OPERATORS)}")
        for name in node.inputs:
            if name not in self.types:
                late = name in made_by_node
                raise PolicyError(
                    f"{where} reads {name!r}, which {'is made later or depends on it' if late else 'nothing makes'}",
                    hint="nodes stand in the order of evaluation; a graph has no cycles" if late else None,
                )
        operands = tuple(Operand(type=self.types[name], constant=self.constants.get(name)) for name in node.inputs)
        try:
            return operator.infer(operands, node.attributes)
        except PolicyError as error:
            raise PolicyError(f"{where}: {error}", hint=error.hint) from error

    def _check_outputs(self) -> None:
        if not self.outputs:
            raise PolicyError("the graph has no output", hint="output 0 is the decision")
        seen: set[str] = set()
        for output in self.outputs:
            check_identifier(output.name, "output")
            if output.name in seen:
                raise PolicyError(f"output {output.name!r}: another output already has this name")
            seen.add(output.name)
            if output.value not in self.types:
                raise PolicyError(f"output {output.name!r} is the value {output.value!r}, which nothing makes")
            if self.types[output.value].type == "bool":
                raise PolicyError(f"output {output.name!r} is of type bool, which LLVM does not have", hint="CAST it")
        elements = sum(each.element_count for each in self.types.values())
        if elements > LARGEST_GRAPH_ELEMENTS:
            raise PolicyError(f"the graph's values have {elements} elements, more than {LARGEST_GRAPH_ELEMENTS}")

    @property
    def decision(self) -> TensorSpec:
        """The spec of output 0."""
        return self.output_specs[0]

    @property
    def output_specs(self) -> tuple[TensorSpec, ...]:
        """The outputs as tensors, in order."""
        return tuple(self.types[each.value].spec(each.name) for each in self.outputs)

    @property
    def parameter_count(self) -> int:
        """Floating-point constants: weights, boundaries, tables."""
        return sum(each.size for each in self.constants.values() if each.dtype.kind == "f")

    def fingerprint(self) -> str:
        """SHA-256 of everything that decides what the graph computes, as 64 hex digits."""
        digest = hashlib.sha256(json.dumps(self.structure(), sort_keys=True).encode())
        for name in sorted(self.constants):
            digest.update(np.ascontiguousarray(self.constants[name]).tobytes())
        return digest.hexdigest()

    def structure(self) -> dict[str, object]:
        """The graph without its constants' elements, as JSON has it."""
        return {
            "inputs": [spec.to_dict() for spec in self.inputs],
            "constants": {
                name: {"type": self.types[name].type, "shape": list(self.types[name].shape)} for name in self.constants
            },
            "nodes": [
                {
                    "op": node.op,
                    "inputs": list(node.inputs),
                    "output": node.output,
                    "attributes": {key: _plain(each) for key, each in node.attributes.items()},
                }
                for node in self.nodes
            ],
            "outputs": [{"name": output.name, "value": output.value} for output in self.outputs],
        }


def _frozen(name: str, array: AnyArray) -> AnyArray:
    copied = np.array(array, order="C", copy=True)
    if copied.dtype.kind == "f" and np.isnan(copied).any():
        raise PolicyError(f"constant {name!r} holds NaN", hint="the training that made it diverged")
    copied.flags.writeable = False
    return copied


def _plain(attribute: Attribute) -> object:
    return list(attribute) if isinstance(attribute, tuple) else attribute


def live_nodes(graph: Graph, wanted: Iterable[str]) -> tuple[Node, ...]:
    """The nodes that the values `wanted` depend on, in order."""
    needed = set(wanted)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.output in needed:
            kept.append(node)
            needed.update(node.inputs)
    return tuple(reversed(kept))
