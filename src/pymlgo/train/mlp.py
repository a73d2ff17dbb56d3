"""A small regularised network, fitted with Adam in numpy."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pymlgo.arrays import Float32Array, Float64Array
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import InliningRule, Layer, Scaling, inlining_policy
from pymlgo.tensor_spec import TensorSpec

CLIP = 6.0
"""Standard deviations from the mean beyond which a feature counts no further."""

TARGET_SCALE = 20.0
"""Targets are divided by this while fitting, so that they are about as large as the network's first outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MLPLearner:
    """Fits networks of relu layers with weight decay; several nets of different seeds are averaged.

    Attributes:
        hidden: outputs of each hidden layer of one net.
        nets: how many are averaged; the policy holds them side by side.
        epochs: passes over the data.
        batch: rows of one step.
        rate: Adam's first step size; it falls to 0 along a cosine.
        decay: weight decay in each step, as a share of the step size.
    """

    name: str = "mlp"
    hidden: tuple[int, ...] = (32, 16)
    nets: int = 2
    epochs: int = 5
    batch: int = 128
    rate: float = 2e-3
    decay: float = 0.05

    @property
    def for_selection(self) -> MLPLearner:
        """One net."""
        return dataclasses.replace(self, nets=1)

    def fit(self, features: Float64Array, target: Float64Array, generator: np.random.Generator) -> MLPModel:
        """A model of features f64[n, f] → target f64[n]."""
        small = squashed(features)
        mean, deviation = small.mean(axis=0), small.std(axis=0) + np.float32(1e-3)
        rows = np.clip((small - mean) / deviation, -CLIP, CLIP)
        scaled = (target / TARGET_SCALE).astype(np.float32)
        nets = tuple(self._fit_net(rows, scaled, generator) for _ in range(self.nets))
        return MLPModel(mean=mean, deviation=deviation, nets=nets)

    def _fit_net(self, rows: Float32Array, target: Float32Array, generator: np.random.Generator) -> _Net:
        net = _initial((rows.shape[1], *self.hidden, 1), generator)
        adam = _Adam(net, self.rate, self.decay, steps=self.epochs * -(-len(rows) // self.batch))
        for _ in range(self.epochs):
            order = generator.permutation(len(rows))
            for start in range(0, len(rows), self.batch):
                chosen = order[start : start + self.batch]
                adam.step(_gradients(net, rows[chosen], target[chosen]))
        return net


_Net = list[tuple[Float32Array, Float32Array]]
"""Weights f32[inputs, outputs] and bias f32[outputs] of each layer."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MLPModel:
    """Averaged nets over squashed, standardised, clipped features."""

    mean: Float32Array
    deviation: Float32Array
    nets: tuple[_Net, ...]

    def scores(self, features: Float64Array) -> Float64Array:
        """Bytes that inlining saves, f64[n] for features f64[n, f]."""
        rows = np.clip((squashed(features) - self.mean) / self.deviation, -CLIP, CLIP)
        sums = sum((_forward(net, rows)[-1][:, 0].astype(np.float64) for net in self.nets), np.zeros(len(rows)))
        return np.asarray(sums * (TARGET_SCALE / len(self.nets)))

    def policy(self, features: Sequence[TensorSpec], rule: InliningRule, provenance: Mapping[str, object]) -> Policy:
        """The same scores as a graph (rounded to float32 in the graph's order of addition)."""
        scaling = Scaling(squash=True, mean=self.mean, deviation=self.deviation, clip=CLIP)
        return inlining_policy(features, _side_by_side(self.nets), scaling=scaling, rule=rule, provenance=provenance)


def squashed(features: Float64Array) -> Float32Array:
    """What `Scaling(squash=True)` makes of features of any shape."""
    return (np.sign(features) * np.log1p(np.abs(features)) * 0.25).astype(np.float32)


def _initial(sizes: Sequence[int], generator: np.random.Generator) -> _Net:
    return [
        (
            generator.normal(0.0, np.sqrt(2.0 / inputs), (inputs, outputs)).astype(np.float32),
            np.zeros(outputs, np.float32),
        )
        for inputs, outputs in itertools.pairwise(sizes)
    ]


def _forward(net: _Net, rows: Float32Array) -> list[Float32Array]:
    """The rows, then what each layer makes of them."""
    made = [rows]
    for number, (weights, bias) in enumerate(net):
        value = made[-1] @ weights + bias
        made.append(np.maximum(value, 0) if number < len(net) - 1 else value)
    return made


def _gradients(net: _Net, rows: Float32Array, target: Float32Array) -> _Net:
    """Of half the mean squared error."""
    made = _forward(net, rows)
    slope = (made[-1] - target[:, np.newaxis]) / np.float32(len(rows))
    gradients: _Net = []
    for number in reversed(range(len(net))):
        gradients.append((made[number].T @ slope, slope.sum(axis=0)))
        slope = (slope @ net[number][0].T) * (made[number] > 0)
    return gradients[::-1]


class _Adam:
    """Adam with decoupled weight decay and a cosine schedule; changes the net in place.

    Source: Kingma and Ba 2015; Loshchilov and Hutter 2019 (AdamW).
    """

    def __init__(self, net: _Net, rate: float, decay: float, *, steps: int) -> None:
        self._parameters = [array for layer in net for array in layer]
        self._first = [np.zeros_like(array) for array in self._parameters]
        self._second = [np.zeros_like(array) for array in self._parameters]
        self._rate, self._decay, self._steps, self._done = rate, decay, steps, 0

    def step(self, gradients: _Net) -> None:
        rate = self._rate * 0.5 * (1.0 + np.cos(np.pi * self._done / self._steps))
        self._done += 1
        flat = [array for layer in gradients for array in layer]
        for parameter, gradient, first, second in zip(self._parameters, flat, self._first, self._second, strict=True):
            first *= 0.9
            first += 0.1 * gradient
            second *= 0.999
            second += 0.001 * gradient**2
            step = (first / (1 - 0.9**self._done)) / (np.sqrt(second / (1 - 0.999**self._done)) + 1e-8)
            decay = self._decay if parameter.ndim > 1 else 0.0
            parameter -= (rate * (step + decay * parameter)).astype(np.float32)


def _side_by_side(nets: Sequence[_Net]) -> list[Layer]:
    """One network that averages `nets`: its weights are theirs in blocks."""
    layers = []
    for number in range(len(nets[0])):
        weights = [net[number][0] for net in nets]
        bias = np.concatenate([net[number][1] for net in nets])
        last = number == len(nets[0]) - 1
        if number == 0:
            joined = np.concatenate(weights, axis=1)
        else:
            joined = np.zeros((sum(w.shape[0] for w in weights), sum(w.shape[1] for w in weights)), np.float32)
            row = column = 0
            for each in weights:
                joined[row : row + each.shape[0], column : column + each.shape[1]] = each
                row, column = row + each.shape[0], column + each.shape[1]
        if last:
            scale = np.float32(TARGET_SCALE / len(nets))
            joined, bias = joined.sum(axis=1, keepdims=True) * scale, bias.sum(keepdims=True) * scale
        layers.append(Layer(weights=joined, bias=bias, activation="none" if last else "relu"))
    return layers
