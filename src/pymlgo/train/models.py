"""What a regression learner is to the trainer: it fits, scores, and becomes a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from pymlgo.arrays import Float64Array
from pymlgo.errors import ConfigError
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import INLINING_DEFAULT, InliningRule
from pymlgo.tensor_spec import TensorSpec


class Model(Protocol):
    """A fitted regression from a decision's features to the bytes that inlining saves."""

    def scores(self, features: Float64Array) -> Float64Array:
        """f64[n] for features f64[n, f]."""

    def policy(self, features: Sequence[TensorSpec], rule: InliningRule, provenance: Mapping[str, object]) -> Policy:
        """The policy that decides by these scores; `features` are the columns' specs, in order."""


def learnable(specs: Sequence[TensorSpec], without: Sequence[str] = ()) -> tuple[TensorSpec, ...]:
    """The features that a learner is shown: one number each, LLVM's own decision and those in `without` left out."""
    excluded = {INLINING_DEFAULT.name, *without}
    return tuple(spec for spec in specs if spec.element_count == 1 and spec.name not in excluded)


class Learner(Protocol):
    """Fits models of one class."""

    @property
    def name(self) -> str:
        """What the command line calls it."""

    @property
    def for_selection(self) -> Learner:
        """A cheaper learner of the same kind, for the many fits that compare features and margins."""

    def fit(self, features: Float64Array, target: Float64Array, generator: np.random.Generator) -> Model:
        """A model of f64[n, f] → f64[n]; the same for equal arguments."""


def learner_named(name: str) -> Learner:
    """The learner of this name.

    Raises:
        ConfigError: there is none.
    """
    from pymlgo.train.lightgbm import LightGBMLearner
    from pymlgo.train.mlp import MLPLearner
    from pymlgo.train.trees import TreeLearner

    learners: dict[str, Learner] = {each.name: each for each in (TreeLearner(), MLPLearner(), LightGBMLearner())}
    if name not in learners:
        raise ConfigError(f"unknown learner {name!r}", hint=f"known are {', '.join(learners)}")
    return learners[name]
