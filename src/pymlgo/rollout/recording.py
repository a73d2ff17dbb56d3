"""Keeping what a compile asked and was told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymlgo.arrays import AnyArray, Int64Array
from pymlgo.channel.observation import Observation
from pymlgo.errors import ChannelError
from pymlgo.rollout.job import Trajectory
from pymlgo.rollout.keys import decision_keys
from pymlgo.rollout.remarks import Remark, pair_remarks
from pymlgo.training_log.header import Header


class Recorder:
    """A listener of the channel that counts decisions and, if asked, keeps them for `trajectory`.

    Attributes:
        decisions: how many were made.
        changed: how many of them differ from LLVM's default; None where that is unknown.
    """

    def __init__(self, default_feature: str | None, *, keep: bool) -> None:
        self.decisions = 0
        self.changed: int | None = None if default_feature is None else 0
        self._keep = keep
        self._default_feature = default_feature
        self._header: Header | None = None
        self._observations: list[bytes] = []
        self._advice: list[bytes] = []
        self._overridden: list[int] = []

    def on_header(self, header: Header) -> None:
        """A compiler introduced itself.

        Raises:
            ChannelError: it is the second one, and its features are others.
        """
        if self._header is not None and header.features != self._header.features:
            raise ChannelError("two compilers with different features answered one job")
        self._header = header
        if self._default_feature not in {spec.name for spec in header.features}:
            self._default_feature = self.changed = None

    def on_context(self, name: str) -> None:
        """Contexts make no difference here."""

    def on_advice(self, observation: Observation, advice: AnyArray) -> None:
        """A decision was made."""
        self.decisions += 1
        if self._default_feature is not None and self.changed is not None:
            self.changed += advice.item() != observation.features[self._default_feature].item()
        if self._keep:
            self._observations.append(bytes(observation.raw))
            self._advice.append(advice.tobytes())

    def mark_overridden(self) -> None:
        """The decision that is just being made is the overrides'."""
        self._overridden.append(self.decisions)

    def trajectory(self, remarks: Sequence[Remark] | None) -> Trajectory:
        """Everything that was kept, with names where `remarks` has them.

        Raises:
            ChannelError: the remarks are not those of the decisions.
        """
        overridden = np.zeros(len(self._advice), np.bool_)
        overridden[self._overridden] = True
        features, told = self._features(), self._told()
        callers: tuple[str, ...] = ()
        callees: tuple[str, ...] = ()
        if remarks is not None:
            if mismatch := pair_remarks(remarks, told):
                raise ChannelError(f"the compiler's remarks do not tell its decisions' names: {mismatch}")
            callers, callees = tuple(each.caller for each in remarks), tuple(each.callee for each in remarks)
        default = features.get(self._default_feature or "")
        return Trajectory(
            specs=self._header.features if self._header else (),
            features=features,
            advice=told,
            default=None if default is None else default.reshape(len(told)).astype(np.int64),
            overridden=overridden,
            callers=callers,
            callees=callees,
            keys=decision_keys(callers, callees),
        )

    def _features(self) -> dict[str, AnyArray]:
        if self._header is None:
            return {}
        specs = self._header.features
        layout = np.dtype([(spec.name, spec.dtype, spec.shape) for spec in specs])
        records = np.frombuffer(b"".join(self._observations), layout)
        return {spec.name: np.ascontiguousarray(records[spec.name]) for spec in specs}

    def _told(self) -> Int64Array:
        if self._header is None or self._header.advice is None:
            return np.zeros(0, np.int64)
        return np.frombuffer(b"".join(self._advice), self._header.advice.dtype).astype(np.int64)
