"""The reader finds the same messages however the bytes are cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymlgo.channel.reader import LONGEST_LINE_BYTES, ObservationReader
from pymlgo.errors import ChannelError
from pymlgo.testing.strategies import headers, log_parts, names
from pymlgo.training_log.header import Header
from pymlgo.training_log.lines import context_line


class Bytes:
    """Hands out bytes as a pipe would: as many as wanted, cut where `cuts` says; 0 at the end."""

    def __init__(self, data: bytes, cuts: Sequence[int]) -> None:
        self.left = memoryview(data)
        self.cuts = list(cuts) or [1 << 20]
        self.calls = 0

    def receive(self, buffers: Sequence[bytearray | memoryview]) -> int:
        received = 0
        at_most = self.cuts[self.calls % len(self.cuts)]
        self.calls += 1
        for buffer in buffers:
            size = min(len(buffer), len(self.left), at_most - received)
            buffer[:size] = self.left[:size]
            self.left = self.left[size:]
            received += size
        return received


def reader_of(source: Bytes, found: list[object]) -> ObservationReader:
    return ObservationReader(
        source.receive,
        gone=lambda: None,
        correct=None,
        on_header=lambda observation: found.append(observation.header),
        on_context=found.append,
    )


def heard(data: bytes, cuts: Sequence[int] = ()) -> list[object]:
    """Everything that a reader makes of `data`."""
    found: list[object] = []
    source = Bytes(data, cuts)
    for observation in reader_of(source, found).observations():
        found.append((observation.context, observation.number, bytes(observation.raw)))
    return found


@st.composite
def conversations(draw: st.DrawFn) -> tuple[bytes, list[object]]:
    """The bytes of one or two compilers, and what they say."""
    data, said = b"", []
    for header in draw(st.lists(headers(advice=True), min_size=1, max_size=2)):
        data += header.to_line()
        said.append(header)
        counts: dict[str, int] = {}
        for name in draw(st.lists(st.sampled_from(["", "f", draw(names())]), max_size=3)):
            data += context_line(name)
            said.append(name)
            for tensors in draw(log_parts(header, name)).observations:
                raw = b"".join(tensors[spec.name].tobytes() for spec in header.features)
                number = counts.get(name, 0)
                counts[name] = number + 1
                data += b'{"observation":%d}\n%b\n' % (number, raw)
                said.append((name, number, raw))
    return data, said


@settings(max_examples=50, deadline=None)
@given(conversations(), st.lists(st.integers(1, 40), max_size=5))
def test_messages_do_not_depend_on_how_bytes_are_cut(conversation: tuple[bytes, list[object]], cuts: list[int]) -> None:
    data, said = conversation
    assert heard(data, cuts) == said
    assert heard(data) == said


@settings(max_examples=50, deadline=None)
@given(conversations(), st.data())
def test_bytes_that_end_within_a_message_are_an_error(
    conversation: tuple[bytes, list[object]], data: st.DataObject
) -> None:
    whole, said = conversation
    cut = data.draw(st.integers(0, len(whole)))
    try:
        found = heard(whole[:cut])
    except ChannelError as error:
        assert "went away in the middle" in str(error)  # noqa: PT017
    else:
        assert found == said[: len(found)]


@given(st.binary(max_size=200))
def test_any_bytes_give_an_error_or_an_end(data: bytes) -> None:
    try:
        heard(data)
    except ChannelError as error:
        assert "\n" not in str(error)  # noqa: PT017


@settings(max_examples=50, deadline=None)
@given(conversations(), st.data())
def test_one_wrong_byte_never_gives_a_traceback(conversation: tuple[bytes, list[object]], data: st.DataObject) -> None:
    whole = bytearray(conversation[0])
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        heard(bytes(whole))
    except ChannelError as error:
        assert "\n" not in str(error)  # noqa: PT017


def test_a_usual_decision_is_one_read() -> None:
    header = Header.parse(
        b'{"features":[{"name":"x","type":"int64_t","port":0,"shape":[1]}],'
        b'"advice":{"name":"y","type":"float","port":0,"shape":[1]}}'
    )
    messages = [header.to_line(), context_line("")]
    messages += [b'{"observation":%d}\n%b\n' % (number, bytes(8)) for number in range(100)]
    source = Bytes(b"".join(messages), [len(each) for each in messages])
    assert len(list(reader_of(source, []).observations())) == 100
    assert source.calls == len(messages) + 1  # the last one finds the end


def test_a_line_has_a_limit() -> None:
    with pytest.raises(ChannelError, match="a line of more than"):
        heard(b"x" * (LONGEST_LINE_BYTES + (1 << 20)))
