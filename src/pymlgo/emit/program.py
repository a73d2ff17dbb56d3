"""A graph on its way to C++: simplified, with the operators that only generated code has.

Two operators are ours: LOOKUP, a BUCKETIZE with everything that is computed from the bucket alone, and COPY, which
moves elements to where a CONCATENATION wants them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pymlgo.arrays import AnyArray, Float32Array
from pymlgo.policy.graph import Graph, Node, Output, live_nodes
from pymlgo.policy.interpreter import Interpreter
from pymlgo.policy.values import ValueType
from pymlgo.tensor_spec import TensorSpec

LOOKUP = "LOOKUP"
COPY = "COPY"

_OF_ONE_VALUE = frozenset(
    {"CAST", "ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "ABS", "NEG", "RELU"}
    | {"SQRT", "EXP", "LOG", "TANH", "LOGISTIC", "ELU"}
)
"""Operators that a LOOKUP may swallow: elementwise, and cheap to evaluate for every bucket."""


BLOCK = 8
"""Boundaries that are compared at once: the floats in a vector of AVX."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lookup:
    """A search tree over the distinct boundaries, and the value of every bucket.

    Attributes:
        levels: from the top, ascending f32 in blocks of `BLOCK`. The last level is the distinct boundaries themselves;
            an entry above it is the last of a block below. Every level ends in +inf, which no finite x passes, and the
            top is one block.
        values: for b = 0 to `distinct`, the value where b of the boundaries are ≤ x.
        distinct: how many boundaries there are; +inf and NaN pass them all.
    """

    levels: tuple[Float32Array, ...]
    values: AnyArray
    distinct: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """Nodes in the order of evaluation over named values, as in `Graph`, but free to hold our own operators."""

    inputs: tuple[TensorSpec, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Output, ...]
    constants: Mapping[str, AnyArray]
    types: Mapping[str, ValueType]
    lookups: Mapping[str, Lookup]

    def consumers(self) -> dict[str, list[Node]]:
        """For every value the nodes that read it, a node once however often it reads."""
        found: dict[str, list[Node]] = {name: [] for name in self.types}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found[name].append(node)
        return found

    def leaving(self) -> frozenset[str]:
        """The values that are outputs."""
        return frozenset(output.value for output in self.outputs)


def simplified(graph: Graph) -> Program:
    """The graph without dead nodes, with constants folded, activations fused and buckets looked up."""
    program = Program(
        inputs=graph.inputs,
        nodes=live_nodes(graph, (output.value for output in graph.outputs)),
        outputs=graph.outputs,
        constants=graph.constants,
        types=graph.types,
        lookups={},
    )
    return _looked_up(_relu_fused(_constants_folded(program)))


def _constants_folded(program: Program) -> Program:
    """Nodes whose operands are all constants become constants."""
    known, folded = set(program.constants), []
    for node in program.nodes:
        if known.issuperset(node.inputs):
            known.add(node.output)
            folded.append(node)
    if not folded:
        return program
    nodes = tuple(node for node in program.nodes if node.output not in known)
    read = {name for node in nodes for name in node.inputs} | program.leaving()
    wanted = [node.output for node in folded if node.output in read]
    constants = {**program.constants, **_evaluated(program, tuple(folded), wanted)}
    return replace(program, nodes=nodes, constants=constants)


def _evaluated(program: Program, nodes: tuple[Node, ...], wanted: Iterable[str]) -> dict[str, AnyArray]:
    """The values `wanted`, which `nodes` make of constants."""
    outputs, casts = [], []
    for index, name in enumerate(wanted):
        source = name
        if program.types[name].type == "bool":  # no graph lets a bool out
            source = f"as_byte_{index}"
            while source in program.types:
                source += "_"
            casts.append(Node(op="CAST", inputs=(name,), output=source, attributes={"type": "uint8_t"}))
        outputs.append(Output(name=name, value=source))
    if not outputs:
        return {}
    graph = Graph(inputs=(), nodes=(*nodes, *casts), outputs=tuple(outputs), constants=program.constants)
    return {
        name: np.ascontiguousarray(value).astype(program.types[name].dtype)
        for name, value in Interpreter(graph)({}).items()
    }


