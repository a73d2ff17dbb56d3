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

    `locals` are the values that need no room in the workspace. `region` is the one being computed; `ends` the one
    whose SELECT_V2 this is.
    """

    items: list[Item]
    loop: Shape
    region: Region | None
    ends: Region | None = None
    locals: set[str] = field(default_factory=set)

    @property
    def made(self) -> dict[str, Item]:
        """The items by the value that they compute."""
        return {item.result.origin: item for item in self.items}

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
    return f"b_{region.select}_kept"


def _grouped(items: Iterable[Item], regions: Mapping[str, Region]) -> list[Step]:
    steps: list[Step] = []
    for item in items:
        region = regions.get(item.region)
        ends = regions.get(item.node.output)
        loop = squeezed(item.result.shape)
        if steps and ends is None and _joins(item, steps[-1], loop, region):
            steps[-1].items.append(item)
        else:
            steps.append(Step(items=[item], loop=loop, region=region, ends=ends))
    for step in steps:
        step.locals = _locals_of(step, steps)
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
    written = {each.result.buffer for each in step.items}
    return all(view.buffer not in written or step.reads_local(item, index) for index, view in enumerate(item.operands))


def _locals_of(step: Step, steps: Iterable[Step]) -> set[str]:
    """The values of a step that have a buffer of their own, which no other step reads."""
    if step.items[0].node.op not in GROUPED or step.ends is not None:
        return set()
    own = {item.result.buffer: name for name, item in step.made.items() if item.result.buffer == f"b_{name}"}
    for other in steps:
        for item in other.items:
            for index, view in enumerate(item.operands):
                if view.buffer in own and not (other is step and step.reads_local(item, index)):
                    own.pop(view.buffer)
    return set(own.values())


def _allocated(steps: list[Step], layout: Layout) -> tuple[tuple[Buffer, ...], int]:
    """First fit, in the order of the first write."""
    lives = _lives(steps, layout)
    placed: list[tuple[Buffer, int, tuple[int, int]]] = []
    for name, life in lives.items():
        type_name, count = layout.buffers[name]
        size = _rounded(count * VALUE_TYPES[type_name].itemsize)
        taken = sorted((each.offset, each.offset + length) for each, length, other in placed if _overlap(life, other))
        offset = 0
        for first, end in taken:
            if first - offset >= size:
                break
            offset = max(offset, end)
        placed.append((Buffer(name=name, type=type_name, element_count=count, offset=offset), size, life))
    total = max((each.offset + size for each, size, _ in placed), default=0)
    return tuple(each for each, _, _ in placed), max(total, ALIGNMENT_BYTES)


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


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
