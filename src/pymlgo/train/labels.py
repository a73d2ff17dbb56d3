"""Labelled decisions: what inlining a call was worth, measured by turning it around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pymlgo.arrays import BoolArray, Float64Array, Int64Array
from pymlgo.rollout import RolloutResult, Trajectory
from pymlgo.train.attribution import Label

LARGEST_LABEL_BYTES = 60.0
"""Labels are clipped to this: a few calls of huge functions would otherwise decide the fit. 150 was measured worse."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labels:
    """n labelled decisions.

    Attributes:
        features: f64[n, f], in the order of the names that the collector was made with.
        saved_bytes: f64[n], bytes that inlining saves against not inlining; a group's are shared out equally.
        default: i64[n], LLVM's own decision.
        module: i64[n], number of the module.
        group: i64[n], members of the flip that gave the label.
    """

    features: Float64Array
    saved_bytes: Float64Array
    default: Int64Array
    module: Int64Array
    group: Int64Array

    def __len__(self) -> int:
        return len(self.saved_bytes)

    @property
    def target(self) -> Float64Array:
        """What a model learns: `saved_bytes`, clipped."""
        return np.clip(self.saved_bytes, -LARGEST_LABEL_BYTES, LARGEST_LABEL_BYTES)

    def of(self, rows: BoolArray) -> Labels:
        """The chosen rows."""
        return Labels(**{name: getattr(self, name)[rows] for name in Labels.__dataclass_fields__})

    def without_overruled(self) -> Labels:
        """Without the single flips of decisions that a group flip of the same module labelled, too.

        A single flip cannot see that the callee's body goes away once the last call of it is inlined.
        """
        rows = np.column_stack([self.module, self.features]).astype(np.float64)
        keys = [row.tobytes() for row in np.ascontiguousarray(rows)]
        grouped = {key for key, members in zip(keys, self.group, strict=True) if members > 1}
        pairs = zip(keys, self.group, strict=True)
        return self.of(np.array([members > 1 or key not in grouped for key, members in pairs], np.bool_))


@dataclass(slots=True)
class LabelCollector:
    """Collects labels, module by module; `labels` makes arrays of them."""

    features: tuple[str, ...]
    _rows: list[Float64Array] = field(default_factory=list)
    _saved: list[float] = field(default_factory=list)
    _default: list[int] = field(default_factory=list)
    _module: list[int] = field(default_factory=list)
    _group: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._saved)

    def add(self, module: int, base: RolloutResult, flipped: RolloutResult, labels: Sequence[Label]) -> None:
        """Keep the labels of one compile.

        Of a group, each member counts twice: as the base compile asked, and as the flipped one did (where its sisters
        had agreed already).
        """
        before, after = _recorded(base), _recorded(flipped)
        matrix_before, matrix_after = before.matrix(self.features), after.matrix(self.features)
        places_after = {int(key): place for place, key in enumerate(after.keys)}
        for label in labels:
            members = label.flip.members
            sign = -1.0 if label.flip.advice else 1.0
            saved = sign * label.change_bytes / len(members)
            for member in members:
                self._append(module, matrix_before[member], saved, before, member, len(members))
                again = places_after.get(int(before.keys[member]))
                if len(members) > 1 and again is not None and (matrix_after[again] != matrix_before[member]).any():
                    self._append(module, matrix_after[again], saved, after, again, len(members))

    def add_all(self, labels: Labels) -> None:
        """Keep labels that were arrays already."""
        self._rows.extend(labels.features)
        self._saved.extend(labels.saved_bytes.tolist())
        self._default.extend(labels.default.tolist())
        self._module.extend(labels.module.tolist())
        self._group.extend(labels.group.tolist())

    def labels(self) -> Labels:
        """Everything that was kept, in order."""
        return Labels(
            features=np.array(self._rows, np.float64).reshape(len(self), len(self.features)),
            saved_bytes=np.array(self._saved, np.float64),
            default=np.array(self._default, np.int64),
            module=np.array(self._module, np.int64),
            group=np.array(self._group, np.int64),
        )

    def _append(
        self, module: int, row: Float64Array, saved: float, trajectory: Trajectory, place: int, members: int
    ) -> None:
        self._rows.append(row)
        self._saved.append(saved)
        self._default.append(0 if trajectory.default is None else int(trajectory.default[place]))
        self._module.append(module)
        self._group.append(members)


def _recorded(result: RolloutResult) -> Trajectory:
    if result.trajectory is None:
        raise ValueError(f"{result.module}: labels need a recorded compile")
    return result.trajectory
