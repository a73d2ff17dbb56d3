"""What an episode is judged by: the size of the object, or what the register allocator says its spills cost."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pymlgo.corpus.object_file import ObjectError
from pymlgo.corpus.objects import object_sizes
from pymlgo.rollout.remarks import remark_flags

_FUNCTION = re.compile(rb"^Pass: +regalloc\nName: +SpillReloadCopies\n(?:(?!\.\.\.).*\n)*", re.MULTILINE)
"""One remark, of a whole function; those of its loops have another name and are contained in it.

Source: RAGreedy::reportStats (LLVM 19 and 22).
"""

_COST = re.compile(rb"^  - Total(\w+)Cost: +'([^']*)'", re.MULTILINE)

WEIGHTS = {b"Spills": 1.0, b"FoldedSpills": 1.0, b"Reloads": 4.0, b"FoldedReloads": 4.0, b"Copies": 0.2}
"""Of a store, a load and a copy. Departure from LLVM's score: instructions that are computed again are not counted, as
the remarks do not tell them.

Source: the defaults of regalloc-{store,load,copy}-weight (RegAllocScore.cpp, LLVM 22).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a compile gave: `value` in bytes of code, or in weighted instructions; and the object's digest."""

    value: float
    object_sha256: str


@dataclass(frozen=True, slots=True)
class Measure:
    """How compiles of one problem are judged, in the files of one folder."""

    problem: str
    folder: Path

    @property
    def object_file(self) -> Path:
        """Where the compile has to write."""
        return self.folder / "module.o"

    def flags(self, command: Sequence[bytes | str]) -> list[str]:
        """What the command needs besides; it leaves the object as it is."""
        if self.problem == "inlining":
            return []
        return remark_flags(command, self._remarks, passes="regalloc")

    def cost(self) -> Cost:
        """The cost of the compile that has just ended.

        Raises:
            ObjectError: it wrote no object.
        """
        try:
            data = self.object_file.read_bytes()
        except OSError as error:
            raise ObjectError(f"the compiler wrote no object: {error.strerror}") from error
        value = object_sizes(data).text_bytes if self.problem == "inlining" else spill_cost(self._read_remarks())
        return Cost(value=float(value), object_sha256=hashlib.sha256(data).hexdigest())

    @property
    def _remarks(self) -> Path:
        return self.folder / "remarks.yaml"

    def _read_remarks(self) -> bytes:
        try:
            return self._remarks.read_bytes()
        except FileNotFoundError:  # no function spilled
            return b""


def spill_cost(remarks: bytes) -> float:
    """The weighted cost of all functions' spills, reloads and copies, each times the frequency of its block."""
    return sum(
        WEIGHTS.get(kind, 0.0) * float(cost)
        for function in _FUNCTION.findall(remarks)
        for kind, cost in _COST.findall(function)
    )
