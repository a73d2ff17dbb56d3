"""The body of `evaluate`: each step of a plan as lines of C++."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.emit.expressions import expression
from pymlgo.emit.layout import Item
from pymlgo.emit.literals import literal
from pymlgo.emit.plan import GROUPED, Plan, Step, kept_count, row_list
from pymlgo.emit.program import LOOKUP
from pymlgo.emit.rows import Region
from pymlgo.emit.tables import Tables
from pymlgo.emit.views import Shape, View
from pymlgo.policy.operands import integer, integers, real

_ROW, _OUTSIDE_ROW = "r", "row"
_NAMES = ("i", "j", "k", "l", "m", "n", "p", "q", "s")
"""Loop variables; `r` counts the rows of a region, and `row` is the one that it stands for."""


class Body:
    """Collects the lines; `tables` learns which constants are needed."""

    def __init__(self, plan: Plan, tables: Tables) -> None:
        self.plan = plan
        self.tables = tables
        self.types = {name: made.type for name, made in plan.program.types.items()}
        self.lines: list[str] = []
        self.depth = 1
        self.open_region: Region | None = None

    def text(self) -> str:
        """The lines of every step."""
        for step in self.plan.steps:
            region = step.region or step.ends
            if region is not None and region != self.open_region:
                self._list_rows(region)
            self.open_region = region
            self.line()
            self.line(f"// {_summary(step)}")
            if step.ends is not None:
                self._select_rows(step.items[0], step.ends)
            elif step.items[0].node.op in GROUPED:
                self._loop_over(step)
            else:
                self._single(step.items[0])
        return "\n".join(self.lines)

    # --- writing --------------------------------------------------------------------------------------------

    def line(self, text: str = "") -> None:
        """One line at the present depth."""
        self.lines.append(f"{'  ' * self.depth}{text}" if text else "")

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """A block in braces."""
        self.line(f"{head} {{".lstrip())
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextmanager
    def loops(self, shape: Shape, region: Region | None = None, names: Sequence[str] = _NAMES) -> Iterator[list[str]]:
        """Nested loops over `shape`, whose axes of length 1 have none; gives an index for each axis."""
        indices: list[str] = []
        opened = 0
        free = iter(names)
        for size in shape:
            if size == 1:
                indices.append("0")
                continue
            rows = region is not None and opened == 0
            name = _ROW if rows else next(free)
            end = kept_count(region) if region is not None and rows else size
            self.line(f"for (int {name} = 0; {name} < {end}; ++{name}) {{")
            self.depth += 1
            opened += 1
            indices.append(name)
        yield indices
        for _ in range(opened):
            self.depth -= 1
            self.line("}")

    def element(self, view: View, indices: Sequence[str], region: Region | None = None) -> str:
        """An element of a view; one that lies outside the region being computed is found by its own row."""
        constant = self.plan.program.constants.get(view.origin)
        if constant is not None and view.buffer == f"t_{view.origin}":
            if _is_uniform(constant):
                return literal(constant.ravel()[0], self.types[view.origin])
            self.tables.plain(view.origin)
        terms = [str(view.offset)] if view.offset else []
        outside = region is not None and view.region != region.select
        for index, stride in zip(indices, view.strides, strict=True):
            if stride and index != "0":
                name = _OUTSIDE_ROW if outside and index == _ROW else index
                terms.append(name if stride == 1 else f"{stride} * {name}")
        return f"{view.buffer}[{' + '.join(terms) or '0'}]"

    # --- elementwise ----------------------------------------------------------------------------------------

    def _loop_over(self, step: Step) -> None:
        # A region's first loop runs over its rows: the first axis that is longer than 1.
        read = self._read_again(step)
        with self.loops(step.loop, step.region) as squeezed_indices:
            if step.region is not None:
                self.line(f"const int {_OUTSIDE_ROW} = {row_list(step.region)}[{_ROW}];")
            for item in step.items:
                self._assign(item, step, squeezed_indices, read)

    @staticmethod
    def _read_again(step: Step) -> set[str]:
        return {
            item.operands[index].origin
            for item in step.items
            for index in range(len(item.operands))
            if step.reads_local(item, index)
        }

    def _assign(self, item: Item, step: Step, loop_indices: Sequence[str], read: set[str]) -> None:
        indices = _spread(loop_indices, item.result.shape)
        value = self._value(item, step, indices)
        name = item.result.origin
        local = name in read or name in step.locals
        if local:
            self.line(f"const {item.type} v_{name} = {value};")
        if name not in step.locals:
            to = self.element(item.result, indices, step.region)
            self.line(f"{to} = {f'v_{name}' if local else value};")

    def _value(self, item: Item, step: Step, indices: Sequence[str]) -> str:
        if item.node.op == "GATHER":
            return self._gathered(item, step, indices)
        operands = []
        for index, view in enumerate(item.operands):
            local = step.reads_local(item, index)
            spread = view.broadcast(item.result.shape)
            operands.append(f"v_{view.origin}" if local else self.element(spread, indices, step.region))
        source_type = self.types.get(item.node.inputs[0], item.type)
        if item.node.op == LOOKUP:
            levels, values, distinct = self.tables.lookup(item.node.output)
            if source_type == "float":
                return f"{values}[bucket<{distinct}>({operands[0]}, {levels})]"
            return f"{values}[finite_bucket(static_cast<float>({operands[0]}), {levels})]"
        op = item.node.op
        if op == "SELECT_V2":
            return self._selected(item, *operands)
        self.tables.uses_operator(op, source_type, item.type)
        return expression(op, operands, source_type, item.type)

    def _selected(self, item: Item, condition: str, then: str, other: str) -> str:
        """Both choices are read before one is taken: g++ 12 makes wrong code of reads that it must mask (-O3, AVX2)."""
        choices = []
        for side, value in (("then", then), ("else", other)):
            if value.endswith("]"):
                self.line(f"const {item.type} {side}_{item.result.origin} = {value};")
                value = f"{side}_{item.result.origin}"
            choices.append(value)
        return expression("SELECT_V2", [condition, *choices], item.type, item.type)

    def _gathered(self, item: Item, step: Step, indices: Sequence[str]) -> str:
        table, chosen = item.operands
        axis = integer(item.node.attributes, "axis")
        behind = axis + len(chosen.shape)
        if step.reads_local(item, 1):
            index = f"v_{chosen.origin}"
        else:
            index = self.element(chosen, indices[axis:behind], step.region)
        self.tables.uses.clamped = True
        at = f"clamped({index}, {table.shape[axis] - 1})"
        return self.element(table, [*indices[:axis], at, *indices[behind:]], step.region)

    # --- the others -----------------------------------------------------------------------------------------

    def _single(self, item: Item) -> None:
        match item.node.op:
            case "FULLY_CONNECTED":
                self._dense(item)
            case "TreeEnsemble":
                self._trees(item)
            case "ARG_MAX":
                self._arg_max(item)
            case "SOFTMAX" | "LOG_SOFTMAX":
                self._softmax(item)
            case _:
                self._reduce(item)

    def _row_loop_count(self, item: Item) -> str:
        rows = math.prod(item.result.shape[:-1])
        region = self.open_region if item.region else None
        if region is None:
            return str(rows)
        each = rows // region.count
        return kept_count(region) if each == 1 else f"{each} * {kept_count(region)}"

    def _dense(self, item: Item) -> None:
        x, y = item.operands[0], item.result
        weights, bias = self.tables.dense(item.node)
        outputs, inputs = y.shape[-1], x.shape[-1]
        rows = math.prod(y.shape[:-1])
        relu = "true" if item.node.attributes["activation"] == "relu" else "false"
        self.line(
            f"dense<{inputs}, {outputs}, {relu}, {rows}>({self._row_loop_count(item)}, "
            f"{_pointer(x)}, {x.row_stride()}, {weights}, {bias}, {_pointer(y)}, {y.row_stride()});"
        )

    def _trees(self, item: Item) -> None:
        x, y = item.operands[0], item.result
        nodes, leaves, roots, count = self.tables.trees(item.node)
        with self.block(f"for (int i = 0; i < {self._row_loop_count(item)}; ++i)"):
            self.line(f"const float *const x = {_pointer(x)} + {x.row_stride()} * i;")
            base = literal(np.float32(real(item.node.attributes, "base")), "float")
            self.line(
                f"{_pointer(y)}[{y.row_stride()} * i] = tree_sum({base}, x, {nodes}, {leaves}, {roots}, {count});"
            )

    def _arg_max(self, item: Item) -> None:
        x, axis = item.operands[0], integer(item.node.attributes, "axis")
        kept = x.shape[:axis] + x.shape[axis + 1 :]
        kind = self.types[item.node.inputs[0]]
        with self.loops(kept) as indices:
            first, each = ([*indices[:axis], at, *indices[axis:]] for at in ("0", "at"))
            with self.block():
                self.line(f"{item.type} best_at = 0;")
                self.line(f"{kind} best = {self.element(x, first)};")
                with self.block(f"for (int at = 1; at < {x.shape[axis]}; ++at)"):
                    self.line(f"const {kind} value = {self.element(x, each)};")
                    self.line("best_at = value > best ? at : best_at;")
                    self.line("best = value > best ? value : best;")
                self.line(f"{self.element(item.result, indices)} = best_at;")

    def _softmax(self, item: Item) -> None:
        x, y, size = item.operands[0], item.result, item.operands[0].shape[-1]
        self.tables.uses.elementary = True
        with self.loops(x.shape[:-1]) as indices:
            first, each = [*indices, "0"], [*indices, "at" if size > 1 else "0"]
            over = f"for (int at = 0; at < {size}; ++at)"
            with self.block():
                self.line(f"float largest = {self.element(x, first)};")
                with self.block(over.replace("at = 0", "at = 1")):
                    self.line(f"largest = {self.element(x, each)} > largest ? {self.element(x, each)} : largest;")
                self.line("float sum = 0.0f;")
                with self.block(over):
                    self.line(f"const float shifted = {self.element(x, each)} - largest;")
                    self.line("const float power = exp_f32(shifted);")
                    kept = "power" if item.node.op == "SOFTMAX" else "shifted"
                    self.line(f"{self.element(y, each)} = {kept};")
                    self.line("sum = sum + power;")
                if item.node.op == "LOG_SOFTMAX":
                    self.line("const float logarithm = log_f32(sum);")
                last = "/ sum" if item.node.op == "SOFTMAX" else "- logarithm"
                with self.block(over):
                    self.line(f"{self.element(y, each)} = {self.element(y, each)} {last};")

    def _reduce(self, item: Item) -> None:
        x, node = item.operands[0], item.node
        axes = integers(node.attributes, "axes")
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
        reduced = tuple(size if axis in axes else 1 for axis, size in enumerate(x.shape))
        count = math.prod(reduced)
        largest = node.op == "REDUCE_MAX"
        with self.loops(kept) as outer, self.block():
            self.line(f"float made = {self.element(x, outer) if largest else '0.0f'};")
            inner_names = [f"at{number}" for number in range(len(reduced))]
            with self.loops(reduced, names=inner_names) as inner:
                both = [b if axis in axes else a for axis, (a, b) in enumerate(zip(outer, inner, strict=True))]
                value = self.element(x, both)
                self.line(f"made = {f'{value} > made ? {value} : made' if largest else f'made + {value}'};")
            if node.op == "MEAN":
                self.line(f"made = made / {literal(np.float32(count), 'float')};")
            place = item.result.reshaped(kept)
            if place is None:
                raise AssertionError("axes of length 1 change no places")
            self.line(f"{self.element(place, outer)} = made;")

    # --- regions --------------------------------------------------------------------------------------------

    def _condition(self, region: Region) -> View:
        select = next(step.items[0] for step in self.plan.steps if step.ends == region)
        return select.operands[0]

    def _list_rows(self, region: Region) -> None:
        rows, count = row_list(region), kept_count(region)
        condition = self._condition(region)
        self.line()
        self.line(f"// The rows that the mask keeps: nothing else is read of v_{region.select}.")
        self.line(f"int {count} = 0;")
        with self.loops(condition.shape) as indices:
            index = next(each for each in indices if each != "0")
            self.line(f"{rows}[{count}] = {index};")
            keeps = self.element(condition, indices)
            self.line(f"{count} += {'' if region.keeps_true else '!'}{keeps};")

    def _select_rows(self, item: Item, region: Region) -> None:
        kept = item.operands[1 if region.keeps_true else 2]
        other = item.operands[2 if region.keeps_true else 1]
        with self.loops(item.result.shape) as indices:
            spread = other.broadcast(item.result.shape)
            self.line(f"{self.element(item.result, indices)} = {self.element(spread, indices)};")
        flat = item.result.reshaped((region.count,))
        source = kept.reshaped((region.count,))
        if flat is None or source is None:
            raise AssertionError("one axis longer than 1 makes a vector")
        with self.block(f"for (int {_ROW} = 0; {_ROW} < {kept_count(region)}; ++{_ROW})"):
            to = self.element(flat, [f"{row_list(region)}[{_ROW}]"])
            self.line(f"{to} = {self.element(source, [_ROW])};")


def _is_uniform(constant: AnyArray) -> bool:
    """Whether all elements are one, bit for bit."""
    return constant.tobytes() == constant.ravel()[:1].tobytes() * constant.size


def _pointer(view: View) -> str:
    return f"{view.buffer} + {view.offset}" if view.offset else view.buffer


def _spread(loop_indices: Sequence[str], shape: Shape) -> list[str]:
    """The indices of a loop over the axes longer than 1, for all axes."""
    left = list(loop_indices)
    return [left.pop(0) if size != 1 else "0" for size in shape]


def _summary(step: Step) -> str:
    """What the lines below compute."""
    item = step.items[0]
    made = f"{item.type}[{', '.join(map(str, item.result.shape))}]"
    what = "elementwise" if len(step.items) > 1 else item.node.op
    names = ", ".join(each.result.origin for each in step.items[:3]) + (", …" if len(step.items) > 3 else "")
    rows = ", for the kept rows" if step.region else ""
    return f"{names}: {what}, {made}{rows}"
