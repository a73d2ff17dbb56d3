"""The model shapes compute what their formulas say."""

from __future__ import annotations

import numpy as np
import pytest

from policy_samples import EVICTION, SCALARS, boundaries_for, observations, random_trees
from pymlgo.errors import PolicyError
from pymlgo.policy.interpreter import evaluate, evaluate_batch
from pymlgo.policy.shapes import (
    COST_ESTIMATE,
    INLINING_ADVICE,
    PRIORITY_ADVICE,
    InliningRule,
    Layer,
    Scaling,
    constant_policy,
    eviction_policy,
    inlining_policy,
    linear,
    priority_policy,
    random_layers,
    register_count,
    threshold_policy,
    upstream_eviction,
    upstream_inliner,
)
from pymlgo.policy.trees import Trees, rounded_down
from pymlgo.tensor_spec import TensorSpec

RNG = np.random.default_rng(8)
INLINER_38 = tuple(TensorSpec(f"feature_{index}", "int64_t", (1,)) for index in range(38))


def dense(x, layers):
    for layer in layers:
        x = x @ layer.weights.astype(np.float64) + layer.bias
        if layer.activation == "relu":
            x = np.maximum(x, 0)
        elif layer.activation == "tanh":
            x = np.tanh(x)
    return x


def test_upstream_inliner_has_upstream_s_sizes_and_values() -> None:
    boundaries = boundaries_for(INLINER_38, RNG)
    layers = random_layers([76, 40, 40, 20, 2], RNG)
    policy = upstream_inliner(INLINER_38, boundaries, layers)
    assert sum(layer.weights.size + layer.bias.size for layer in layers) == 5582
    batch = observations(policy, 50)
    columns = []
    for spec in INLINER_38:
        share = np.searchsorted(boundaries[spec.name], batch[spec.name].ravel(), side="right") / len(
            boundaries[spec.name]
        )
        columns += [share, share * share]
    found = evaluate_batch(policy.graph, batch)
    np.testing.assert_allclose(found["logits"][:, 0], dense(np.stack(columns, -1), layers), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found["inlining_decision"][:, 0], found["logits"][:, 0].argmax(-1))


@pytest.mark.parametrize("registers", [33, 37])
def test_upstream_eviction_takes_the_number_of_registers_from_the_specs(registers: int) -> None:
    specs = tuple(
        TensorSpec(spec.name, spec.type, (1, registers)) if spec.element_count > 1 else spec for spec in EVICTION
    )
    floats = tuple(spec for spec in specs if spec.type == "float")
    policy = upstream_eviction(
        specs,
        boundaries_for(floats, RNG),
        {name: RNG.normal(size=(7, 4)) for name in ("max_stage", "min_stage")},
        random_layers([19, 80, 40, 1], RNG),
    )
    assert register_count(specs) == registers
    found = evaluate_batch(policy.graph, observations(policy, 30))
    assert found["scores"].shape == (30, registers)
    assert set(found) == {"index_to_evict", "scores"}
    assert "nr_urgent" not in {spec.name for spec in policy.graph.inputs}  # its column is zeros


def test_eviction_registers_must_agree() -> None:
    with pytest.raises(PolicyError, match=r"share one number of registers, found \[33, 34\]"):
        register_count([TensorSpec("mask", "int64_t", (1, 33)), TensorSpec("is_free", "int64_t", (1, 34))])
    with pytest.raises(PolicyError, match="eviction needs the feature 'mask'"):
        eviction_policy([TensorSpec("is_free", "int64_t", (1, 33))], linear(np.ones(1)))


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, np.float32(3e38)])
def test_eviction_never_picks_a_masked_register(odd: float) -> None:
    policy = eviction_policy(EVICTION, random_layers([8, 6, 1], RNG), scaling=Scaling(squash=False))
    batch = observations(policy, 50)
    for spec in policy.graph.inputs:
        if spec.type == "float":
            batch[spec.name][:, ..., ::2] = odd
    batch["mask"][:, 0, 32] = 1
    decided = evaluate_batch(policy.graph, batch)["index_to_evict"]
    assert (np.take_along_axis(batch["mask"][:, 0], decided, 1) == 1).all()


def test_scaling_is_squash_standardise_clip() -> None:
    scaling = Scaling(mean=np.full(4, 0.5), deviation=np.full(4, 0.1), clip=6.0)
    policy = inlining_policy(SCALARS, linear(np.float32([1, 10, 100, 1000])), scaling=scaling)
    batch = observations(policy, 100)
    x = np.concatenate([batch[spec.name] for spec in SCALARS], axis=1).astype(np.float64)
    squashed = np.sign(x) * np.log1p(np.abs(x)) / 4
    expected = np.clip((squashed - 0.5) / 0.1, -6, 6) @ [1, 10, 100, 1000]
    np.testing.assert_allclose(evaluate_batch(policy.graph, batch)["score"][:, 0], expected, rtol=1e-4)


