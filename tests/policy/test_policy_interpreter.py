"""The interpreter does what `ops` says, in the orders it says, alone and in a batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from policy_samples import observations, row, sample_policies
from pymlgo.errors import PolicyError
from pymlgo.policy.builder import GraphBuilder, Value
from pymlgo.policy.interpreter import Interpreter, evaluate, evaluate_batch
from pymlgo.tensor_spec import TensorSpec

INF, NAN = np.float32(np.inf), np.float32(np.nan)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-1e6, max_value=1e6)


def computed(function, *arrays, types=None):
    """`function` of values, evaluated on arrays."""
    make = GraphBuilder()
    operands = []
    given_inputs = {}
    for index, array in enumerate(arrays):
        kind = {np.dtype(np.float32): "float", np.dtype(np.int64): "int64_t", np.dtype(np.int32): "int32_t"}[
            array.dtype
        ]
        operands.append(make.input(TensorSpec(f"x{index}", kind, array.shape)))
        given_inputs[f"x{index}"] = array
    make.output("y", function(make, *operands))
    return evaluate(make.build(), given_inputs)["y"]


def test_one_decision_is_a_batch_of_one() -> None:
    for policy in sample_policies().values():
        batch = observations(policy, 20)
        interpreter = Interpreter(policy.graph)
        together = interpreter.batch(batch)
        for index in range(20):
            alone = interpreter(row(batch, index))
            for name, value in alone.items():
                np.testing.assert_array_equal(value, together[name][index])


@given(st.integers(1, 9), st.integers(1, 20), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_dense_layers_add_bias_first_then_inputs_in_order(rows: int, inputs: int, outputs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(rows, inputs)) * 10 ** rng.uniform(-3, 3, (rows, inputs))).astype(np.float32)
    weights, bias = rng.normal(size=(inputs, outputs)).astype(np.float32), rng.normal(size=outputs).astype(np.float32)
    expected = np.empty((rows, outputs), np.float32)
    for r in range(rows):
        for o in range(outputs):
            total = bias[o]
            for i in range(inputs):
                total = np.float32(total + np.float32(x[r, i] * weights[i, o]))
            expected[r, o] = total
    np.testing.assert_array_equal(computed(lambda make, v: make.dense(v, weights, bias), x), expected)
    relu = computed(lambda make, v: make.dense(v, weights, bias, activation="relu"), x)
    np.testing.assert_array_equal(relu, np.maximum(expected, 0))


def test_a_large_batch_is_cut_without_a_trace() -> None:
    rng = np.random.default_rng(2)
    make = GraphBuilder()
    x = make.input(TensorSpec("x", "float", (33, 7)))
    make.output("y", make.dense(x, rng.normal(size=(7, 80)), rng.normal(size=80)))
    graph = make.build()
    batch = rng.normal(size=(50, 33, 7)).astype(np.float32)
    together = evaluate_batch(graph, {"x": batch})["y"]
    np.testing.assert_array_equal(together[49], evaluate(graph, {"x": batch[49]})["y"])


@pytest.mark.parametrize(
    ("value", "bucket"),
    [
        (np.float32(0.5), 1),
        (np.float32(-1), 0),
        (np.float32(1), 3),
        (NAN, 4),
        (INF, 4),
        (-INF, 0),
        (np.int64(2**24 + 1), 3),
        (np.int64(2**24 + 2), 4),
        (np.int64(-(2**40)), 0),
        (np.int64(2**53 + 1), 4),
    ],
)
def test_buckets_count_boundaries_at_or_below_in_float32(value, bucket: int) -> None:
    boundaries = np.float32([0, 1, 1, 2**24 + 2])
    assert computed(lambda make, x: x.bucketize(boundaries), np.asarray([value])) == [bucket]


def test_argmax_takes_the_first_of_equals_and_no_nan_but_at_the_start() -> None:
    x = np.float32([[1, 3, 3], [NAN, 5, 6], [1, NAN, 2], [-INF, -INF, -INF]])
    np.testing.assert_array_equal(computed(lambda make, v: v.arg_max(1), x), [1, 0, 2, 0])


def test_a_row_that_is_masked_whole_is_decided_as_0() -> None:
    policy = sample_policies()["upstream_eviction"]
    batch = observations(policy, 30)
    batch["mask"][:10] = 0
    decided = evaluate_batch(policy.graph, batch)["index_to_evict"][:, 0]
    assert (decided[:10] == 0).all()
    assert (np.take_along_axis(batch["mask"][10:, 0], decided[10:, np.newaxis], 1) == 1).all()


def test_maximum_and_relu_treat_nan_as_x86_does() -> None:
    nan, one = np.float32([NAN]), np.float32([1])
    assert computed(lambda make, a, b: a.maximum(b), nan, one) == [1]
    assert np.isnan(computed(lambda make, a, b: a.maximum(b), one, nan))
    assert computed(lambda make, a, b: a.minimum(b), nan, one) == [1]
    assert np.isnan(computed(lambda make, a: make.apply("RELU", a), nan))


def test_casts_truncate_and_saturate() -> None:
    x = np.float32([-1.9, 1.9, 3e9, -3e9, NAN, INF, -INF, 1e19, 255.5])
    np.testing.assert_array_equal(
        computed(lambda make, v: v.cast("int32_t"), x),
        [-1, 1, 2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31), 2**31 - 1, 255],
    )
    np.testing.assert_array_equal(
        computed(lambda make, v: v.cast("int64_t"), x),
        [-1, 1, 3 * 10**9, -3 * 10**9, 0, 2**63 - 1, -(2**63), 2**63 - 1, 255],
    )
    assert computed(lambda make, v: v.cast("uint8_t").cast("int32_t"), x).tolist() == [
        0,
        1,
        255,
        0,
        0,
        255,
        0,
        255,
        255,
    ]


def test_an_index_outside_a_table_is_clamped() -> None:
    def looked_up(make: GraphBuilder, index: Value) -> Value:
        return make.apply("GATHER", make.constant(np.float32([10, 20, 30])), index, axis=0)

    np.testing.assert_array_equal(computed(looked_up, np.asarray([-5, 0, 2, 99])), [10, 10, 30, 30])


def test_integers_wrap() -> None:
    largest = np.asarray([2**63 - 1])
    assert computed(lambda make, a: a + 1, largest) == [-(2**63)]


@given(hnp.arrays(np.float32, st.tuples(st.integers(1, 3), st.integers(1, 12)), elements=FLOATS))
def test_sums_go_in_order(x: np.ndarray) -> None:
    expected = []
    for values in x:
        total = np.float32(0)
        for value in values:
            total = np.float32(total + value)
        expected.append(total)
    np.testing.assert_array_equal(
        computed(lambda make, v: make.apply("SUM", v, axes=(1,), keep_dims=False), x), expected
    )


def test_reductions_over_several_axes_are_row_major() -> None:
    x = np.random.default_rng(4).normal(0, 1e3, (2, 3, 4)).astype(np.float32)
    expected = np.float32(0)
    for value in x.transpose(1, 0, 2)[1].ravel():
        expected = np.float32(expected + value)
    found = computed(lambda make, v: make.apply("SUM", v, axes=(0, 2), keep_dims=True), x)
    assert found.shape == (1, 3, 1)
    assert found[0, 1, 0] == expected


@given(hnp.arrays(np.float32, st.tuples(st.integers(1, 3), st.integers(1, 6)), elements=st.floats(-30, 30, width=32)))
def test_softmax_is_a_distribution_and_log_softmax_its_logarithm(x: np.ndarray) -> None:
    shares = computed(lambda make, v: make.apply("SOFTMAX", v), x)
    exact = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    np.testing.assert_allclose(shares, exact, rtol=1e-5, atol=1e-12)
    logs = computed(lambda make, v: make.apply("LOG_SOFTMAX", v), x)
    np.testing.assert_allclose(logs, np.log(exact), rtol=1e-4, atol=1e-5)


def test_moving_elements() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    same = {
        "TRANSPOSE": ({"permutation": (2, 0, 1)}, x.transpose(2, 0, 1)),
        "TILE": ({"multiples": (1, 2, 1)}, np.tile(x, (1, 2, 1))),
        "SLICE": ({"begin": (0, 1, 2), "size": (2, 2, 1)}, x[:, 1:3, 2:3]),
        "RESHAPE": ({"shape": (6, 4)}, x.reshape(6, 4)),
        "EXPAND_DIMS": ({"axis": 3}, x[..., np.newaxis]),
    }
    for op, (attributes, expected) in same.items():
        found = computed(lambda make, v, op=op, a=attributes: make.apply(op, v, **a), x)
        np.testing.assert_array_equal(found, expected)
    packed = computed(lambda make, a, b: make.apply("PACK", a, b, axis=1), x, x + 1)
    np.testing.assert_array_equal(packed, np.stack([x, x + 1], axis=1))
    joined = computed(lambda make, a, b: make.apply("CONCATENATION", a, b, axis=2), x, x + 1)
    np.testing.assert_array_equal(joined, np.concatenate([x, x + 1], axis=2))
    narrow = x[:, :1]
    squeezed = computed(lambda make, a: make.apply("SQUEEZE", a, axes=(1,)), narrow)
    np.testing.assert_array_equal(squeezed, narrow[:, 0])


def test_broadcasting_lines_up_ranks_behind_the_batch() -> None:
    make = GraphBuilder()
    m, v = make.input(TensorSpec("m", "float", (2, 3))), make.input(TensorSpec("v", "float", (3,)))
    make.output("y", m + v)
    batch = {"m": np.ones((5, 2, 3), np.float32), "v": np.arange(15, dtype=np.float32).reshape(5, 3)}
    np.testing.assert_array_equal(evaluate_batch(make.build(), batch)["y"], batch["m"] + batch["v"][:, np.newaxis])


def test_constants_alone_fill_a_batch() -> None:
    make = GraphBuilder()
    make.input(TensorSpec("x", "float", (1,)))
    make.output("y", make.constant(np.float32([3])))
    assert evaluate_batch(make.build(), {"x": np.zeros((4, 1), np.float32)})["y"].shape == (4, 1)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'callee_users' is missing"),
        ({"callee_users": np.zeros(2, np.int64)}, "has shape"),
        ({"callee_users": np.float32([0.5])}, "exactly"),
    ],
)
def test_wrong_inputs_are_named(inputs, message: str) -> None:
    graph = sample_policies()["upstream_inliner"].graph
    with pytest.raises(PolicyError, match=message):
        evaluate(graph, inputs)


def test_a_ragged_batch_is_refused() -> None:
    policy = sample_policies()["upstream_inliner"]
    batch = observations(policy, 3)
    batch["callee_users"] = batch["callee_users"][:2]
    with pytest.raises(PolicyError, match=r"differ in length: \[2, 3\]"):
        evaluate_batch(policy.graph, batch)
    with pytest.raises(PolicyError, match=r"expected int64_t \[n, 1\]"):
        evaluate_batch(policy.graph, {**batch, "callee_users": np.zeros((3, 2), np.int64)})
