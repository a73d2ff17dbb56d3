"""A small network as a vector of numbers: what evolution perturbs and reinforcement learning differentiates.

It starts as LLVM's default, exactly: a linear score in which one column decides. At -Oz that column is the cost, for
there LLVM inlines where `cost_estimate <= 0`; elsewhere it is LLVM's own answer, `inlining_default`. Hidden units carry
that score through a pair of relus, and the others begin without a say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymlgo.arrays import Float32Array, Float64Array, Int64Array
from pymlgo.errors import CorpusError
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import INLINING_DEFAULT, Layer, Scaling, inlining_policy
from pymlgo.rollout import RolloutResult, Trajectory
from pymlgo.tensor_spec import TensorSpec
from pymlgo.train.mlp import CLIP, squashed
from pymlgo.train.models import learnable

COST = "cost_estimate"
IMITATED_SCORE = 0.25
"""How far an imitated start's scores are from the threshold: perturbations must be able to cross it."""

QUIET = 0.3
"""Size of the first weights of hidden units that do not carry the start."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standard:
    """Columns squashed, then with mean 0 and deviation 1 where they were recorded, then clipped: f32[columns] each."""

    mean: Float32Array
    deviation: Float32Array

    @classmethod
    def of(cls, raw: Float64Array) -> Standard:
        """For features f64[n, columns]."""
        columns = squashed(raw)
        return cls(mean=columns.mean(axis=0), deviation=columns.std(axis=0) + np.float32(1e-3))

    def apply(self, raw: Float64Array) -> Float32Array:
        """The columns f32[n, columns]."""
        return np.asarray(np.clip((squashed(raw) - self.mean) / self.deviation, -CLIP, CLIP), np.float32)

    @property
    def scaling(self) -> Scaling:
        """The same in a graph."""
        return Scaling(mean=self.mean, deviation=self.deviation, clip=CLIP)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """Layers over squashed, standardised, clipped features; a score above 0 inlines.

    Attributes:
        features: of each column.
        standard: makes the columns about equally large.
        layers: relu between them; the last has one output.
    """

    features: tuple[TensorSpec, ...]
    standard: Standard
    layers: tuple[Layer, ...]

    @property
    def parameters(self) -> Float64Array:
        """All weights and biases: f64[n]."""
        parts = [part.ravel() for layer in self.layers for part in (layer.weights, layer.bias)]
        return np.concatenate(parts).astype(np.float64)

    def with_parameters(self, parameters: Float64Array) -> Network:
        """The same network with other weights and biases."""
        layers, place = [], 0
        for layer in self.layers:
            bias_at = place + layer.weights.size
            end = bias_at + layer.bias.size
            weights = parameters[place:bias_at].reshape(layer.weights.shape).astype(np.float32)
            bias = parameters[bias_at:end].astype(np.float32)
            layers.append(dataclasses.replace(layer, weights=weights, bias=bias))
            place = end
        return dataclasses.replace(self, layers=tuple(layers))

    def columns(self, trajectory: Trajectory) -> Float32Array:
        """What the first layer sees of each decision: f32[n, columns]."""
        return self.standard.apply(trajectory.matrix([spec.name for spec in self.features]))

    def scores(self, columns: Float32Array) -> Float64Array:
        """f64[n] for `columns`."""
        rows = columns
        for layer in self.layers:
            rows = rows @ layer.weights + layer.bias
            rows = np.maximum(rows, 0) if layer.activation == "relu" else rows
        return rows[:, 0].astype(np.float64)

    def policy(self) -> Policy:
        """The network as a graph."""
        return inlining_policy(self.features, self.layers, scaling=self.standard.scaling)


def start_network(
    recorded: Sequence[RolloutResult],
    *,
    hidden: int,
    without: Sequence[str],
    of_default: bool,
    generator: np.random.Generator,
) -> tuple[Network, float]:
    """A network that decides as the recorded compiles did, and the share of their decisions in which it does.

    Args:
        recorded: compiles with trajectories; they also say how to standardise.
        hidden: units of the hidden layer; 0 for a linear score.
        without: features that must not be used.
        of_default: LLVM's default decided; then the share is 1. Any other policy is imitated by a linear score.
        generator: of the hidden units' first weights.
    """
    trajectories = [each.trajectory for each in recorded if each.trajectory is not None and len(each.trajectory)]
    if not trajectories:
        raise CorpusError("a network can only start from recorded decisions")
    advice = np.concatenate([each.advice for each in trajectories])
    features = list(learnable(trajectories[0].specs, without))
    cost_decides = COST in {spec.name for spec in features} and all(
        np.array_equal(each.features[COST].reshape(-1) <= 0, each.advice > 0) for each in trajectories
    )
    if of_default and not cost_decides:
        features.append(INLINING_DEFAULT)
    raw = np.concatenate([each.matrix([spec.name for spec in features]) for each in trajectories])
    standard = Standard.of(raw)
    columns = standard.apply(raw)
    names = [spec.name for spec in features]
    if not of_default:
        weights, bias = _imitated(columns, advice)
    elif cost_decides:
        weights, bias = _one_column(standard, names.index(COST), -1.0)
    else:
        weights, bias = _one_column(standard, names.index(INLINING_DEFAULT.name), 1.0)
    layers = _carried(weights, bias, hidden, generator) if hidden else _linear(weights, bias)
    network = Network(features=tuple(features), standard=standard, layers=layers)
    agreed = (network.scores(columns) > 0) == (advice > 0)
    return network, float(agreed.mean())


def _one_column(standard: Standard, column: int, sign: float) -> tuple[Float32Array, float]:
    """A score of `sign` times the column, 0 half-way between what 0 and 1 become in it."""
    weights = np.zeros(len(standard.mean), np.float32)
    weights[column] = sign
    half = (0.5 * squashed(np.ones(1))[0] - standard.mean[column]) / standard.deviation[column]
    return weights, float(-sign * half)


def _imitated(columns: Float32Array, advice: Int64Array) -> tuple[Float32Array, float]:
    """The linear score nearest, in least squares, to `IMITATED_SCORE` where a call was inlined, else its negative."""
    with_one = np.column_stack([columns, np.ones(len(columns))])
    # A little weight decay: columns that never vary must get no weight.
    square = with_one.T @ with_one + 1e-3 * len(columns) * np.diag([*np.ones(columns.shape[1]), 0.0])
    found = np.linalg.solve(square, with_one.T @ (IMITATED_SCORE * (2.0 * advice - 1.0)))
    return found[:-1].astype(np.float32), float(found[-1])


def _linear(weights: Float32Array, bias: float) -> tuple[Layer, ...]:
    return (Layer(weights=weights.reshape(-1, 1), bias=np.array([bias], np.float32)),)


def _carried(weights: Float32Array, bias: float, hidden: int, generator: np.random.Generator) -> tuple[Layer, ...]:
    """A hidden layer whose first two units carry the linear score, as relu(x) - relu(-x) = x."""
    first = generator.normal(0.0, QUIET / np.sqrt(len(weights)), (len(weights), hidden)).astype(np.float32)
    offset = np.zeros(hidden, np.float32)
    first[:, 0], first[:, 1] = weights, -weights
    offset[0], offset[1] = bias, -bias
    last = np.zeros((hidden, 1), np.float32)
    last[0], last[1] = 1.0, -1.0
    return (
        Layer(weights=first, bias=offset, activation="relu"),
        Layer(weights=last, bias=np.zeros(1, np.float32)),
    )