def _relu_fused(program: Program) -> Program:
    """A RELU that alone reads a dense layer becomes the layer's activation."""
    consumers, leaving = program.consumers(), program.leaving()
    fused: dict[str, Node] = {}
    for node in program.nodes:
        if node.op != "FULLY_CONNECTED" or node.output in leaving:
            continue
        reader = consumers[node.output]
        if len(reader) == 1 and reader[0].op == "RELU":
            fused[node.output] = replace(node, output=reader[0].output, attributes={"activation": "relu"})
    swallowed = {node.output for node in fused.values()}
    nodes = [fused.get(node.output, node) for node in program.nodes if node.output not in swallowed]
    return replace(program, nodes=tuple(nodes))


# --- buckets ------------------------------------------------------------------------------------------------


def _looked_up(program: Program) -> Program:
    """Every BUCKETIZE, with the chain that depends on nothing else, becomes a LOOKUP."""
    lookups: dict[str, Lookup] = {}
    made: dict[str, Node] = {}
    swallowed: set[str] = set()
    consumers = program.consumers()
    for node in program.nodes:
        if node.op == "BUCKETIZE":
            chain = _chain_of(node, program, consumers)
            last = chain[-1].output if chain else node.output
            lookups[last] = lookup_of(program.constants[node.inputs[1]], node.output, chain, program)
            made[last] = Node(op=LOOKUP, inputs=node.inputs[:1], output=last)
            swallowed.update(each.output for each in (node, *chain))
    nodes = []
    for node in program.nodes:
        if node.output in made:
            nodes.append(made[node.output])
        elif node.output not in swallowed:
            nodes.append(node)
    return replace(program, nodes=tuple(nodes), lookups=lookups)


def _chain_of(bucketize: Node, program: Program, consumers: Mapping[str, list[Node]]) -> list[Node]:
    """The nodes behind a BUCKETIZE that can be computed for each bucket beforehand."""
    chain: list[Node] = []
    value, leaving = bucketize.output, program.leaving()
    while len(consumers[value]) == 1 and value not in leaving:
        node = consumers[value][0]
        others = [name for name in node.inputs if name != value]
        scalars = all(name in program.constants and program.constants[name].size == 1 for name in others)
        if (
            node.op not in _OF_ONE_VALUE
            or not scalars
            or program.types[node.output].shape != program.types[value].shape
        ):
            break
        if program.types[node.output].type == "bool":
            break
        chain.append(node)
        value = node.output
    return chain


def lookup_of(boundaries: Float32Array, bucket: str, chain: list[Node], program: Program) -> Lookup:
    """The table of a BUCKETIZE that makes `bucket`, and of the `chain` of nodes behind it."""
    distinct, first = np.unique(boundaries, return_index=True)
    counts = np.append(first, len(boundaries)).astype(np.int32)  # boundaries ≤ x, when b of the distinct ones are
    values: AnyArray = counts
    if chain:
        read = (name for node in chain for name in node.inputs if name in program.constants)
        scalars = {name: program.constants[name].reshape(()) for name in read}
        graph = Graph(
            inputs=(TensorSpec(bucket, "int32_t", counts.shape),),
            nodes=tuple(chain),
            outputs=(Output(name="value", value=chain[-1].output),),
            constants=scalars,
        )
        values = Interpreter(graph)({bucket: counts})["value"]
    return Lookup(levels=_levels(distinct), values=values, distinct=len(distinct))


def _levels(boundaries: Float32Array) -> tuple[Float32Array, ...]:
    levels = [_blocks(boundaries)]
    while len(levels[0]) > BLOCK:
        levels.insert(0, _blocks(levels[0][BLOCK - 1 : -1 : BLOCK]))  # but for the last, which +inf stands for
    return tuple(levels)


def _blocks(ascending: Float32Array) -> Float32Array:
    """Whole blocks, with one +inf at least behind the last."""
    padding = BLOCK - len(ascending) % BLOCK
    return np.pad(ascending, (0, padding), constant_values=np.float32(np.inf))
