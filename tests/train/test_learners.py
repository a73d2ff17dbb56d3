"""The regression learners: they find what is there, become policies that decide alike, and repeat themselves."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from pymlgo.errors import ConfigError
from pymlgo.policy.interpreter import evaluate_batch
from pymlgo.policy.shapes import InliningRule
from pymlgo.tensor_spec import TensorSpec
from pymlgo.train.mlp import MLPLearner
from pymlgo.train.models import Learner, learner_named
from pymlgo.train.trees import TreeLearner

SPECS = [TensorSpec(name, "int64_t", (1,)) for name in ("cost", "users", "noise")]
LEARNERS: list[Learner] = [TreeLearner(trees=30), MLPLearner(epochs=20, nets=2, hidden=(12, 6))]


def samples(count: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inlining saves where the cost is small or there is one user; the third feature says nothing."""
    generator = np.random.default_rng(seed)
    features = np.column_stack(
        [generator.integers(-50, 200, count), generator.integers(1, 6, count), generator.integers(0, 1000, count)]
    ).astype(np.float64)
    target = np.where(features[:, 1] == 1, 20.0, -0.3 * features[:, 0]) + generator.normal(0, 5, count)
    return features, np.clip(target, -60, 60)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: each.name)
def test_a_learner_finds_what_is_there(learner: Learner) -> None:
    features, target = samples()
    model = learner.fit(features, target, np.random.default_rng(1))
    unseen, wanted = samples(seed=1)
    error = np.mean((model.scores(unseen) - wanted) ** 2)
    assert error < 0.4 * np.var(wanted)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: each.name)
def test_equal_seeds_give_equal_models(learner: Learner) -> None:
    features, target = samples(600)
    first, second, other = (
        learner.fit(features, target, np.random.default_rng(seed)).scores(features) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: each.name)
def test_a_policy_decides_by_the_models_scores(learner: Learner) -> None:
    features, target = samples(800)
    model = learner.fit(features, target, np.random.default_rng(1))
    rule = InliningRule(margin=2.0, default="inlining_default")
    policy = model.policy(SPECS, rule, {"made_by": "a test"})
    given = {spec.name: features[:, place : place + 1].astype(np.int64) for place, spec in enumerate(SPECS)}
    default = np.random.default_rng(2).integers(0, 2, (800, 1))
    found = evaluate_batch(policy.graph, given | {"inlining_default": default})
    scores = model.scores(features)
    assert np.allclose(found["score"][:, 0], scores, atol=1e-3)
    clear = np.abs(np.abs(scores) - 2.0) > 1e-3
    wanted = np.where(scores > 2, 1, np.where(scores < -2, 0, default[:, 0]))
    assert np.array_equal(found["inlining_decision"][clear, 0], wanted[clear])
    assert policy.provenance == {"made_by": "a test"}


def test_features_that_do_not_vary_are_harmless() -> None:
    features, target = np.ones((200, 3)), np.linspace(-5, 5, 200)
    for learner in LEARNERS:
        scores = learner.fit(features, target, np.random.default_rng(0)).scores(features)
        assert np.isfinite(scores).all()


def test_few_rows_are_harmless() -> None:
    features, target = samples(3)
    for learner in LEARNERS:
        assert np.isfinite(learner.fit(features, target, np.random.default_rng(0)).scores(features)).all()


def test_leaves_are_as_large_as_asked() -> None:
    features, target = samples(1000)
    model = TreeLearner(trees=1, bags=1, leaf_share=0.2, row_share=1.0, feature_share=1.0).fit(
        features, target, np.random.default_rng(0)
    )
    _, counts = np.unique(model.scores(features), return_counts=True)
    assert counts.min() >= 200


def test_learners_have_names() -> None:
    assert learner_named("trees") == TreeLearner()
    with pytest.raises(ConfigError, match="oracle"):
        learner_named("oracle")


@pytest.mark.skipif(importlib.util.find_spec("lightgbm") is None, reason="the extra 'trees' is not installed")
def test_lightgbm_becomes_the_same_policy() -> None:
    learner = learner_named("lightgbm")
    test_a_learner_finds_what_is_there(learner)
    test_a_policy_decides_by_the_models_scores(learner)
