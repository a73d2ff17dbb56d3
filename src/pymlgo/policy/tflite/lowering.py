"""Rewrites a graph so that every node is one TFLite builtin; trees become comparisons and small dense layers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pymlgo.arrays import AnyArray, Float32Array, Int32Array
from pymlgo.errors import PolicyError
from pymlgo.policy.builder import GraphBuilder, Value
from pymlgo.policy.graph import Graph, Node
from pymlgo.policy.operands import real

LARGEST_LOWERED_NODES = 4096
LARGEST_LOWERED_TREES = 256
LARGEST_LOWERED_LEAVES = 256
"""Beyond these a tree ensemble has no TFLite form worth running: every tree costs four operators of an interpreter."""


def lowered(graph: Graph) -> Graph:
    """The same function of the same inputs in builtins only, with an operator behind every output.

    Raises:
        PolicyError: a tree ensemble is too large, or an output has a type that development mode does not read.
    """
    make = GraphBuilder()
    values = {spec.name: make.input(spec) for spec in graph.inputs}
    values |= {name: make.constant(array) for name, array in graph.constants.items()}
    for node in graph.nodes:
        operands = [values[name] for name in node.inputs]
        values[node.output] = _lowered_node(make, graph.constants, node, operands)
    computed = {node.output for node in graph.nodes}
    for output in graph.outputs:
        value = values[output.value]
        if value.type.type not in ("float", "int32_t", "int64_t"):
            raise PolicyError(
                f"output {output.name!r} is {value.type}; development mode reads float, int32_t and int64_t"
            )
        if output.value not in computed:  # an input, a constant, or already another output
            value = make.apply("RESHAPE", value, shape=value.type.shape)
        computed.discard(output.value)
        make.output(output.name, value)
    return make.build()


def _lowered_node(make: GraphBuilder, constants: Mapping[str, AnyArray], node: Node, operands: list[Value]) -> Value:
    match node.op:
        case "TreeEnsemble":
            tables = [constants[name] for name in node.inputs[1:]]
            return _trees(make, operands[0], np.float32(real(node.attributes, "base")), *tables)
        case "GATHER":
            last = operands[0].type.shape[int(str(node.attributes["axis"]))] - 1
            inside = operands[1].maximum(0).minimum(last)  # TFLite fails on an index outside
            return make.apply("GATHER", operands[0], inside, **node.attributes)
        case "FULLY_CONNECTED" if operands[0].type.rank != 2:
            columns = operands[0].type.shape[-1]
            rows = operands[0].reshape(operands[0].type.element_count // columns, columns)
            made = make.apply("FULLY_CONNECTED", rows, *operands[1:], **node.attributes)
            return made.reshape(*operands[0].type.shape[:-1], made.type.shape[1])
        case _:
            return make.apply(node.op, *operands, **node.attributes)


def _trees(
    make: GraphBuilder,
    rows: Value,
    base: np.float32,
    feature: Int32Array,
    threshold: Float32Array,
    left: Int32Array,
    right: Int32Array,
    leaf: Float32Array,
    roots: Int32Array,
) -> Value:
    """Every test of a tree is +1 or -1; a leaf is reached where the tests on its path all point to it.

    The dense layers add small integers or one leaf's value and zeros, which is exact in any order, and trees are added
    in theirs: so the result is the interpreter's, bit for bit.
    """
    if len(feature) > LARGEST_LOWERED_NODES or len(roots) > LARGEST_LOWERED_TREES:
        raise PolicyError(
            f"a tree ensemble of {len(roots)} trees and {len(feature)} nodes has no TFLite form",
            hint=f"up to {LARGEST_LOWERED_TREES} trees and {LARGEST_LOWERED_NODES} nodes are rewritten",
        )
    count = rows.type.element_count // rows.type.shape[-1]
    flat = rows.reshape(count, rows.type.shape[-1])
    total: Value | None = None
    for root in roots:
        nodes, paths = _paths(int(root), left, right)
        if not nodes:
            value = make.constant(leaf[~root].reshape(1, 1))
        else:
            value = _tree(make, flat, nodes, paths, feature, threshold, leaf)
        total = (value + make.constant(base.reshape(1, 1))) if total is None else total + value
    if total is None:
        total = make.constant(base.reshape(1, 1))
    if total.type.shape[0] != count:
        total = total.tile(count, 1)
    return total.reshape(*rows.type.shape[:-1], 1)


def _tree(
    make: GraphBuilder,
    flat: Value,
    nodes: list[int],
    paths: dict[int, list[tuple[int, float]]],
    feature: Int32Array,
    threshold: Float32Array,
    leaf: Float32Array,
) -> Value:
    towards = np.zeros((len(nodes), len(paths)), np.float32)
    for column, path in enumerate(paths.values()):
        for node, side in path:
            towards[nodes.index(node), column] = side
    depth = np.abs(towards).sum(axis=0)
    tested = make.apply("GATHER", flat, make.constant(feature[nodes]), axis=1)
    goes_left = (tested <= make.constant(threshold[nodes])).cast("float")
    sides = goes_left * 2 - 1
    reached = make.dense(sides, towards, -depth).equals(0).cast("float")
    leaves = leaf[list(paths)].reshape(-1, 1)
    return make.dense(reached, leaves, np.zeros(1, np.float32))


def _paths(root: int, left: Int32Array, right: Int32Array) -> tuple[list[int], dict[int, list[tuple[int, float]]]]:
    """The inner nodes below `root`, and for each leaf the nodes on its path with +1 (left) or -1 (right)."""
    nodes: list[int] = []
    paths: dict[int, list[tuple[int, float]]] = {}
    waiting: list[tuple[int, list[tuple[int, float]]]] = [(root, [])]
    while waiting:
        at, path = waiting.pop()
        if at < 0 and ~at not in paths:
            paths[~at] = path
            continue
        if at in nodes or at < 0:
            raise PolicyError("a tree that reaches a node or leaf in two ways has no TFLite form")
        nodes.append(at)
        if len(nodes) >= LARGEST_LOWERED_LEAVES:
            raise PolicyError(f"a tree with more than {LARGEST_LOWERED_LEAVES} leaves has no TFLite form")
        waiting.append((int(right[at]), [*path, (at, -1.0)]))
        waiting.append((int(left[at]), [*path, (at, 1.0)]))
    return nodes, paths
