"""`TensorSpec`: ten element types, LLVM's JSON both ways, views without a copy."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymlgo.errors import SpecError
from pymlgo.tensor_spec import ELEMENT_TYPES, TensorSpec

specs = st.builds(
    TensorSpec,
    name=st.text(min_size=1).filter(lambda name: name.isprintable()),
    type=st.sampled_from(sorted(ELEMENT_TYPES)),
    shape=st.lists(st.integers(1, 9), max_size=4).map(tuple),
    port=st.integers(0, 9),
)


@pytest.mark.spec("tensor-spec.json")
@given(specs)
def test_json_both_ways_gives_the_same_spec(spec: TensorSpec) -> None:
    assert TensorSpec.from_json(spec.to_json()) == spec


@pytest.mark.spec("tensor-spec.json")
def test_json_is_spelled_as_llvm_spells_it() -> None:
    spec = TensorSpec("is_hint", "int64_t", (1, 33), 0)
    assert spec.to_json() == '{"name":"is_hint","type":"int64_t","port":0,"shape":[1,33]}'


@pytest.mark.spec("tensor-spec.types")
@pytest.mark.parametrize(("name", "size"), list(zip(ELEMENT_TYPES, (4, 8, 1, 1, 2, 2, 4, 4, 8, 8), strict=True)))
def test_each_element_type_has_the_size_of_its_c_type(name: str, size: int) -> None:
    assert TensorSpec("x", name, (3, 4)).byte_size == 12 * size


@pytest.mark.spec("tensor-spec.types")
def test_a_view_shares_the_memory_of_its_buffer() -> None:
    buffer = bytearray(24)
    view = TensorSpec("x", "int32_t", (2, 2)).view(buffer, offset=8)
    view[1, 0] = 7
    assert np.frombuffer(buffer, np.int32).tolist() == [0, 0, 0, 0, 7, 0]


def test_a_view_beyond_the_buffer_is_refused() -> None:
    with pytest.raises(SpecError, match=r"needs 16 bytes at offset 12, 12 are left"):
        TensorSpec("x", "int32_t", (4,)).view(bytes(24), offset=12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be JSON"),
        ("[]", "JSON object"),
        ("[" * 100_000, "must be JSON"),
        ('{"name":"x","type":"int64_t","port":0}', "lacks 'shape'"),
        ('{"name":1,"type":"int64_t","port":0,"shape":[1]}', "'name' must be a string"),
        ('{"name":"","type":"int64_t","port":0,"shape":[1]}', "needs a name"),
        ('{"name":"x","type":"int65_t","port":0,"shape":[1]}', "unknown element type 'int65_t'"),
        ('{"name":"x","type":"int64_t","port":"0","shape":[1]}', "'port' must be an integer"),
        ('{"name":"x","type":"int64_t","port":0,"shape":1}', "'shape' must be a list"),
        ('{"name":"x","type":"int64_t","port":0,"shape":[true]}', "'shape' must be a list of integers"),
        ('{"name":"x","type":"int64_t","port":0,"shape":[-1]}', "dimension below 1"),
        ('{"name":"x","type":"int64_t","port":0,"shape":[2147483648, 2]}', "would take"),
    ],
)
def test_malformed_specs_are_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        TensorSpec.from_json(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_unknown_keys_are_ignored_as_llvm_ignores_them() -> None:
    described = {"name": "x", "type": "float", "port": 0, "shape": [2], "comment": "new"}
    assert TensorSpec.from_json(json.dumps(described)) == TensorSpec("x", "float", (2,))


@pytest.mark.parametrize("value", [2**40, -1, 1.5, [1, 2], "one", float("nan")])
def test_a_value_that_does_not_fit_is_refused(value: object) -> None:
    with pytest.raises(SpecError):
        TensorSpec("x", "uint32_t", (1,)).array(value)


def test_a_scalar_fills_a_tensor_of_one_element() -> None:
    assert TensorSpec("x", "int64_t", (1, 1)).array(3).tolist() == [[3]]
