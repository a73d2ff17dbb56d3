"""The closed form of a record: where its parts are, and how many records of that form follow each other.

All bytes of a record but tensors and number are the same from record to record, and the number is the one before plus
one. So a run of records is checked as columns of a strided view, with no loop over records.

| part | bytes |
|---|---|
| `{"observation":` number `}` newline | 17 + digits in LLVM's spelling |
| the features, one after the other | `header.observation_bytes` |
| newline | 1 |
| with a score: `{"outcome":` number `}` newline, the score, newline | 14 + digits + `score.byte_size` |
"""

from __future__ import annotations

import functools
import mmap
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pymlgo.arrays import AnyArray, BoolArray, Int64Array

_FIRST_WINDOW = 64
"""Records of the first check; most contexts of real logs are shorter."""

_LARGEST_WINDOW = 1 << 15
"""Records of one check: what the columns of a check need stays in the processor's cache."""


@dataclass(frozen=True, slots=True)
class RecordForm:
    """The form of records whose number has `digits` digits.

    `texts` are the fixed bytes with their places; `numbers` the places where the number starts, empty where they are
    not known: then nothing can be said of the next record.
    """

    stride: int
    tensors_at: int
    score_at: int
    digits: int
    texts: tuple[tuple[int, bytes], ...]
    numbers: tuple[int, ...]

    def count(self, data: mmap.mmap | bytes, start: int, number: int) -> int:
        """How many records of this form follow each other from byte `start` on, the first, which is whole, included."""
        if not self.numbers:
            return 1
        most = min(10**self.digits - number, (len(data) - start) // self.stride)
        found, window = 0, _FIRST_WINDOW
        while found < most:
            rows = min(window, most - found)
            fits = self._fits(data, start + found * self.stride, number + found, rows)
            if not fits.all():
                return found + int(fits.argmin())
            found += rows
            window = min(8 * window, _LARGEST_WINDOW)
        return found

    def _fits(self, data: mmap.mmap | bytes, start: int, number: int, rows: int) -> BoolArray:
        def column(at: int, dtype: str) -> AnyArray:
            return np.ndarray((rows,), dtype, data, start + at, (self.stride,))

        fits = np.ones(rows, np.bool_)
        for at, text in self.texts:
            for piece_at, dtype, value in _pieces(text):
                fits &= column(at + piece_at, dtype) == value
        for digit, dtype, expected in _digits(np.arange(number, number + rows), self.digits):
            for at in self.numbers:
                fits &= column(at + digit, dtype) == expected
        return fits


@functools.lru_cache(maxsize=256)
def _pieces(text: bytes) -> tuple[tuple[int, str, int], ...]:
    """`text` as few integers to compare: offset, dtype and value; the last may overlap the one before."""
    size = next(size for size in (8, 4, 2, 1) if size <= len(text))
    places = [*range(0, len(text) - size, size), len(text) - size]
    return tuple((at, f"<u{size}", int.from_bytes(text[at : at + size], "little")) for at in places)


@functools.cache
def _four_digits() -> AnyArray:
    """`0000` to `9999` as the 32-bit integers that their four bytes are."""
    return np.frombuffer(b"".join(b"%04d" % number for number in range(10_000)), "<u4")


def _digits(numbers: Int64Array, digits: int) -> Iterator[tuple[int, str, AnyArray]]:
    """The digits of all numbers as columns: place in the number, type, expected values."""
    if digits < 4:
        for place in range(digits):
            yield place, "<u1", numbers // 10 ** (digits - 1 - place) % 10 + ord("0")
        return
    # Four digits at a time from the right; the leftmost four may overlap those before.
    for place in {0, *range(digits - 4, 0, -4)}:
        yield place, "<u4", _four_digits()[numbers // 10 ** (digits - 4 - place) % 10_000]
