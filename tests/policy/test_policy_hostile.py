"""Damaged and hostile files end in a `PolicyError`: no crash, no hang, no large allocation."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import resource
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from policy_samples import sample_policies
from pymlgo.errors import PolicyError
from pymlgo.policy.builder import GraphBuilder
from pymlgo.policy.directory import load_policy, save_policy
from pymlgo.policy.graph import Graph, Output
from pymlgo.policy.stored import from_stored, from_text, to_stored
from pymlgo.policy.tflite import development_mode
from pymlgo.policy.tflite.reader import read_model
from pymlgo.tensor_spec import TensorSpec

GOLDEN = Path(__file__).with_name("golden")
VALID = (GOLDEN / "eviction" / "model.tflite").read_bytes()
SPECS = development_mode.read_output_specs(GOLDEN / "eviction" / "output_spec.json")


def read(data: bytes) -> None:
    model = read_model(data)
    names = {index: f"x{number}" for number, index in enumerate(model.inputs)}
    model.graph(names, {"y": model.outputs[0]} if model.outputs else {})


def survives(data: bytes) -> bool:
    """Whether the file is read; anything but a PolicyError comes out."""
    start = time.process_time()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        read(data)
        return True
    except PolicyError:
        return False
    finally:
        assert time.process_time() - start < 2
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def test_the_valid_file_is_read() -> None:
    assert survives(VALID)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 20, *range(100, len(VALID) - 1, 397)])
def test_truncated_anywhere(length: int) -> None:
    assert not survives(VALID[:length])


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(VALID) - 4),
            st.one_of(
                st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1, len(VALID), len(VALID) - 4, 0x80808080]),
                st.integers(0, 2**32 - 1),
            ),
        ),
        min_size=1,
        max_size=6,
    )
)
@example([(0, 2**32 - 1)])
@example([(0, 4)])
def test_words_overwritten(edits: list[tuple[int, int]]) -> None:
    data = bytearray(VALID)
    for at, word in edits:
        data[at : at + 4] = struct.pack("<I", word)
    survives(bytes(data))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(VALID) - 1), st.integers(0, 255))
def test_a_byte_overwritten(at: int, byte: int) -> None:
    data = bytearray(VALID)
    data[at] = byte
    survives(bytes(data))


@pytest.mark.parametrize("step", [36, pytest.param(4, marks=pytest.mark.full)])
def test_words_overwritten_with_their_worst(step: int) -> None:
    for at in range(0, len(VALID) - 4, step):
        for word in (2**32 - 1, 2**31 - 1):
            data = bytearray(VALID)
            data[at : at + 4] = struct.pack("<I", word)
            survives(bytes(data))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_noise_behind_the_identifier(noise: bytes) -> None:
    survives(struct.pack("<I", 8) + b"TFL3" + noise)


# --- single faults, by name ---------------------------------------------------------------------------------


def patched(old: bytes, new: bytes, occurrence: int = 0) -> bytes:
    data = bytearray(VALID)
    at = -1
    for _ in range(occurrence + 1):
        at = data.index(old, at + 1)
    data[at : at + len(old)] = new
    return bytes(data)


def shape(*dimensions: int) -> bytes:
    return struct.pack(f"<{len(dimensions) + 1}i", len(dimensions), *dimensions)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a flatbuffer with identifier TFL3"),
        (VALID[:4] + b"TFL2" + VALID[8:], "found b'TFL2'"),
        (b"\xff\xff\xff\x7f" + VALID[4:], "an offset leads to byte"),
        (patched(shape(1, 33), shape(1, -33)), "has a dimension below 1"),
        (patched(shape(1, 33), shape(1, 2**31 - 1)), "more than 4194304 elements"),
        (patched(shape(1, 33), shape(2**16, 2**15)), "more than 4194304 elements"),
        (patched(shape(1, 33), shape(1, 34)), "34"),
    ],
)
def test_named_faults(data: bytes, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        read(data)


def operator_vector(inputs: tuple[int, ...]) -> bytes:
    return struct.pack(f"<{len(inputs) + 1}i", len(inputs), *inputs)


def test_operators_that_read_each_other() -> None:
    model = read_model(VALID)
    inputs, outputs = ([getattr(each, field) for each in model.operators] for field in ("inputs", "outputs"))
    victim = next(number for number, each in enumerate(inputs) if len(each) == 1 and number > 0)
    last = outputs[-1]
    data = bytearray(VALID)
    at = data.index(operator_vector(inputs[victim]))
    data[at : at + 8] = operator_vector(last)
    with pytest.raises(PolicyError, match=rf"reads tensor {last[0]}, which is not made before \(a cycle\?\)"):
        read(bytes(data))


def test_one_large_constant_read_by_many_operators() -> None:
    """A few megabytes that would take minutes to check, operator by operator."""
    make = GraphBuilder()
    x = make.input(TensorSpec("x", "float", (1,)))
    boundaries = np.arange(1 << 20, dtype=np.float32)
    make.output("y", x.bucketize(boundaries))
    node = make.build().nodes[0]
    nodes = tuple(dataclasses.replace(node, output=f"b{index}") for index in range(5000))
    start = time.process_time()
    with pytest.raises(PolicyError, match="elements of constants"):
        Graph(
            inputs=(TensorSpec("x", "float", (1,)),),
            nodes=nodes,
            outputs=(Output(name="y", value="b0"),),
            constants={node.inputs[1]: boundaries},
        )
    with pytest.raises(PolicyError, match="the constants have more than"):
        make.concatenate([x.bucketize(boundaries) for _ in range(5000)], axis=0)
    assert time.process_time() - start < 3


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    for name in ("model.tflite", "output_spec.json"):
        (tmp_path / name).write_bytes((GOLDEN / "inliner" / name).read_bytes())
    with (tmp_path / "model.tflite").open("r+b") as stream:
        stream.truncate(1 << 40)  # sparse
    with pytest.raises(PolicyError, match="more than a policy may have"):
        load_policy(tmp_path)


# --- policy.json --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored_policy(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], bytes]:
    folder = tmp_path_factory.mktemp("policy")
    save_policy(sample_policies()["trees"], folder)
    members = json.loads((folder / "policy.json").read_text())
    return members, (folder / members["weights"]["file"]).read_bytes()


def places(value: object, path: tuple[object, ...] = ()):
    yield path
    if isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from places(each, (*path, index))


def replaced(value: object, path: tuple[object, ...], new: object) -> object:
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = replaced(copied[path[0]], path[1:], new)
    return copied


JSON_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [0, 1, -1, 2**31, 2**63, 2**100, 1e308, "", "x", "inlining_decision", [], {}, [1], [2**40], {"a": 1}]
    ),
    st.integers(-4, 50),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_members_replaced(stored_policy, data: st.DataObject) -> None:
    members, weights = stored_policy
    path = data.draw(st.sampled_from(list(places(members))))
    new = data.draw(JSON_VALUES)
    text = json.dumps(replaced(members, path, new)).encode()
    with contextlib.suppress(PolicyError):
        from_stored(from_text(text, "policy.json"), weights, "policy.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"schema": "pymlgo/policy-2"}', "schema is 'pymlgo/policy-2', expected 'pymlgo/policy-1'"),
        (b'{"schema": 1, "schema": 2}', "'schema' stands twice"),
        (b'{"schema": NaN}', "NaN is no JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
    ],
)
def test_texts_that_are_no_policy(text: bytes, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        from_text(text, "policy.json")


@pytest.mark.parametrize("name", ["../weights.bin", "/etc/passwd", "a/b", ".", "..", "", "a\\b"])
def test_weights_stay_in_the_directory(name: str, tmp_path: Path) -> None:
    save_policy(sample_policies()["linear"], tmp_path)
    file = tmp_path / "policy.json"
    members = json.loads(file.read_text())
    members["weights"]["file"] = name
    file.write_text(json.dumps(members))
    with pytest.raises(PolicyError, match="must be a plain file name"):
        load_policy(tmp_path)


def test_damaged_weights_are_noticed(tmp_path: Path) -> None:
    save_policy(sample_policies()["linear"], tmp_path)
    (weights,) = tmp_path.glob("weights-*.bin")
    data = bytearray(weights.read_bytes())
    data[3] ^= 1
    weights.write_bytes(data)
    with pytest.raises(PolicyError, match="the weights have sha256"):
        load_policy(tmp_path)


def test_weights_are_data_never_a_pickle(tmp_path: Path) -> None:
    save_policy(sample_policies()["mlp"], tmp_path)
    (weights,) = tmp_path.glob("weights-*.bin")
    sizes = [array.nbytes for array in sample_policies()["mlp"].graph.constants.values()]
    assert weights.stat().st_size < sum(sizes) + 64 * len(sizes)
    assert {path.suffix for path in tmp_path.iterdir()} <= {".json", ".bin", ".tflite"}


def test_constants_beyond_the_weights() -> None:
    policy = sample_policies()["linear"]
    members, weights = to_stored(policy)
    short = weights[:-1]
    members["weights"] = {"file": "w", "sha256": hashlib.sha256(short).hexdigest()}
    with pytest.raises(PolicyError, match="lie outside the weights"):
        from_stored(json.loads(json.dumps(members)), short, "policy.json")


def test_large_numbers_of_elements_are_refused_before_they_are_made() -> None:
    policy = sample_policies()["linear"]
    members, weights = to_stored(policy)
    members = json.loads(json.dumps(members))
    name = next(iter(members["graph"]["constants"]))
    members["graph"]["constants"][name]["shape"] = [2**20, 2**20]
    members["weights"] = {"file": "w", "sha256": hashlib.sha256(weights).hexdigest()}
    with pytest.raises(PolicyError, match="more than 4194304 elements"):
        from_stored(members, weights, "policy.json")