@pytest.mark.parametrize("activation", ["relu", "tanh", "elu", "logistic"])
def test_activations(activation: str) -> None:
    layers = random_layers([4, 6, 1], RNG, activation=activation)
    policy = inlining_policy(SCALARS, layers, scaling=Scaling())
    assert evaluate_batch(policy.graph, observations(policy, 5))["score"].shape == (5, 1)


def test_two_outputs_are_logits() -> None:
    policy = inlining_policy(SCALARS, random_layers([4, 6, 2], RNG), scaling=Scaling())
    found = evaluate_batch(policy.graph, observations(policy, 20))
    np.testing.assert_array_equal(found["inlining_decision"][:, 0], found["logits"][:, 0].argmax(-1))


@pytest.mark.parametrize(("default", "sent"), [("cost_estimate", [1, 0, -1]), ("inlining_default", [0, 1, 1])])
def test_between_the_margins_the_default_decides(default, sent) -> None:
    specs = (TensorSpec("gain", "int64_t", (1,)),)
    policy = inlining_policy(specs, linear(np.ones(1)), rule=InliningRule(margin=2, default=default))
    for gain, expected in ((3, [1, 1, 1]), (2, None), (0, None), (-2, None), (-3, [0, 0, 0])):
        batch = {"gain": np.full((3, 1), gain)}
        batch[default] = np.asarray(sent).reshape(3, 1)
        usual = [0, 1, 1]
        found = evaluate_batch(policy.graph, batch)["inlining_decision"][:, 0]
        np.testing.assert_array_equal(found, usual if expected is None else expected)


def test_a_margin_is_not_negative() -> None:
    with pytest.raises(PolicyError, match="margin must be at least 0"):
        inlining_policy(SCALARS, linear(np.ones(4)), rule=InliningRule(margin=-1, default="cost_estimate"))


def test_threshold_and_constant() -> None:
    batch = {"cost_estimate": np.asarray([[14], [15], [16]])}
    assert evaluate_batch(threshold_policy(COST_ESTIMATE, 15).graph, batch)["inlining_decision"].ravel().tolist() == [
        1,
        1,
        0,
    ]
    assert constant_policy("inlining", INLINING_ADVICE, 1).bind([])({}).tolist() == [1]
    assert constant_policy("priority", PRIORITY_ADVICE, 2.5).bind([])({}).tolist() == [2.5]


def test_vector_features_are_several_columns() -> None:
    specs = (*SCALARS, TensorSpec("callee_embedding", "float", (75,)))
    policy = inlining_policy(specs, random_layers([79, 4, 1], RNG))
    assert evaluate_batch(policy.graph, observations(policy, 3))["score"].shape == (3, 1)


def test_priorities_are_what_llvm_can_take() -> None:
    specs = (TensorSpec("weight", "float", (1,)),)
    policy = priority_policy(specs, linear(np.ones(1)))
    batch = {"weight": np.float32([[-5], [7], [1e30], [np.nan]])}
    found = evaluate_batch(policy.graph, batch)["priority"].ravel()
    assert found.tolist() == [0, 7, 4294967040, 0]


def test_models_that_do_not_fit_are_refused() -> None:
    with pytest.raises(PolicyError, match="want 5 inputs a row"):
        inlining_policy(SCALARS, [Layer(weights=np.ones((5, 1)), bias=np.zeros(1))])
    with pytest.raises(PolicyError, match="no features"):
        inlining_policy([], linear(np.ones(1)))
    with pytest.raises(PolicyError, match="tests a feature outside"):
        inlining_policy(SCALARS, random_trees(RNG, features=9, trees=20))


# --- trees --------------------------------------------------------------------------------------------------


def walked(tree, x) -> float:
    while "leaf_value" not in tree:
        tree = tree["left_child"] if x[tree["split_feature"]] <= tree["threshold"] else tree["right_child"]
    return tree["leaf_value"]


def test_trees_add_their_leaves_in_order() -> None:
    from policy_samples import random_tree

    nested = [random_tree(RNG, 4, 5) for _ in range(25)]
    policy = inlining_policy(SCALARS, Trees.from_nested(nested, base=0.5, scale=1.0))
    batch = observations(policy, 100)
    found = evaluate_batch(policy.graph, batch)["score"]
    for index in range(100):
        x = [batch[spec.name][index, 0] for spec in SCALARS]
        total = np.float32(0.5)
        for tree in nested:
            total = np.float32(total + np.float32(walked(tree, x)))
        assert found[index] == total


