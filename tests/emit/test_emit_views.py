"""Strided views do what numpy does with the same elements."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pymlgo.emit.views import View, contiguous

SHAPES = st.lists(st.integers(1, 4), min_size=0, max_size=4).map(tuple)


def elements(view: View, buffer: np.ndarray) -> np.ndarray:
    """The elements of a view, as its offset and strides say."""
    strides = tuple(stride * buffer.itemsize for stride in view.strides)
    return np.lib.stride_tricks.as_strided(buffer[view.offset :], view.shape, strides)


@st.composite
def views(draw: st.DrawFn) -> tuple[View, np.ndarray]:
    """A view after some transpositions and slices, and its buffer."""
    shape = draw(SHAPES)
    buffer = np.arange(math.prod(shape))
    view = View(buffer="b", origin="b", shape=shape, strides=contiguous(shape))
    for _ in range(draw(st.integers(0, 2))):
        if draw(st.booleans()):
            view = view.transposed(tuple(draw(st.permutations(range(len(view.shape))))))
        else:
            size = tuple(draw(st.integers(1, each)) for each in view.shape)
            begin = tuple(draw(st.integers(0, whole - part)) for whole, part in zip(view.shape, size, strict=True))
            view = view.sliced(begin, size)
    return view, buffer


def factorizations(draw: st.DrawFn, count: int) -> tuple[int, ...]:
    """A shape of `count` elements."""
    sizes = []
    while count > 1:
        size = draw(st.sampled_from([each for each in range(1, count + 1) if count % each == 0]))
        sizes.append(size)
        count //= size
        if len(sizes) == 4:
            sizes.append(count)
            break
    return tuple(sizes)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_reshaped_views_have_numpys_elements(data: st.DataObject) -> None:
    view, buffer = data.draw(views())
    shape = factorizations(data.draw, math.prod(view.shape))
    made = view.reshaped(shape)
    expected = elements(view, buffer).reshape(shape)
    if made is None:
        assert not np.shares_memory(expected, buffer) or expected.size == 0
    else:
        assert np.array_equal(elements(made, buffer), expected)


@settings(max_examples=200, deadline=None)
@given(views(), st.integers(1, 3))
def test_broadcast_views_have_numpys_elements(given_view: tuple[View, np.ndarray], times: int) -> None:
    view, buffer = given_view
    shape = (times, *(3 if size == 1 else size for size in view.shape))
    assert np.array_equal(elements(view.broadcast(shape), buffer), np.broadcast_to(elements(view, buffer), shape))


@settings(max_examples=200, deadline=None)
@given(views())
def test_row_strides_find_every_row(given_view: tuple[View, np.ndarray]) -> None:
    view, buffer = given_view
    if not view.shape:
        return
    stride = view.row_stride()
    if stride is not None:
        rows = elements(view, buffer).reshape(-1, view.shape[-1])
        for index, row in enumerate(rows):
            start = view.offset + index * stride
            assert np.array_equal(buffer[start : start + view.shape[-1]], row)
