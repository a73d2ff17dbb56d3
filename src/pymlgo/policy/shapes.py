"""The model shapes: upstream's two networks, small networks, linear models, trees, thresholds and constants.

Each function gives a `Policy` whose graph takes the compiler's raw features; normalisation is part of the graph.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pymlgo.arrays import AnyArray, Float32Array
from pymlgo.errors import PolicyError
from pymlgo.policy.builder import GraphBuilder, Value
from pymlgo.policy.policy import DefaultValue, Policy
from pymlgo.policy.trees import Trees
from pymlgo.tensor_spec import TensorSpec

INLINING_ADVICE = TensorSpec("inlining_decision", "int64_t", (1,))
EVICTION_ADVICE = TensorSpec("index_to_evict", "int64_t", (1,))
PRIORITY_ADVICE = TensorSpec("priority", "float", (1,))

COST_ESTIMATE = TensorSpec("cost_estimate", "int64_t", (1,))
INLINING_DEFAULT = TensorSpec("inlining_default", "int64_t", (1,))
MASK = "mask"
LOWEST = np.float32(np.finfo(np.float32).min)
"""What stands for a register that may not be evicted, as in upstream's network."""

LOWEST_ALLOWED = float(np.nextafter(LOWEST, np.float32(0)))
"""What a register that may be evicted has at least, even where its score is NaN: LLVM crashes on a masked one."""

LARGEST_PRIORITY = float(np.nextafter(np.float32(2**32), np.float32(0)))
"""LLVM turns the priority into an unsigned of 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """A dense layer: weights f32[inputs, outputs], bias f32[outputs]; activation as `GraphBuilder.dense` knows them."""

    weights: Float32Array
    bias: Float32Array
    activation: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaling:
    """Normalisation of the feature columns x: (g(x) - mean) / deviation, then clipped to ±clip.

    Attributes:
        squash: g is sign(x) * log(1 + |x|) / 4 (integers of any size become small numbers), else the identity.
        mean, deviation: f32[columns]; None leaves the columns as they are.
        clip: None does not clip.
    """

    squash: bool = True
    mean: Float32Array | None = None
    deviation: Float32Array | None = None
    clip: float | None = None

    def apply(self, make: GraphBuilder, x: Value) -> Value:
        """The normalized columns f32[rows, columns]."""
        if self.squash:
            magnitude = make.apply("LOG", abs(x) + 1) * 0.25
            x = make.select(x < 0, -magnitude, magnitude)
        if self.mean is not None:
            x = x - make.constant(np.asarray(self.mean, np.float32))
        if self.deviation is not None:
            x = x / make.constant(np.asarray(self.deviation, np.float32))
        if self.clip is not None:
            x = x.minimum(self.clip).maximum(-self.clip)
        return x


RAW = Scaling(squash=False)
"""No normalisation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InliningRule:
    """From a score (gain of inlining) to advice: above `margin` inline, below -`margin` do not, else `default`.

    Attributes:
        margin: at least 0, in the score's unit.
        default: what decides between: LLVM's own rule at -Oz, `cost_estimate <= 0`; the feature `inlining_default`,
            which a compiler sends where it is asked to; or nothing (then a score above 0 inlines).
    """

    margin: float = 0.0
    default: Literal["cost_estimate", "inlining_default"] | None = None

    def apply(self, make: GraphBuilder, score: Value, inputs: dict[str, Value]) -> Value:
        """The advice i64[1] for a score f32[1]."""
        match self.default:
            case None:
                return (score > 0).cast("int64_t")
            case "cost_estimate":
                usual = (_input(make, COST_ESTIMATE, inputs) <= 0).cast("int64_t")
            case "inlining_default":
                usual = _input(make, INLINING_DEFAULT, inputs)
        if not (self.margin >= 0 and math.isfinite(self.margin)):
            raise PolicyError(f"the margin must be at least 0, found {self.margin}")
        declined = make.select(score < -self.margin, 0, usual)
        return make.select(score > self.margin, 1, declined)


# --- networks, linear models and trees over the features of one decision -------------------------------------


def inlining_policy(
    features: Sequence[TensorSpec],
    model: Sequence[Layer] | Trees,
    *,
    scaling: Scaling = RAW,
    rule: InliningRule = InliningRule(),
    defaults: Mapping[str, DefaultValue] | None = None,
    provenance: Mapping[str, object] | None = None,
) -> Policy:
    """Inline where the model's score says so; two outputs of its last layer are logits (no, yes) instead of a score.

    Args:
        features: the inputs, in the order of the model's columns; a vector feature (an embedding) is several columns.
        model: layers from the columns to 1 or 2 outputs, or trees over the columns.
        scaling: applied to the columns first.
        rule: from score to advice; not used for two logits.
        defaults: as `Policy.defaults`.
        provenance: as `Policy.provenance`.
    """
    make = GraphBuilder()
    inputs = {spec.name: make.input(spec) for spec in features}
    made = _model(make, scaling.apply(make, _columns(make, list(inputs.values()))), model)
    if made.type.shape == (1, 2):
        make.output(INLINING_ADVICE.name, made.arg_max(axis=1))
        make.output("logits", made)
    else:
        score = made.reshape(1)
        make.output(INLINING_ADVICE.name, rule.apply(make, score, inputs))
        make.output("score", score)
    return _policy("inlining", make, INLINING_ADVICE, defaults, provenance)


