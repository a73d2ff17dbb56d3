"""Where the elements of a value lie: a buffer, an offset and strides, as numpy has them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

Shape = tuple[int, ...]


def contiguous(shape: Shape) -> Shape:
    """Row-major strides, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def squeezed(shape: Shape) -> Shape:
    """The shape without its ones."""
    return tuple(size for size in shape if size != 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Elements of `buffer`, in C++ a pointer or an array of that name.

    Attributes:
        origin: the value that was computed (or given) into these elements; a view of a CONCATENATION is its own origin.
        region: the SELECT_V2 whose region computed them, which leaves the masked rows out and the others close
            together; "" where all rows are there.
        aligned: the view has the elements of `origin`, all and in order.
    """

    buffer: str
    origin: str
    shape: Shape
    strides: Shape
    offset: int = 0
    region: str = ""
    aligned: bool = True

    def reshaped(self, shape: Shape) -> View | None:
        """The same elements in another shape; None where that takes a copy."""
        if squeezed(shape) == squeezed(self.shape):
            left = [stride for size, stride in zip(self.shape, self.strides, strict=True) if size != 1]
            strides = tuple(left.pop(0) if size != 1 else 0 for size in shape)
            return replace(self, shape=shape, strides=strides)
        strides_or_none = _regrouped(self.shape, self.strides, shape)
        if strides_or_none is None:
            return None
        return replace(self, shape=shape, strides=strides_or_none, aligned=False)

    def transposed(self, permutation: Shape) -> View:
        """Axes in another order."""
        shape, strides = (tuple(each[axis] for axis in permutation) for each in (self.shape, self.strides))
        return replace(self, shape=shape, strides=strides, aligned=False)

    def sliced(self, begin: Shape, size: Shape) -> View:
        """A window."""
        offset = self.offset + sum(first * stride for first, stride in zip(begin, self.strides, strict=True))
        return replace(self, shape=size, offset=offset, aligned=False)

    def broadcast(self, shape: Shape) -> View:
        """Repeated to `shape`, by numpy's rules."""
        missing = len(shape) - len(self.shape)
        own = tuple(0 if size == 1 else stride for size, stride in zip(self.shape, self.strides, strict=True))
        return replace(self, shape=shape, strides=(0,) * missing + own, aligned=self.aligned and shape == self.shape)

    def part(self, axis: int, first: int, size: int) -> View:
        """`size` places along an axis; what is written there belongs to whoever writes it."""
        shape = (*self.shape[:axis], size, *self.shape[axis + 1 :])
        return replace(self, shape=shape, offset=self.offset + first * self.strides[axis])

    def without(self, axis: int, index: int) -> View:
        """One place of an axis, which vanishes."""
        part = self.part(axis, index, 1)
        return replace(
            part,
            shape=self.shape[:axis] + self.shape[axis + 1 :],
            strides=self.strides[:axis] + self.strides[axis + 1 :],
        )

    def row_stride(self) -> int | None:
        """Distance of rows `[…, elements]` that lie evenly, their elements close together; None where they do not."""
        if self.shape[-1] != 1 and self.strides[-1] != 1:
            return None
        rows = math.prod(self.shape[:-1])
        if rows == 1:
            return self.shape[-1]
        flat = _regrouped(self.shape[:-1], self.strides[:-1], (rows,))
        return flat[0] if flat else None


def _regrouped(shape: Shape, strides: Shape, wanted: Shape) -> Shape | None:
    """Strides of the same elements in shape `wanted`; None where no strides give them."""
    axes = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    targets = [(place, size) for place, size in enumerate(wanted) if size != 1]
    made = [0] * len(wanted)
    while axes and targets:
        # Take from both sides the fewest axes that have as many elements.
        old, new = [axes.pop(0)], [targets.pop(0)]
        while (have := math.prod(size for size, _ in old)) != (want := math.prod(size for _, size in new)):
            if have < want:
                old.append(axes.pop(0))
            else:
                new.append(targets.pop(0))
        if any(outer[1] != inner[0] * inner[1] for outer, inner in pairwise(old)):
            return None
        stride = old[-1][1]
        for place, size in reversed(new):
            made[place] = stride
            stride *= size
    return tuple(made)
