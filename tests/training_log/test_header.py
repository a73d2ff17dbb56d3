"""`Header`: LLVM's first line both ways."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from log_strategies import headers

from pymlgo.errors import SpecError
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log import Header

COST = TensorSpec("cost", "int64_t", (1,))
DECISION = TensorSpec("decision", "int64_t", (1,))
SIZE = TensorSpec("delta_size", "float", (1,))


@given(headers)
def test_a_header_survives_its_line(header: Header) -> None:
    assert Header.parse(header.to_line()) == header


@pytest.mark.spec("training-log.header")
def test_the_line_has_llvms_order_and_no_spaces() -> None:
    header = Header(features=(COST,), score=SIZE, advice=DECISION, extra={"made_by": "us"})
    spec = '{"name":"%s","type":"%s","port":0,"shape":[1]}'
    assert header.to_line().decode() == (
        '{"features":[' + spec % ("cost", "int64_t") + '],"score":' + spec % ("delta_size", "float")
        + ',"advice":' + spec % ("decision", "int64_t") + ',"made_by":"us"}\n'
    )  # fmt: skip


@pytest.mark.spec("training-log.header")
def test_keys_that_are_not_known_are_kept() -> None:
    line = b'{"features":[],"version":3,"tool":{"name":["x",null]}}\n'
    header = Header.parse(line)
    assert header.extra == {"version": 3, "tool": {"name": ["x", None]}}
    assert header.to_line() == line


@pytest.mark.spec("training-log.action")
def test_the_action_is_the_advice_or_else_the_last_feature() -> None:
    assert Header(features=(COST, SIZE), advice=DECISION).action == DECISION
    assert Header(features=(COST, DECISION), score=SIZE).action == DECISION
    with pytest.raises(SpecError, match="no features"):
        _ = Header(features=()).action


def test_one_observation_has_the_bytes_of_all_features() -> None:
    assert Header(features=(COST, TensorSpec("m", "int16_t", (3, 5)))).observation_bytes == 8 + 30


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "one line of JSON"),
        (b"\xff\xfe{}", "one line of JSON"),
        (b"[" * 100_000, "one line of JSON"),
        (b"[]", "list of 'features'"),
        (b'{"features":{}}', "list of 'features'"),
        (b'{"score":null}', "list of 'features'"),
        (b'{"features":[1]}', "a tensor spec is a JSON object"),
        (b'{"features":[],"score":null}', "a tensor spec is a JSON object"),
        (b'{"features":[],"advice":{"name":"x"}}', "lacks 'type'"),
    ],
)
def test_a_line_that_is_no_header_is_refused_in_one_line(line: bytes, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        Header.parse(line)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_two_features_of_one_name_are_refused() -> None:
    with pytest.raises(SpecError, match="'cost' stands there twice"):
        Header(features=(COST, DECISION, COST))


def test_extra_keys_are_json_and_no_key_of_the_format() -> None:
    with pytest.raises(SpecError, match="'score' is no extra key"):
        Header(features=(COST,), extra={"score": 1})
    with pytest.raises(SpecError, match="cannot be written"):
        Header(features=(COST,), extra={"x": object()}).to_line()


@pytest.mark.llvm
@pytest.mark.spec("training-log.header")
def test_the_line_of_a_real_clang_is_spelled_as_ours(clang, tmp_path) -> None:
    """The whole header that clang prints today comes out byte for byte."""
    from pymlgo.toolchain.flags import inliner_channel_flags
    from pymlgo.toolchain.llvm import find_llvm
    from pymlgo.toolchain.process import run

    tmp_path.joinpath("channel.in").symlink_to("/dev/zero")
    tmp_path.joinpath("x.c").write_text("static int f(int x) { return x; }\nint g(int x) { return f(x) + f(1); }\n")
    flags = inliner_channel_flags(find_llvm(clang=clang), tmp_path / "channel", include_default=False)
    done = run([clang, "-Oz", "-c", tmp_path / "x.c", "-o", tmp_path / "x.o", *flags], limit_s=60)
    assert done.returncode == 0, done.stderr
    line = tmp_path.joinpath("channel.out").read_bytes().partition(b"\n")[0] + b"\n"
    header = Header.parse(line)
    assert header.to_line() == line
    assert len(header.features) == 38
    assert header.advice == TensorSpec("inlining_decision", "int64_t", (1,))
    assert [json.loads(spec.to_json()) for spec in header.features] == json.loads(line)["features"]
