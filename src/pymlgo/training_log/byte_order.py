"""Recognizes a log that a machine of the other byte order wrote.

The format carries no mark of its byte order, so only the values can tell, and only by what is plausible:

- an integer of 16, 32 or 64 bits is plausible when it fits into half its bits: counts, costs and flags do;
- a `float` or `double` is plausible when it is 0 or its magnitude lies between 1e-12 and 1e12;
- an element *tells* when it is plausible in one byte order and not in the other. 0, -1 and tensors of bytes never tell.

A log is taken for foreign when, over its first observations, at least `ENOUGH` elements tell and nine in ten of them
say so. Hence what cannot be recognized: a log of fewer telling elements, and one whose values are large in earnest.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pymlgo.arrays import AnyArray, BoolArray

ENOUGH = 8
"""Elements that must tell before a judgement; the first observation of an inliner log has about 20."""

LONGEST_LOOK = 64
"""Observations after which an undecided log is taken for our own."""

FOREIGN_HINT = "read the log on a machine of the byte order that wrote it: the format is for one host"

_FLOAT_RANGE = (1e-12, 1e12)


class ByteOrderJudge:
    """Looks at a log's first observations, one by one, until it knows."""

    def __init__(self) -> None:
        self.decided = False
        self._seen = 0
        self._native = 0
        self._foreign = 0

    def is_foreign(self, tensors: Iterable[AnyArray]) -> bool:
        """Whether this observation, after those before, shows the other byte order; always False once decided."""
        if self.decided:
            return False
        self._seen += 1
        for values in tensors:
            native, foreign = telling_elements(values)
            self._native += native
            self._foreign += foreign
        telling = self._native + self._foreign
        self.decided = telling >= ENOUGH or self._seen == LONGEST_LOOK
        return telling >= ENOUGH and self._foreign >= 0.9 * telling


def telling_elements(values: AnyArray) -> tuple[int, int]:
    """How many elements are plausible only as they are, and how many only with their bytes reversed."""
    if values.dtype.itemsize == 1:
        return 0, 0
    here, swapped = _plausible(values), _plausible(values.byteswap())
    return int(np.count_nonzero(here & ~swapped)), int(np.count_nonzero(swapped & ~here))


def _plausible(values: AnyArray) -> BoolArray:
    if values.dtype.kind == "f":
        low, high = _FLOAT_RANGE
        with np.errstate(invalid="ignore"):  # reversed bytes may be a signalling NaN
            magnitude = np.abs(values)
            moderate: BoolArray = (values == 0) | ((magnitude > low) & (magnitude < high))
        return moderate
    half = 1 << (4 * values.dtype.itemsize)
    small: BoolArray = values < half
    return small if values.dtype.kind == "u" else small & (values >= -half)
