"""Small policies of every shape, and observations for them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import (
    COST_ESTIMATE,
    InliningRule,
    Scaling,
    eviction_policy,
    inlining_policy,
    linear,
    priority_policy,
    random_layers,
    threshold_policy,
    upstream_eviction,
    upstream_inliner,
)
from pymlgo.policy.trees import Trees
from pymlgo.tensor_spec import TensorSpec

SCALARS = tuple(
    TensorSpec(name, "int64_t", (1,))
    for name in ("callee_users", "cost_estimate", "is_multiple_blocks", "switch_penalty")
)
EVICTION = (
    *(TensorSpec(name, "int64_t", (1, 33)) for name in ("mask", "is_free", "is_hint", "max_stage", "min_stage")),
    *(TensorSpec(name, "float", (1, 33)) for name in ("liverange_size", "nr_urgent", "use_def_density")),
    TensorSpec("progress", "float", (1,)),
)
PRIORITY = (
    TensorSpec("li_size", "int64_t", (1,)),
    TensorSpec("stage", "int64_t", (1,)),
    TensorSpec("weight", "float", (1,)),
)


def boundaries_for(specs: tuple[TensorSpec, ...], rng: np.random.Generator) -> dict[str, AnyArray]:
    return {
        spec.name: np.sort(rng.normal(0, 50, 60).round(0 if spec.type == "int64_t" else 3)).astype(np.float32)
        for spec in specs
    }


def random_tree(rng: np.random.Generator, features: int, depth: int) -> dict[str, object]:
    if depth == 0 or rng.random() < 0.15:
        return {"leaf_value": float(rng.normal())}
    return {
        "split_feature": int(rng.integers(features)),
        "threshold": float(rng.integers(-50, 50)) + 0.5,
        "left_child": random_tree(rng, features, depth - 1),
        "right_child": random_tree(rng, features, depth - 1),
    }


def random_trees(rng: np.random.Generator, *, features: int = len(SCALARS), trees: int = 8, depth: int = 4) -> Trees:
    return Trees.from_nested([random_tree(rng, features, depth) for _ in range(trees)], base=0.25)


def sample_policies() -> dict[str, Policy]:
    """Every model shape, small, always the same."""
    rng = np.random.default_rng(3)
    squashed = Scaling(mean=np.full(4, 0.3), deviation=np.full(4, 0.7), clip=6.0)
    registers = 33
    assert registers == EVICTION[0].shape[1]
    return {
        "upstream_inliner": upstream_inliner(SCALARS, boundaries_for(SCALARS, rng), random_layers([8, 10, 2], rng)),
        "upstream_eviction": upstream_eviction(
            EVICTION,
            boundaries_for(tuple(s for s in EVICTION if s.type == "float"), rng),
            {name: rng.normal(size=(7, 4)) for name in ("max_stage", "min_stage")},
            random_layers([1 + 1 + 2 + 8 + 2 + 3 + 2, 12, 1], rng),
        ),
        "mlp": inlining_policy(
            SCALARS,
            random_layers([4, 8, 4, 1], rng, activation="tanh"),
            scaling=squashed,
            rule=InliningRule(margin=0.1, default="cost_estimate"),
            defaults={"switch_penalty": 0},
        ),
        "linear": inlining_policy(SCALARS, linear(rng.normal(size=4), 0.5), scaling=squashed),
        "trees": inlining_policy(
            SCALARS,
            random_trees(rng),
            rule=InliningRule(margin=0.2, default="inlining_default"),
            provenance={"seed": 3},
        ),
        "threshold": threshold_policy(COST_ESTIMATE, 15),
        "eviction_mlp": eviction_policy(
            EVICTION, random_layers([8, 6, 1], rng), scaling=Scaling(clip=4.0), defaults={"progress": 0.5}
        ),
        "priority": priority_policy(PRIORITY, random_layers([3, 5, 1], rng), scaling=Scaling()),
    }


def observations(policy: Policy, count: int, seed: int = 0) -> dict[str, AnyArray]:
    """Random features, `[count, *shape]`."""
    rng = np.random.default_rng(seed)
    return {spec.name: random_feature(spec, count, rng) for spec in policy.graph.inputs}


def random_feature(spec: TensorSpec, count: int, rng: np.random.Generator) -> AnyArray:
    shape = (count, *spec.shape)
    match spec.name:
        case "mask" | "inlining_default" | "is_free" | "is_hint" | "is_multiple_blocks":
            return rng.integers(0, 2, shape)
        case "max_stage" | "min_stage":
            return rng.integers(0, 7, shape)
        case "use_def_density":
            return np.where(rng.random(shape) < 0.1, np.inf, rng.normal(0, 50, shape)).astype(np.float32)
        case _ if spec.type == "float":
            return rng.normal(0, 50, shape).astype(np.float32)
        case _:
            return rng.integers(-100, 100, shape)


def row(batch: Mapping[str, AnyArray], index: int) -> dict[str, AnyArray]:
    """One observation of a batch."""
    return {name: values[index] for name, values in batch.items()}