def test_nan_goes_right() -> None:
    tree = {"split_feature": 0, "threshold": 0.0, "left_child": {"leaf_value": 1}, "right_child": {"leaf_value": 2}}
    policy = inlining_policy([TensorSpec("x", "float", (1,))], Trees.from_nested([tree]))
    found = evaluate_batch(policy.graph, {"x": np.float32([[np.nan], [0], [-0.0], [np.inf], [-np.inf]])})
    assert found["score"].ravel().tolist() == [2, 1, 1, 2, 1]


def test_thresholds_are_rounded_down_so_that_float32_features_keep_their_side() -> None:
    thresholds = np.asarray([0.1, 3.5, 2**24 + 0.5, -0.1, 1e-50, 16777217.0])
    rounded = rounded_down(thresholds)
    for threshold, small in zip(thresholds, rounded, strict=True):
        around = np.asarray([small, np.nextafter(small, np.float32(np.inf)), np.nextafter(small, np.float32(-np.inf))])
        np.testing.assert_array_equal(around.astype(np.float64) <= threshold, around <= small)


def test_deep_trees_need_no_recursion() -> None:
    tree: dict[str, object] = {"leaf_value": 0.0}
    for depth in range(5000):
        tree = {"split_feature": 0, "threshold": float(depth), "left_child": {"leaf_value": 1.0}, "right_child": tree}
    trees = Trees.from_nested([tree])
    assert trees.node_count == 5000


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({}, "neither 'leaf_value' nor 'split_feature'"),
        ({"split_feature": 0, "threshold": 1}, "'left_child'"),
        (
            {"split_feature": 0, "threshold": 1, "decision_type": "==", "left_child": {}, "right_child": {}},
            "splits by '=='",
        ),
    ],
)
def test_trees_that_are_none(tree, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        Trees.from_nested([tree])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left": [0, 0]}, "at or before its parent"),
        ({"left": [5, -1]}, "node or leaf that does not exist"),
        ({"right": [-9, -1]}, "node or leaf that does not exist"),
        ({"feature": [0, 4]}, "tests a feature outside 0…3"),
        ({"feature": [-1, 0]}, "tests a feature outside"),
        ({"threshold": [np.inf, 0]}, "not finite"),
        ({"leaf": [np.inf, 0, 0]}, "not finite"),
        ({"threshold": [0]}, "differ in length"),
        ({"roots": [7]}, "does not exist"),
    ],
)
def test_tables_that_do_not_fit(changes, message: str) -> None:
    tables = {
        "feature": [0, 1],
        "threshold": [0, 1],
        "left": [1, -1],
        "right": [-2, -3],
        "leaf": [1, 2, 3],
        "roots": [0],
    }
    kinds = {"threshold": np.float32, "leaf": np.float32}
    made = {name: np.asarray(each, kinds.get(name, np.int32)) for name, each in {**tables, **changes}.items()}
    with pytest.raises(PolicyError, match=message):
        inlining_policy(SCALARS, Trees(**made))


def test_lightgbm_s_trees_are_taken_as_they_are() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    x = RNG.integers(-100, 100, (2000, 4)).astype(np.float64)
    y = np.where(x[:, 0] > x[:, 1], x[:, 2], -x[:, 3]) / 50
    settings = {"objective": "regression", "num_leaves": 15, "verbosity": -1, "num_threads": 1, "seed": 1}
    booster = lightgbm.train(settings, lightgbm.Dataset(x, y), num_boost_round=30)
    nested = [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]
    policy = inlining_policy(SCALARS, Trees.from_nested(nested))
    batch = {spec.name: x[:, index : index + 1].astype(np.int64) for index, spec in enumerate(SCALARS)}
    found = evaluate_batch(policy.graph, batch)["score"][:, 0]
    np.testing.assert_allclose(found, booster.predict(x), rtol=1e-5, atol=1e-5)


def test_trees_without_a_split_are_a_constant() -> None:
    trees = Trees.from_nested([{"leaf_value": 2.0}, {"leaf_value": -0.5}], base=1.0)
    policy = inlining_policy(SCALARS, trees)
    one = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in SCALARS}
    assert evaluate(policy.graph, one)["score"].tolist() == [2.5]
    many = {name: np.zeros((3, *array.shape), array.dtype) for name, array in one.items()}
    assert evaluate_batch(policy.graph, many)["score"].tolist() == [[2.5]] * 3
