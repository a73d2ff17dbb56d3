"""Names for inlining decisions that stay the same from compile to compile."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

KeyArray: TypeAlias = NDArray[np.uint64]


def decision_key(caller: str, callee: str, occurrence: int) -> int:
    """The key of the decision number `occurrence` (from 0) of one compile about calls from `caller` to `callee`.

    It is LLVM's own hash of names, `llvm::MD5Hash`, over `caller NUL callee NUL occurrence` (decimal), so that a pass
    plugin computes the same number with one call of LLVM's library.

    Limits: when one of several calls between the same two functions disappears, the later ones move up; a caller that
    was itself inlined is, from then on, the function it was inlined into.
    """
    text = f"{caller}\0{callee}\0{occurrence}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.md5(text, usedforsecurity=False).digest()[:8], "little")


def decision_keys(callers: Sequence[str], callees: Sequence[str]) -> KeyArray:
    """The keys u64[n] of all n decisions of one compile, given in the order in which they were asked."""
    seen: Counter[tuple[str, str]] = Counter()
    keys = np.empty(len(callers), np.uint64)
    for index, pair in enumerate(zip(callers, callees, strict=True)):
        keys[index] = decision_key(*pair, seen[pair])
        seen[pair] += 1
    return keys
