"""What a training run may cost, and what it has cost so far."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pymlgo.rollout import Outcome

COMPILES_PER_CORE_SECOND = 8
"""For planning a run that has a time budget only. Measured: 0.08 to 0.14 CPU seconds a compile at -Oz."""


@dataclass(slots=True, kw_only=True)
class Budget:
    """Compiles and seconds, spent and left.

    Attributes:
        max_compiles: the plan is made for so many; the result depends on it.
        limit_s: wall seconds after which no further compile starts; it cuts the plan short, and changes nothing else.
        compiles, cpu_s: spent.
        before_s: wall seconds of the run before it was resumed.
    """

    max_compiles: int
    limit_s: float | None
    compiles: int = 0
    cpu_s: float = 0.0
    before_s: float = 0.0
    _started: float = field(default_factory=time.monotonic)

    def spend(self, outcome: Outcome) -> None:
        """Count one compile."""
        self.compiles += 1
        self.cpu_s += outcome.cpu_s

    @property
    def elapsed_s(self) -> float:
        """Wall seconds of the whole run, interruptions left out."""
        return self.before_s + time.monotonic() - self._started

    def is_late(self, share: float, reserve_s: float = 0.0) -> bool:
        """True when more than `share` of the time, less `reserve_s`, is gone; never without a limit."""
        return self.limit_s is not None and self.elapsed_s > share * (self.limit_s - reserve_s)