def eviction_policy(
    features: Sequence[TensorSpec],
    model: Sequence[Layer] | Trees,
    *,
    scaling: Scaling = RAW,
    defaults: Mapping[str, DefaultValue] | None = None,
    provenance: Mapping[str, object] | None = None,
) -> Policy:
    """Evict the register with the largest score among those that `mask` allows; the first of equals, 0 if none.

    Args:
        features: the inputs, in the order of the model's columns: a value for each register, or one for all
            (`progress`). They say how many registers there are; `mask` must be among them, and is no column.
        model: layers from the columns to 1 output, or trees.
        scaling: applied to the columns first.
        defaults: as `Policy.defaults`.
        provenance: as `Policy.provenance`.
    """
    make = GraphBuilder()
    registers = register_count(features)
    inputs = {spec.name: make.input(spec) for spec in features}
    columns = [_register_column(value, registers) for name, value in inputs.items() if name != MASK]
    rows = scaling.apply(make, make.concatenate(columns, axis=1))
    scores = _model(make, rows, model).reshape(registers).maximum(LOWEST_ALLOWED)
    _evict(make, scores, inputs.get(MASK))
    return _policy("eviction", make, EVICTION_ADVICE, defaults, provenance)


def priority_policy(
    features: Sequence[TensorSpec],
    model: Sequence[Layer] | Trees,
    *,
    scaling: Scaling = RAW,
    defaults: Mapping[str, DefaultValue] | None = None,
    provenance: Mapping[str, object] | None = None,
) -> Policy:
    """The model's one output, clamped to what LLVM can take, is the live range's priority."""
    make = GraphBuilder()
    inputs = [make.input(spec) for spec in features]
    made = _model(make, scaling.apply(make, _columns(make, inputs)), model)
    make.output(PRIORITY_ADVICE.name, made.reshape(1).maximum(0).minimum(LARGEST_PRIORITY))
    return _policy("priority", make, PRIORITY_ADVICE, defaults, provenance)


def linear(weights: Float32Array, bias: float = 0.0) -> tuple[Layer, ...]:
    """The model `x · weights + bias` for f32[columns] weights, to be used as the layers of a policy."""
    column = np.asarray(weights, np.float32).reshape(-1, 1)
    return (Layer(weights=column, bias=np.asarray([bias], np.float32)),)


def threshold_policy(
    feature: TensorSpec = COST_ESTIMATE,
    threshold: int = 0,
    provenance: Mapping[str, object] | None = None,
) -> Policy:
    """Inline where the feature is at most the threshold; as it stands, LLVM's own rule at -Oz."""
    make = GraphBuilder()
    make.output(INLINING_ADVICE.name, (make.input(feature) <= threshold).cast("int64_t"))
    return _policy("inlining", make, INLINING_ADVICE, None, provenance)


def constant_policy(
    problem: str, advice: TensorSpec, value: float, provenance: Mapping[str, object] | None = None
) -> Policy:
    """Always the same advice (`eviction` has none that is always allowed)."""
    make = GraphBuilder()
    make.output(advice.name, make.constant(advice.array(np.full(advice.shape, value))))
    return _policy(problem, make, advice, None, provenance)


# --- upstream's networks ------------------------------------------------------------------------------------


def upstream_inliner(
    features: Sequence[TensorSpec],
    boundaries: Mapping[str, AnyArray],
    layers: Sequence[Layer],
    provenance: Mapping[str, object] | None = None,
) -> Policy:
    """Upstream's network for inlining, by default 38 features → 76 → 40 → 40 → 20 → 2.

    Every feature x becomes q = bucket(x) / number of boundaries, and q²; the layers (relu but for the last) end in the
    logits of no and yes.

    Source: google/ml-compiler-opt, compiler_opt/rl/inlining and its PPO configuration.
    """
    make = GraphBuilder()
    columns = [
        column for spec in features for column in _bucket_columns(make.input(spec).reshape(1, 1), boundaries[spec.name])
    ]
    logits = _model(make, make.concatenate(columns, axis=1), layers)
    make.output(INLINING_ADVICE.name, logits.arg_max(axis=1))
    make.output("logits", logits)
    return _policy("inlining", make, INLINING_ADVICE, None, provenance)


