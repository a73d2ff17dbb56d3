"""The first line of a training log: what each record holds."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pymlgo.errors import SpecError
from pymlgo.tensor_spec import TensorSpec

_OWN_KEYS = ("features", "score", "advice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The tensors of a log or of a conversation with a compiler, in the order of the wire.

    A training log names the action as its last feature and may have a `score`; the header of an interactive channel
    has an `advice`, which is no feature, and no score. Keys that this package does not know are kept in `extra`.

    Source: Logger in llvm/lib/Analysis/TrainingLogger.cpp (LLVM 22).
    """

    features: tuple[TensorSpec, ...]
    score: TensorSpec | None = None
    advice: TensorSpec | None = None
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        counts = Counter(spec.name for spec in self.features)
        if repeated := [name for name, count in counts.items() if count > 1]:
            raise SpecError(f"header: features are told apart by name, {repeated[0]!r} stands there twice")
        for spec in (*self.features, self.score, self.advice):
            if spec is not None and valid_name(spec.name) != spec.name:
                raise SpecError(f"header: the name {spec.name!r} is not Unicode")
        if taken := [key for key in self.extra if key in _OWN_KEYS]:
            raise SpecError(f"header: {taken[0]!r} is no extra key")

    @property
    def action(self) -> TensorSpec:
        """The tensor of the decision: the advice, or without one the last feature.

        Raises:
            SpecError: there is neither.
        """
        if self.advice is not None:
            return self.advice
        if not self.features:
            raise SpecError("header: without an advice the last feature is the action, and there are no features")
        return self.features[-1]

    @property
    def observation_bytes(self) -> int:
        """Bytes of all feature tensors of one observation; they follow each other without padding."""
        return sum(spec.byte_size for spec in self.features)

    @classmethod
    @functools.lru_cache(maxsize=4)
    def parse(cls, line: bytes) -> Header:
        """The header that one line of JSON describes, with or without its newline.

        The last ones are remembered: the compiles of a corpus all write the same, 70 specs long.

        Raises:
            SpecError: the line is no JSON object with a list of `features`, or one of its specs is refused.
        """
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise SpecError(f"a header is one line of JSON, found {shown(line)}") from error
        if not isinstance(value, dict) or not isinstance(value.get("features"), list):
            raise SpecError(f"a header is a JSON object with a list of 'features', found {shown(line)}")
        score, advice = (TensorSpec.from_dict(value[key]) if key in value else None for key in ("score", "advice"))
        return cls(
            features=tuple(TensorSpec.from_dict(each) for each in value["features"]),
            score=score,
            advice=advice,
            extra={key: each for key, each in value.items() if key not in _OWN_KEYS},
        )

    def to_line(self) -> bytes:
        """The line as LLVM prints it, with its newline: compact, `features`, `score`, `advice`, then what is extra.

        Raises:
            SpecError: an extra value is not JSON, or a text not Unicode.
        """
        members: dict[str, object] = {"features": [spec.to_dict() for spec in self.features]}
        members |= {"score": self.score.to_dict()} if self.score else {}
        members |= {"advice": self.advice.to_dict()} if self.advice else {}
        try:
            text = json.dumps(members | dict(self.extra), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            return text.encode() + b"\n"
        except (TypeError, ValueError) as error:
            raise SpecError(f"header: an extra value cannot be written as JSON: {error}") from error


def valid_name(name: str) -> str:
    """`name` with each piece that is not Unicode replaced by U+FFFD, as LLVM's JSON printer does."""
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def shown(data: bytes) -> str:
    """The start of `data` for a message of one line."""
    start = data.rstrip(b"\n")[:60] or data[:60]
    return repr(start + b"..." if len(data) > len(start) + 1 else start).removeprefix("b")
