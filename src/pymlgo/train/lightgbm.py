"""Gradient-boosted trees through LightGBM (the extra `trees`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymlgo.arrays import Float64Array
from pymlgo.optional import need
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import InliningRule, inlining_policy
from pymlgo.policy.trees import Trees
from pymlgo.tensor_spec import TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LightGBMLearner:
    """Fits strongly regularised trees, in several bags that are averaged.

    Attributes:
        bags: ensembles of different seeds.
        trees: in one bag.
        leaves: of one tree.
        rate: how much of its residual a tree takes away.
        leaf_share: rows that a leaf needs at least, as a share of all.
        l2: LightGBM's `lambda_l2`.
    """

    name: str = "lightgbm"
    bags: int = 2
    trees: int = 150
    leaves: int = 31
    rate: float = 0.05
    leaf_share: float = 0.003
    l2: float = 30.0

    @property
    def for_selection(self) -> LightGBMLearner:
        """One bag."""
        return dataclasses.replace(self, bags=1)

    def fit(self, features: Float64Array, target: Float64Array, generator: np.random.Generator) -> LightGBMModel:
        """A model of features f64[n, f] → target f64[n]."""
        lightgbm = need("lightgbm", extra="trees", purpose="fit decision trees")
        options = {
            "objective": "regression",
            "num_leaves": self.leaves,
            "learning_rate": self.rate,
            "min_data_in_leaf": max(20, min(300, int(self.leaf_share * len(target)))),
            "lambda_l2": self.l2,
            "feature_fraction": 0.6,
            "bagging_fraction": 0.7,
            "bagging_freq": 1,
            "max_bin": 127,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,  # the sum of histograms depends on the number of threads
            "verbose": -1,
        }
        boosters = []
        for _ in range(self.bags):
            seeded = options | {"seed": int(generator.integers(1 << 30))}
            boosters.append(lightgbm.train(seeded, lightgbm.Dataset(features, target), self.trees))
        return LightGBMModel(boosters=tuple(boosters))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LightGBMModel:
    """LightGBM boosters, averaged."""

    boosters: tuple[Any, ...]

    def scores(self, features: Float64Array) -> Float64Array:
        """Bytes that inlining saves, f64[n] for features f64[n, f]."""
        return np.asarray(np.mean([booster.predict(features) for booster in self.boosters], axis=0), np.float64)

    def policy(self, features: Sequence[TensorSpec], rule: InliningRule, provenance: Mapping[str, object]) -> Policy:
        """The same trees as a graph (leaves and their sum in float32)."""
        structures = [tree["tree_structure"] for booster in self.boosters for tree in booster.dump_model()["tree_info"]]
        trees = Trees.from_nested(structures, scale=1.0 / len(self.boosters))
        return inlining_policy(features, trees, rule=rule, provenance=provenance)
