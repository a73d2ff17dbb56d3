"""Hypothesis strategies for what LLVM and a model exchange; hypothesis comes with the extra `testing`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.optional import need
from pymlgo.tensor_spec import ELEMENT_TYPES, TensorSpec
from pymlgo.training_log.header import Header
from pymlgo.training_log.writer import LogWriter

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

LARGEST_DIMENSION = 4
MOST_OBSERVATIONS = 12
"""Small, but enough for the number of an observation to get a second digit, where its record gets longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """One context of a log: its observations, features by name, and a score for each where the header has one."""

    context: str
    observations: tuple[Mapping[str, AnyArray], ...]
    outcomes: tuple[AnyArray, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContents:
    """What a training log says."""

    header: Header
    parts: tuple[LogPart, ...]

    def write(self, stream: BinaryIO) -> None:
        """Write the log with `LogWriter`."""
        with LogWriter(stream, self.header) as writer:
            for part in self.parts:
                writer.context(part.context)
                for number, tensors in enumerate(part.observations):
                    writer.observation(tensors)
                    if part.outcomes is not None:
                        writer.outcome(part.outcomes[number])


def names() -> SearchStrategy[str]:
    """Names of tensors and contexts: any Unicode that JSON can carry, not empty."""
    st = _strategies()
    return cast("SearchStrategy[str]", st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12))


def specs() -> SearchStrategy[TensorSpec]:
    """Tensor specs of every element type, with up to two dimensions."""
    st = _strategies()
    shapes = st.lists(st.integers(1, LARGEST_DIMENSION), max_size=2).map(tuple)
    strategy = st.builds(
        TensorSpec, name=names(), type=st.sampled_from(sorted(ELEMENT_TYPES)), shape=shapes, port=st.integers(0, 3)
    )
    return cast("SearchStrategy[TensorSpec]", strategy)


def values(spec: TensorSpec) -> SearchStrategy[AnyArray]:
    """Tensors of a spec, every bit pattern of it among them: a float may be infinite or no number."""
    st = _strategies()
    size = spec.byte_size
    strategy = st.binary(min_size=size, max_size=size).map(lambda data: spec.view(bytearray(data)))
    return cast("SearchStrategy[AnyArray]", strategy)


def headers(*, advice: bool = False, score: bool | None = None) -> SearchStrategy[Header]:
    """Headers with one to six features.

    Args:
        advice: of an interactive channel, with an advice that is no feature; else of a training log.
        score: whether a training log has a score; either by default.
    """
    st = _strategies()

    def strategy(draw: Any) -> Header:
        found = draw(st.lists(specs(), min_size=2, max_size=7, unique_by=lambda spec: spec.name))
        scored = not advice and (draw(st.booleans()) if score is None else score)
        return Header(
            features=tuple(found[:-1]), advice=found[-1] if advice else None, score=draw(specs()) if scored else None
        )

    return cast("SearchStrategy[Header]", st.composite(strategy)())


def logs(*, score: bool | None = None) -> SearchStrategy[LogContents]:
    """Contents of training logs: contexts may be empty, and their names may come back."""
    st = _strategies()

    def strategy(draw: Any) -> LogContents:
        header = draw(headers(score=score))
        contexts = draw(st.lists(st.one_of(st.just(""), names()), max_size=4))
        return LogContents(header=header, parts=tuple(draw(log_parts(header, name)) for name in contexts))

    return cast("SearchStrategy[LogContents]", st.composite(strategy)())


def log_parts(header: Header, context: str) -> SearchStrategy[LogPart]:
    """One context of a log with this header."""
    st = _strategies()

    def strategy(draw: Any) -> LogPart:
        count = draw(st.integers(0, MOST_OBSERVATIONS))
        # Drawn one by one, the tensors of a few observations are more than hypothesis cares to generate.
        generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        observations = tuple({spec.name: _noise(spec, generator) for spec in header.features} for _ in range(count))
        score = header.score
        outcomes = tuple(_noise(score, generator) for _ in range(count)) if score is not None else None
        return LogPart(context=context, observations=observations, outcomes=outcomes)

    return cast("SearchStrategy[LogPart]", st.composite(strategy)())


def _noise(spec: TensorSpec, generator: np.random.Generator) -> AnyArray:
    return spec.view(bytearray(generator.bytes(spec.byte_size)))


def _strategies() -> Any:
    return need("hypothesis.strategies", extra="testing", purpose="generate test data")
