"""Steps in their order, and the room that each buffer takes in the workspace.

Neighbouring elementwise items over the same shape become one loop, in which a value that nothing else reads stays a
local variable. Buffers whose lives do not overlap share their bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pymlgo.emit.layout import Item, Layout, laid_out
from pymlgo.emit.program import Program, simplified
from pymlgo.emit.rows import ELEMENTWISE, Region, with_regions
from pymlgo.emit.views import Shape, squeezed
from pymlgo.policy.graph import Graph
from pymlgo.policy.values import VALUE_TYPES

ALIGNMENT_BYTES = 64
"""A cache line, and the widest vector register."""

GROUPED = ELEMENTWISE | {"GATHER"}


@dataclass(slots=True, kw_only=True)
class Step:
    """Items that are computed together: elementwise ones in one loop over `loop`, or one other item.

    Attributes:
        loop: the axes that are longer than 1.
        region: the one being computed.
        ends: the one whose SELECT_V2 this is.
        items: in the order of evaluation; `add` appends.
        made: the values that the items compute.
        written: the buffers that they write.
        locals: the values that need no room in the workspace.
    """

    loop: Shape
    region: Region | None
    ends: Region | None
    items: list[Item] = field(default_factory=list)
    made: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    locals: set[str] = field(default_factory=set)

    def add(self, item: Item) -> None:
        """Compute `item` last."""
        self.items.append(item)
        self.made.add(item.result.origin)
        self.written.add(item.result.buffer)

    def reads_local(self, item: Item, operand: int) -> bool:
        """Whether an operand is, place for place, what this step's loop has just computed."""
        view = item.operands[operand]
        pointwise = item.node.op != "GATHER" or operand == 1
        return pointwise and view.aligned and view.origin in self.made and squeezed(view.shape) == self.loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A piece of the workspace."""

    name: str
    type: str
    element_count: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that the C++ of one graph says."""

    program: Program
    regions: tuple[Region, ...]
    steps: tuple[Step, ...]
    buffers: tuple[Buffer, ...]
    workspace_bytes: int

    @property
    def read_buffers(self) -> frozenset[str]:
        """Every buffer, input and table that some step reads."""
        return frozenset(view.buffer for step in self.steps for item in step.items for view in item.operands)


def planned(graph: Graph) -> Plan:
    """The plan of a graph."""
    program, regions = with_regions(simplified(graph))
    layout = laid_out(program, regions)
    steps = _grouped(layout.items, {region.select: region for region in regions})
    buffers, size = _allocated(steps, layout)
    return Plan(program=program, regions=regions, steps=tuple(steps), buffers=buffers, workspace_bytes=size)


def row_list(region: Region) -> str:
    """The name of the buffer that lists the rows of a region."""
    return f"rows_{region.select}"


def kept_count(region: Region) -> str:
    """The name of the variable that says how many rows it lists."""
    return f"count_{region.select}"


def _grouped(items: Iterable[Item], regions: Mapping[str, Region]) -> list[Step]:
    steps: list[Step] = []
    for item in items:
        region = regions.get(item.region)
        ends = regions.get(item.node.output)
        loop = squeezed(item.result.shape)
        if not (steps and ends is None and _joins(item, steps[-1], loop, region)):
            steps.append(Step(loop=loop, region=region, ends=ends))
        steps[-1].add(item)
    _find_locals(steps)
    return steps


def _joins(item: Item, step: Step, loop: Shape, region: Region | None) -> bool:
    """Whether `item` may be computed in the loop of `step`."""
    last = step.items[-1].node
    if item.node.op not in GROUPED or last.op not in GROUPED or step.ends is not None:
        return False
    if step.loop != loop or step.region != region:
        return False
    if not loop:
        return True  # no loop: whatever was computed before is there
    return all(
        view.buffer not in step.written or step.reads_local(item, index) for index, view in enumerate(item.operands)
    )


def _find_locals(steps: Iterable[Step]) -> None:
    """The values that have a buffer of their own, and no reader outside the step that computes them, are local."""
    home: dict[str, tuple[Step, str]] = {}
    for step in steps:
        if step.items[0].node.op in GROUPED and step.ends is None:
            for item in step.items:
                name = item.result.origin
                if item.result.buffer == f"b_{name}":
                    home[item.result.buffer] = (step, name)
                    step.locals.add(name)
    for step in steps:
        for item in step.items:
            for index, view in enumerate(item.operands):
                made_in, name = home.get(view.buffer, (None, ""))
                if made_in is not None and not (made_in is step and step.reads_local(item, index)):
                    made_in.locals.discard(name)


def _allocated(steps: list[Step], layout: Layout) -> tuple[tuple[Buffer, ...], int]:
    """First fit, in the order of the first write."""
    lives = _lives(steps, layout)
    made: list[Buffer] = []
    living: list[tuple[int, int, int]] = []  # offset, its end, last step
    total = ALIGNMENT_BYTES
    for name, (first, last) in lives.items():
        type_name, count = layout.buffers[name]
        size = aligned_bytes(count * VALUE_TYPES[type_name].itemsize)
        living = sorted(each for each in living if each[2] >= first)
        offset = 0
        for begin, end, _ in living:
            if begin - offset >= size:
                break
            offset = max(offset, end)
        living.append((offset, offset + size, last))
        total = max(total, offset + size)
        made.append(Buffer(name=name, type=type_name, element_count=count, offset=offset))
    return tuple(made), total


def _lives(steps: list[Step], layout: Layout) -> dict[str, tuple[int, int]]:
    """First and last step that touch each buffer which is needed at all."""
    lives: dict[str, tuple[int, int]] = {}

    def touch(name: str, index: int) -> None:
        first, _ = lives.get(name, (index, index))
        lives[name] = (first, index)

    for index, step in enumerate(steps):
        region = step.region or step.ends
        if region is not None:
            layout.buffers.setdefault(row_list(region), ("int32_t", region.count))
            touch(row_list(region), index)
        for item in step.items:
            for view in (item.result, *item.operands):
                if view.buffer in layout.buffers and view.buffer.removeprefix("b_") not in step.locals:
                    touch(view.buffer, index)
    return lives


def aligned_bytes(size: int) -> int:
    """`size` and the padding that keeps the next buffer aligned."""
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
