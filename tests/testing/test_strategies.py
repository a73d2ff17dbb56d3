"""The strategies give what they promise."""

from __future__ import annotations

import io

import pytest
from hypothesis import Phase, given, settings

from pymlgo.errors import MissingDependency
from pymlgo.tensor_spec import TensorSpec
from pymlgo.testing import strategies
from pymlgo.testing.strategies import LogContents, headers, logs, specs
from pymlgo.training_log.header import Header
from pymlgo.training_log.stream import stream_log


@given(specs())
def test_specs_survive_json(spec: TensorSpec) -> None:
    assert TensorSpec.from_json(spec.to_json()) == spec


@given(headers(advice=True))
def test_a_channels_header_has_an_advice_that_is_no_feature(header: Header) -> None:
    assert header.advice is not None
    assert header.advice.name not in {spec.name for spec in header.features}
    assert header.score is None


@settings(max_examples=50, deadline=None)
@given(logs())
def test_logs_can_be_written_and_read(contents: LogContents) -> None:
    stream = io.BytesIO()
    contents.write(stream)
    events = list(stream_log(io.BytesIO(stream.getvalue()), check_byte_order=False))
    assert events[0] == contents.header
    expected = sum(1 + len(part.observations) * (1 + (part.outcomes is not None)) for part in contents.parts)
    assert len(events) == 1 + expected


def test_interesting_logs_are_among_them() -> None:
    seen: set[str] = set()

    @settings(max_examples=100, phases=[Phase.generate], deadline=None, derandomize=True, database=None)
    @given(logs())
    def look(log: LogContents) -> None:
        names = [part.context for part in log.parts]
        seen.update(name for name, holds in {
            "a number of two digits": any(len(part.observations) > 10 for part in log.parts),
            "an empty context": any(not part.observations for part in log.parts),
            "a name that comes back": len(names) > len(set(names)),
            "a score": log.header.score is not None,
            "no score": log.header.score is None,
        }.items() if holds)  # fmt: skip

    look()
    assert len(seen) == 5, seen


def test_without_hypothesis_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "hypothesis.strategies", None)
    with pytest.raises(MissingDependency) as caught:
        strategies.specs()
    assert caught.value.hint == "pip install 'pymlgo[testing]'"
