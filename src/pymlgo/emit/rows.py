"""Rows that need not be computed, because a mask throws their results away.

Eviction scores every register and then takes the lowest float where `mask` is 0. Everything that feeds the score row
by row, and nothing else, can be computed for the unmasked rows alone. That is proved from the graph, not assumed: a
region is the set of nodes whose every reader is in the region too or is the one SELECT_V2, on the side that loses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pymlgo.emit.program import COPY, LOOKUP, Program
from pymlgo.policy.graph import Node
from pymlgo.policy.operands import integer
from pymlgo.policy.values import ValueType

ELEMENTWISE = frozenset(
    {"CAST", "ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "ABS", "NEG", "SQRT", "EXP", "LOG", "TANH"}
    | {"LOGISTIC", "ELU", "RELU", "EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"}
    | {"LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT", "SELECT_V2", LOOKUP, COPY}
)
SAME_ELEMENTS = frozenset({"RESHAPE", "EXPAND_DIMS", "SQUEEZE"})
OVER_ROWS = frozenset({"FULLY_CONNECTED", "TreeEnsemble"})
"""Operators whose first operand is rows, `[…, features]`, each of which they take on its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Nodes (by output) that are computed for the rows that `select` keeps of `count`."""

    select: str
    keeps_true: bool
    count: int
    members: frozenset[str]


def with_regions(program: Program) -> tuple[Program, tuple[Region, ...]]:
    """The program, reordered so that each region stands right before its SELECT_V2, and the regions."""
    regions: list[Region] = []
    taken: set[str] = set()
    if not any(node.op in OVER_ROWS for node in program.nodes):
        return program, ()  # nothing that is worth it
    for node in program.nodes:
        if node.op == "SELECT_V2":
            for keeps_true in (True, False):
                region = _region_of(node, keeps_true, program)
                if region is not None and taken.isdisjoint(region.members | {node.output}):
                    regions.append(region)
                    taken |= region.members | {node.output}
                    break
    return replace(program, nodes=tuple(_reordered(program.nodes, regions))), tuple(regions)


def _region_of(select: Node, keeps_true: bool, program: Program) -> Region | None:
    kept = select.inputs[1 if keeps_true else 2]
    others = [name for name in select.inputs if name != kept]
    count = row_count(program.types[select.output])
    fits = (
        count is not None
        and len(others) == 2
        and kept not in program.leaving()
        and all(program.types[name].element_count == count for name in (select.inputs[0], kept, select.output))
    )
    if not fits or count is None:
        return None
    members = _members(select, kept, count, program)
    worth_it = any(node.op in OVER_ROWS and node.output in members for node in program.nodes)
    return Region(select=select.output, keeps_true=keeps_true, count=count, members=members) if worth_it else None


def _members(select: Node, kept: str, count: int, program: Program) -> frozenset[str]:
    consumers, leaving = program.consumers(), program.leaving()
    members: set[str] = set()
    for node in reversed(program.nodes):
        name = node.output
        readers = consumers[name]
        if name in leaving or not readers or row_count(program.types[name]) != count or not _is_by_row(node, program):
            continue
        inside = all(
            (reader is select and name == kept)
            or (reader.output in members and _keeps_rows(reader, name, program.types))
            for reader in readers
        )
        if inside:
            members.add(name)
    return frozenset(members)


def row_count(value_type: ValueType) -> int | None:
    """The length of the first axis that is longer than 1."""
    return next((size for size in value_type.shape if size != 1), None)


def _row_axis(value_type: ValueType) -> int:
    """Its place, counted from the right."""
    return value_type.rank - next(axis for axis, size in enumerate(value_type.shape) if size != 1)


def _is_by_row(node: Node, program: Program) -> bool:
    """Whether each row of the result can be computed without the others."""
    made = program.types[node.output]
    match node.op:
        case "CONCATENATION" | "PACK":
            return made.rank - integer(node.attributes, "axis") < _row_axis(made)
        case "GATHER":
            return node.inputs[0] in program.constants and node.attributes["axis"] == 0
        case "FULLY_CONNECTED" | "TreeEnsemble":
            return _row_axis(made) > 1
        case _:
            return node.op in ELEMENTWISE or node.op in SAME_ELEMENTS


def _keeps_rows(reader: Node, name: str, types: Mapping[str, ValueType]) -> bool:
    """Whether row r of `reader` takes of `name`, whose rows are as many, row r alone."""
    made, value = types[reader.output], types[name]
    if reader.op in ELEMENTWISE:
        return _row_axis(made) == _row_axis(value)
    if reader.op in OVER_ROWS:
        return name not in reader.inputs[1:] and _row_axis(value) > 1
    return True  # the other operators are members only where `_is_by_row` has seen that they leave the rows alone


def _reordered(nodes: Iterable[Node], regions: Iterable[Region]) -> list[Node]:
    region_of = {member: region for region in regions for member in region.members}
    waiting: dict[str, list[Node]] = {region.select: [] for region in regions}
    ordered: list[Node] = []
    for node in nodes:
        if node.output in region_of:
            waiting[region_of[node.output].select].append(node)
        else:
            ordered += waiting.get(node.output, [])
            ordered.append(node)
    return ordered
