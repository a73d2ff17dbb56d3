"""Gives every value of a program its place, so that most moves of elements vanish.

RESHAPE, TRANSPOSE, SLICE and the TILE of single elements are views. A CONCATENATION or PACK is a buffer into whose
parts its operands are computed; only what lies elsewhere already (an input, a constant, a value that two of them want)
is copied there. Outputs are computed into the caller's buffers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from pymlgo.emit.program import COPY, Program
from pymlgo.emit.rows import OVER_ROWS, SAME_ELEMENTS, Region
from pymlgo.emit.views import Shape, View, contiguous, squeezed
from pymlgo.policy.graph import Node
from pymlgo.policy.operands import integer, integers

JOINS = frozenset({"CONCATENATION", "PACK"})
VIEWS = SAME_ELEMENTS | {"TRANSPOSE", "SLICE", "TILE"}
OUTPUT_PREFIX = "out_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One node to be computed: where its operands lie and where its result goes."""

    node: Node
    operands: tuple[View, ...]
    result: View
    type: str
    region: str = ""


@dataclass(slots=True, kw_only=True)
class Layout:
    """The items in order, and the buffers of our own: name to element type and number of elements."""

    items: list[Item] = field(default_factory=list)
    buffers: dict[str, tuple[str, int]] = field(default_factory=dict)


def laid_out(program: Program, regions: Iterable[Region]) -> Layout:
    """The layout of a program whose nodes stand in the order of `rows.with_regions`."""
    return _Builder(program, regions).built()


