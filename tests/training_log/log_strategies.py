"""Logs for tests: written by `LogWriter` from plain Python values, kept beside the bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from pymlgo.errors import LogError
from pymlgo.tensor_spec import ELEMENT_TYPES, TensorSpec
from pymlgo.training_log import (
    ContextEvent,
    Header,
    LogEvent,
    LogWriter,
    ObservationEvent,
    OutcomeEvent,
    TrainingLog,
    stream_log,
)

Told = tuple[object, ...]
"""An event as plain values, equal where the events are."""

specs = st.builds(
    TensorSpec,
    name=st.text(min_size=1, max_size=8),
    type=st.sampled_from(sorted(ELEMENT_TYPES)),
    shape=st.lists(st.integers(1, 3), max_size=3).map(tuple),
    port=st.integers(0, 3),
)

headers = st.builds(
    Header,
    features=st.lists(specs, min_size=1, max_size=4, unique_by=lambda spec: spec.name).map(tuple),
    score=st.none() | specs,
    extra=st.dictionaries(st.sampled_from(["made_by", "seed"]), st.integers() | st.text(max_size=4), max_size=2),
)


@dataclass
class WrittenLog:
    """A log's bytes, and what they say."""

    header: Header
    data: bytes
    events: list[Told] = field(default_factory=list)


def write(header: Header, contexts: Sequence[tuple[str, int]], seed: int = 0) -> WrittenLog:
    """A log with the given contexts and numbers of observations, its values random bytes that may be any value."""
    rng = np.random.default_rng(seed)
    stream = io.BytesIO()
    writer = LogWriter(stream, header)
    written = WrittenLog(header, b"", [("header", header)])
    counts: dict[str, int] = {}
    for name, observations in contexts:
        writer.context(name)
        written.events.append(("context", name))
        for _ in range(observations):
            number = counts.get(name, 0)
            tensors = {spec.name: spec.view(rng.bytes(spec.byte_size)) for spec in header.features}
            writer.observation(tensors)
            written.events.append(("observation", name, number, *(each.tobytes() for each in tensors.values())))
            if header.score is not None:
                value = header.score.view(rng.bytes(header.score.byte_size))
                writer.outcome(value)
                written.events.append(("outcome", name, number, value.tobytes()))
            counts[name] = number + 1
    written.data = stream.getvalue()
    return written


written_logs = st.builds(
    write,
    headers,
    st.lists(st.tuples(st.sampled_from(["", "main", 'ü\n"x']), st.sampled_from([0, 1, 9, 10, 11, 120])), max_size=5),
    st.integers(0, 99),
)


def told(event: LogEvent) -> Told:
    match event:
        case Header():
            return ("header", event)
        case ContextEvent():
            return ("context", event.name)
        case ObservationEvent():
            return ("observation", event.context, event.number, *(each.tobytes() for each in event.features.values()))
        case OutcomeEvent():
            return ("outcome", event.context, event.number, event.value.tobytes())


def told_by(log: TrainingLog) -> list[Told]:
    """What a log that was read says, in the order of the file."""
    events: list[Told] = [("header", log.header)]
    for context in log.contexts:
        events.append(("context", context.name))
        columns = [context.features[spec.name] for spec in log.header.features]
        for row in range(len(context)):
            number = context.first_observation + row
            events.append(("observation", context.name, number, *(column[row].tobytes() for column in columns)))
            if context.outcomes is not None:
                events.append(("outcome", context.name, number, context.outcomes[row].tobytes()))
    return events


def until_error(stream: io.BytesIO) -> tuple[list[LogEvent], LogError]:
    """What a damaged log tells before the error that ends it."""
    events: list[LogEvent] = []
    try:
        events.extend(stream_log(stream))
    except LogError as error:
        return events, error
    raise AssertionError("the log is whole")