def upstream_eviction(
    features: Sequence[TensorSpec],
    boundaries: Mapping[str, AnyArray],
    embeddings: Mapping[str, AnyArray],
    layers: Sequence[Layer],
    provenance: Mapping[str, object] | None = None,
) -> Policy:
    """Upstream's network for eviction: registers × 42 → 80 → 40 → 1, the masked ones set to the lowest float.

    In the order of the features' names: `mask` and `nr_urgent` give a column of zeros; a feature with an embedding
    (the stages) its row; one with boundaries q and q² as in `upstream_inliner`, `use_def_density` after a column that
    says whether it is infinite (then it counts as 1); the rest themselves. The specs say how many registers there are.

    Source: google/ml-compiler-opt, compiler_opt/rl/regalloc.
    """
    make = GraphBuilder()
    registers = register_count(features)
    zeros = make.constant(np.zeros((registers, 1), np.float32))
    columns: list[Value] = []
    mask: Value | None = None
    for spec in sorted(features, key=lambda each: each.name):
        if spec.name in (MASK, "nr_urgent"):
            columns.append(zeros)
        if spec.name == "nr_urgent":
            continue
        value = make.input(spec)
        if spec.name == MASK:
            mask = value
        elif spec.name in embeddings:
            table = make.constant(np.asarray(embeddings[spec.name], np.float32))
            columns.append(make.apply("GATHER", table, value.reshape(registers), axis=0))
        elif spec.name not in boundaries:
            columns.append(_register_column(value, registers))
        else:
            columns.extend(_register_buckets(make, value, registers, boundaries[spec.name]))
    scores = _model(make, make.concatenate(columns, axis=1), layers).reshape(registers)
    _evict(make, scores, mask)
    return _policy("eviction", make, EVICTION_ADVICE, None, provenance)


def random_layers(sizes: Sequence[int], rng: np.random.Generator, *, activation: str = "relu") -> tuple[Layer, ...]:
    """Layers of the given sizes with Glorot's uniform weights and zero biases; the last has no activation."""
    made = []
    for index, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        limit = math.sqrt(6 / (inputs + outputs))
        weights = rng.uniform(-limit, limit, (inputs, outputs)).astype(np.float32)
        last = index == len(sizes) - 2
        made.append(
            Layer(weights=weights, bias=np.zeros(outputs, np.float32), activation="none" if last else activation)
        )
    return tuple(made)


def register_count(features: Sequence[TensorSpec]) -> int:
    """The number of registers that eviction's features describe: the number of elements they share.

    Raises:
        PolicyError: they differ (features of one element aside).
    """
    lengths = {spec.element_count for spec in features if spec.element_count > 1}
    if len(lengths) != 1:
        raise PolicyError(f"features of eviction must share one number of registers, found {sorted(lengths)}")
    return lengths.pop()


# --- parts --------------------------------------------------------------------------------------------------


def _input(make: GraphBuilder, spec: TensorSpec, inputs: dict[str, Value]) -> Value:
    if spec.name not in inputs:
        inputs[spec.name] = make.input(spec)
    return inputs[spec.name]


def _columns(make: GraphBuilder, inputs: Sequence[Value]) -> Value:
    if not inputs:
        raise PolicyError("the policy has no features")
    return make.concatenate([each.cast("float").reshape(1, each.type.element_count) for each in inputs], axis=1)


def _register_column(value: Value, registers: int) -> Value:
    column = value.cast("float").reshape(value.type.element_count, 1)
    return column if value.type.element_count == registers else column.tile(registers, 1)


def _bucket_columns(column: Value, boundaries: AnyArray) -> tuple[Value, Value]:
    share = column.bucketize(boundaries).cast("float") / len(boundaries)
    return share, share * share


def _register_buckets(make: GraphBuilder, value: Value, registers: int, boundaries: AnyArray) -> list[Value]:
    column = value.reshape(value.type.element_count, 1)
    if column.type.element_count != registers:
        column = column.tile(registers, 1)
    if value.name != "use_def_density":
        return list(_bucket_columns(column, boundaries))
    infinite = abs(column).equals(np.inf)
    one = make.constant(np.ones((), np.float32))
    return [infinite.cast("float"), *_bucket_columns(make.select(infinite, one, column), boundaries)]


def _model(make: GraphBuilder, rows: Value, model: Sequence[Layer] | Trees) -> Value:
    if isinstance(model, Trees):
        return model.apply(make, rows)
    for layer in model:
        rows = make.dense(rows, layer.weights, layer.bias, activation=layer.activation)
    return rows


def _evict(make: GraphBuilder, scores: Value, mask: Value | None) -> None:
    if mask is None:
        raise PolicyError(f"eviction needs the feature {MASK!r}")
    forbidden = mask.reshape(*scores.type.shape).equals(0)
    masked = make.apply("SELECT_V2", forbidden, make.constant(np.asarray(LOWEST)), scores)
    make.output(EVICTION_ADVICE.name, masked.arg_max(axis=0).reshape(1))
    make.output("scores", masked)


def _policy(
    problem: str,
    make: GraphBuilder,
    advice: TensorSpec,
    defaults: Mapping[str, DefaultValue] | None,
    provenance: Mapping[str, object] | None,
) -> Policy:
    graph = make.build()
    if graph.decision != advice:
        raise PolicyError(f"the graph decides {graph.decision.to_json()}, expected {advice.to_json()}")
    return Policy(
        problem=problem, graph=graph, advice=advice.name, defaults=defaults or {}, provenance=provenance or {}
    )
