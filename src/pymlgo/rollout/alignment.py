"""Finding the decisions of a recorded compile again while another one is running.

The channel sends no names, so a decision is recognized by what stays the same when *other* decisions change: its
features without the few that count the whole module, and its place in the order. Where a flip changed the caller as
well (an earlier call of it was inlined), or made this the last call of a static function, the features of callee and
call site alone have to do, and only near the place where the decision is expected.

Limits: two calls with equal features, of which an override removed the first, can be taken for each other. That costs
a label, not correctness: who was really decided is read from the remarks afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.channel import Observation
from pymlgo.rollout.job import Overrides, Trajectory
from pymlgo.training_log.header import Header

OF_THE_MODULE = frozenset(
    ("node_count", "edge_count", "callsite_height", "callee_users", "caller_users", "inlining_default")
)
"""Features of the inliner that change with decisions elsewhere in the module."""

OF_THE_CALLER = OF_THE_MODULE | {
    "cost_estimate",
    "last_call_to_static_bonus",
    "threshold",
    "caller_basic_block_count",
    "caller_conditionally_executed_blocks",
}
"""Those, and what changes with other decisions about the same caller or callee."""

NEAR = 4
"""How many decisions from its expected place one may be that is recognized by callee and call site alone."""


class Alignment:
    """Says, decision by decision, what `overrides` want."""

    def __init__(self, overrides: Overrides, header: Header) -> None:
        self._advice = overrides.advice
        self._keys = overrides.recorded.keys
        self._exact = _Index(overrides.recorded, header, OF_THE_MODULE)
        self._loose = _Index(overrides.recorded, header, OF_THE_CALLER)
        self._used: set[int] = set()
        self._expected = 0

    def advice(self, observation: Observation) -> int | None:
        """What the overrides say about this decision; None where they say nothing, or it was not recorded."""
        place = self._exact.nearest(observation, self._expected, self._used)
        if place is None:
            place = self._loose.nearest(observation, self._expected, self._used)
            if place is None or abs(place - self._expected) > NEAR:
                return None
        self._used.add(place)
        self._expected = place + 1
        return self._advice.get(int(self._keys[place]))


class _Index:
    """The places of recorded decisions by their features but for `without`."""

    def __init__(self, recorded: Trajectory, header: Header, without: frozenset[str]) -> None:
        self._windows = _windows(header, without)
        self._places: dict[bytes, list[int]] = {}
        names = [spec.name for spec in header.features if spec.name not in without]
        for place, fingerprint in enumerate(_fingerprints(recorded, names)):
            self._places.setdefault(fingerprint, []).append(place)

    def nearest(self, observation: Observation, expected: int, used: set[int]) -> int | None:
        """The unused place with the observation's features that is nearest to `expected`."""
        raw = observation.raw
        places = self._places.get(b"".join([raw[start:end] for start, end in self._windows]))
        if places is None:
            return None
        return min((each for each in places if each not in used), key=lambda each: abs(each - expected), default=None)


def _windows(header: Header, without: frozenset[str]) -> list[tuple[int, int]]:
    """Byte ranges of the observation that hold the features to compare; neighbours are joined."""
    windows: list[tuple[int, int]] = []
    offset = 0
    for spec in header.features:
        end = offset + spec.byte_size
        if spec.name not in without:
            if windows and windows[-1][1] == offset:
                windows[-1] = windows[-1][0], end
            else:
                windows.append((offset, end))
        offset = end
    return windows


def _fingerprints(recorded: Trajectory, names: Sequence[str]) -> list[bytes]:
    count = len(recorded)
    columns: list[AnyArray] = [
        np.ascontiguousarray(recorded.features[name]).reshape(count, -1).view(np.uint8) for name in names
    ]
    return [row.tobytes() for row in np.concatenate(columns, axis=1)] if columns and count else []