class _Builder:
    def __init__(self, program: Program, regions: Iterable[Region]) -> None:
        self.program = program
        self.types = program.types
        self.names = set(program.types)
        self.producers = {node.output: node for node in program.nodes}
        self.region_of = {member: region.select for region in regions for member in region.members}
        self.layout = Layout()
        self.views: dict[str, View] = {}
        self.places: dict[str, View] = {}
        self.copies: dict[str, list[tuple[str, View]]] = {}

    def built(self) -> Layout:
        for spec in self.program.inputs:
            self.views[spec.name] = _whole(f"in_{spec.name}", spec.name, spec.shape)
        for name, constant in self.program.constants.items():
            self.views[name] = _whole(f"t_{name}", name, constant.shape)
        leaving = self._place_outputs()
        for node in reversed(self.program.nodes):
            if node.op in JOINS:
                self._place_parts(node)
        for node in self.program.nodes:
            self._compute(node)
        for value, place in leaving:
            self._copy(self.views[value], place, self.types[value].type)
        return self.layout

    # --- places, decided backwards --------------------------------------------------------------------------

    def _place_outputs(self) -> list[tuple[str, View]]:
        """Give outputs the caller's buffers; those that must be copied there at the end."""
        copied = []
        for index, output in enumerate(self.program.outputs):
            place = _whole(f"{OUTPUT_PREFIX}{index}", output.value, self.types[output.value].shape)
            if not self._place(output.value, place):
                copied.append((output.value, place))
        return copied

    def _place(self, value: str, place: View) -> bool:
        """Let `value` be computed into `place`, if it can be and has no place yet."""
        root = self._root(value)
        node = self.producers.get(root)
        if node is None or node.op in VIEWS or root in self.places:
            return False
        if self.region_of.get(root, "") != place.region:
            return False
        shaped = place.reshaped(self.types[root].shape)
        if shaped is None or (node.op in OVER_ROWS and shaped.row_stride() is None):
            return False
        self.places[root] = replace(shaped, origin=root, aligned=True)
        return True

    def _root(self, value: str) -> str:
        """The value that a chain of mere renamings of axes of length 1 begins with."""
        node = self.producers.get(value)
        while node is not None and node.op in SAME_ELEMENTS:
            source = node.inputs[0]
            if squeezed(self.types[source].shape) != squeezed(self.types[value].shape):
                break
            value, node = source, self.producers.get(source)
        return value

    def _place_parts(self, node: Node) -> None:
        whole = self.places.get(node.output) or self._new_buffer(node.output)
        self.places[node.output] = whole
        axis, first = integer(node.attributes, "axis"), 0
        copies = self.copies.setdefault(node.output, [])
        for index, name in enumerate(node.inputs):
            if node.op == "PACK":
                part = whole.without(axis, index)
            else:
                size = self.types[name].shape[axis]
                part, first = whole.part(axis, first, size), first + size
            if not self._place(name, part):
                copies.append((name, part))

    # --- items, forwards ------------------------------------------------------------------------------------

    def _compute(self, node: Node) -> None:
        if node.op in JOINS:
            for name, part in self.copies[node.output]:
                self._copy(self.views[name], part, self.types[name].type)
            self.views[node.output] = self.places[node.output]
        elif node.op in VIEWS:
            self.views[node.output] = self._view(node)
        else:
            result = self.places.get(node.output) or self._new_buffer(node.output)
            operands = [self.views[name] for name in node.inputs]
            if node.op in OVER_ROWS:
                operands[0] = self._in_rows(operands[0], node)
            self._add(node, operands, result, self.types[node.output].type)
            self.views[node.output] = result

    def _view(self, node: Node) -> View:
        source, attributes = self.views[node.inputs[0]], node.attributes
        made = self.types[node.output]
        match node.op:
            case "TRANSPOSE":
                return source.transposed(integers(attributes, "permutation"))
            case "SLICE":
                return source.sliced(integers(attributes, "begin"), integers(attributes, "size"))
            case "TILE":
                return self._tiled(node, source, integers(attributes, "multiples"))
            case _:
                view = source.reshaped(made.shape)
                if view is None:
                    copy = self._copy(source, self._new_buffer(node.output, source.shape), made.type)
                    view = copy.reshaped(made.shape)
                if view is None:
                    raise AssertionError("a contiguous buffer takes any shape")
                return view

    def _tiled(self, node: Node, source: View, multiples: Shape) -> View:
        shape = self.types[node.output].shape
        if all(size == 1 or times == 1 for size, times in zip(source.shape, multiples, strict=True)):
            return source.broadcast(shape)
        apart = tuple(each for pair in zip(multiples, source.shape, strict=True) for each in pair)
        strides = tuple(each for stride in source.strides for each in (0, stride))
        repeated = replace(source, shape=apart, strides=strides, aligned=False)
        copy = self._copy(repeated, self._new_buffer(node.output, apart), self.types[node.output].type)
        return _whole(copy.buffer, copy.origin, shape)

    def _in_rows(self, operand: View, node: Node) -> View:
        """`operand`, or a copy of it, in rows that lie evenly, and in the region of the node that reads it."""
        region = self.region_of.get(node.output, "")
        if operand.row_stride() is not None and operand.region == region:
            return operand
        place = self._new_buffer(self._fresh(f"{node.output}_rows"), operand.shape, region)
        return self._copy(operand, place, "float")

    def _copy(self, source: View, place: View, type_name: str) -> View:
        name = self._fresh(f"{place.origin}_copy")
        place = replace(place, origin=name, aligned=True)
        self.names.add(name)
        self._add(Node(op=COPY, inputs=(source.origin,), output=name), [source], place, type_name)
        return place

    def _add(self, node: Node, operands: list[View], result: View, type_name: str) -> None:
        self.layout.items.append(
            Item(node=node, operands=tuple(operands), result=result, type=type_name, region=result.region)
        )

    def _new_buffer(self, value: str, shape: Shape | None = None, region: str | None = None) -> View:
        made = self.types.get(value)
        shape = shape if shape is not None else made.shape if made else ()
        type_name = made.type if made else "float"
        buffer = f"b_{value}"
        self.layout.buffers[buffer] = (type_name, math.prod(shape))
        return _whole(buffer, value, shape, self.region_of.get(value, "") if region is None else region)

    def _fresh(self, name: str) -> str:
        return next(
            each for each in _numbered(name) if each not in self.names and f"b_{each}" not in self.layout.buffers
        )


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1


def _whole(buffer: str, value: str, shape: Shape, region: str = "") -> View:
    return View(buffer=buffer, origin=value, shape=shape, strides=contiguous(shape), region=region)
