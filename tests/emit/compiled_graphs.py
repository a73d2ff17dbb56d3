"""What the tests of the emitter share: compile a graph, compare it with the oracle, policies of upstream's shapes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.emit import compile_policy
from pymlgo.policy.graph import Graph
from pymlgo.policy.interpreter import evaluate_batch
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import random_layers, upstream_eviction, upstream_inliner
from pymlgo.runner.release import CompiledModel
from pymlgo.tensor_spec import TensorSpec

SPECIAL_FLOATS = np.float32(
    [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, -1e-44, 3e38, 0.5, 2**24 + 2, 88.5, -87.2, 9.5, 0.63]
)
SPECIAL_INTEGERS = (0, 1, -1, 2**24 + 1, 2**31 - 1, -(2**31), 3, 7)


def policy_of(graph: Graph, problem: str = "inlining") -> Policy:
    return Policy(problem=problem, graph=graph, advice=graph.outputs[0].name)


def run_batch(model: CompiledModel, inputs: Mapping[str, AnyArray], count: int) -> dict[str, AnyArray]:
    """The outputs of `count` observations through `mlgo_run_batch`."""
    given = [np.ascontiguousarray(inputs[spec.name], spec.dtype) for spec in model.inputs]
    made = [np.empty((count, *spec.shape), spec.dtype) for spec in model.outputs]
    pointers = [(ctypes.c_void_p * max(1, len(each)))(*(a.ctypes.data for a in each)) for each in (given, made)]
    model._library.mlgo_run_batch(model._instance, ctypes.c_uint64(count), *pointers)
    return {spec.name: array for spec, array in zip(model.outputs, made, strict=True)}


def assert_same_bits(found: AnyArray, expected: AnyArray, what: str) -> None:
    """Equal bit for bit, but for the payload of NaN."""
    assert found.dtype == expected.dtype, what
    assert found.shape == expected.shape, what
    if found.dtype.kind == "f":
        both_nan = np.isnan(found) & np.isnan(expected)
        bits = f"u{found.dtype.itemsize}"
        same = both_nan | (found.view(bits) == np.ascontiguousarray(expected).view(bits))
    else:
        same = found == expected
    assert same.all(), (
        f"{what}: {np.count_nonzero(~same)} of {same.size} differ, e.g. {found[~same][:3]} and {expected[~same][:3]}"
    )


def check_graph(
    graph: Graph,
    inputs: Mapping[str, AnyArray],
    folder: Path,
    *,
    cxx: str | None = None,
    march: str | None = None,
) -> CompiledModel:
    """Compile, evaluate every observation of `inputs` one by one and in one batch, and compare with the oracle."""
    count = len(next(iter(inputs.values()))) if inputs else 3
    compiled = compile_policy(
        policy_of(graph), folder / "graph.so", cxx=cxx, march=march, keep_source=folder / "graph.cpp"
    )
    model = CompiledModel(compiled.path)
    expected = evaluate_batch(graph, inputs)
    batch = run_batch(model, inputs, count)
    for output in graph.outputs:
        wanted = expected[output.name]
        wanted = np.broadcast_to(wanted, (count, *wanted.shape[1:]))
        assert_same_bits(batch[output.name], wanted, f"output {output.name} of a batch")
        for observation in range(min(count, 5)):
            for spec, array in zip(model.inputs, model.input_arrays, strict=True):
                array[...] = inputs[spec.name][observation]
            model.run()
            place = [spec.name for spec in model.outputs].index(output.name)
            assert_same_bits(model.output_arrays[place], wanted[observation], f"output {output.name}")
    return model


def random_inputs(graph: Graph, rng: np.random.Generator, count: int) -> dict[str, AnyArray]:
    """Observations with many of the values at which arithmetic has its edges."""
    made: dict[str, AnyArray] = {}
    for spec in graph.inputs:
        shape = (count, *spec.shape)
        if spec.dtype.kind == "f":
            values = rng.normal(0, 5, shape).astype(spec.dtype)
            special = rng.choice(SPECIAL_FLOATS, shape).astype(spec.dtype)
            made[spec.name] = np.where(rng.random(shape) < 0.2, special, values)
        else:
            low, high = (-50, 50) if spec.dtype.kind == "i" else (0, 100)
            values = rng.integers(low, high, shape)
            if spec.dtype.itemsize >= 4 and spec.dtype.kind == "i":
                values = np.where(rng.random(shape) < 0.2, rng.choice(SPECIAL_INTEGERS, shape), values)
            made[spec.name] = values.astype(spec.dtype)
    return made


def inliner_features(count: int = 38) -> list[TensorSpec]:
    return [TensorSpec(f"feature_{index}", "int64_t", (1,)) for index in range(count)]


def small_inliner(rng: np.random.Generator) -> Policy:
    """Upstream's shape for inlining with boundaries that repeat as the real ones do."""
    features = inliner_features()
    boundaries = {
        spec.name: np.sort(np.round(rng.exponential(3 + 5 * (index % 9), 999))).astype(np.float32)
        for index, spec in enumerate(features)
    }
    return upstream_inliner(features, boundaries, random_layers((76, 40, 40, 20, 2), rng))


def inliner_observations(policy: Policy, rng: np.random.Generator, count: int) -> dict[str, AnyArray]:
    return {
        spec.name: rng.exponential(3 + 5 * (index % 9), (count, 1)).astype(np.int64)
        for index, spec in enumerate(policy.graph.inputs)
    }


EVICTION_BUCKETS = (
    *(f"weighed_{each}_by_max" for each in ("reads", "writes", "read_writes", "indvars")),
    *(f"{each}_by_max" for each in ("hint_weights", "start_bb_freq", "end_bb_freq", "hottest_bb_freq")),
    *("liverange_size", "use_def_density", "nr_defs_and_uses", "nr_broken_hints", "nr_rematerializable"),
)


def small_eviction(rng: np.random.Generator, registers: int = 33) -> Policy:
    """Upstream's shape for eviction."""
    flags = ("mask", "is_hint", "is_local", "is_free", "max_stage", "min_stage")
    features = [TensorSpec(name, "int64_t", (registers,)) for name in flags]
    features += [TensorSpec(name, "float", (registers,)) for name in (*EVICTION_BUCKETS, "nr_urgent")]
    features.append(TensorSpec("progress", "float", (1,)))
    boundaries = {
        name: np.sort(rng.exponential(40, 300).round(1)).astype(np.float32) for name in (*EVICTION_BUCKETS, "progress")
    }
    embeddings = {name: rng.uniform(-0.05, 0.05, (7, 4)).astype(np.float32) for name in ("max_stage", "min_stage")}
    return upstream_eviction(features, boundaries, embeddings, random_layers((42, 80, 40, 1), rng))


def eviction_observations(policy: Policy, rng: np.random.Generator, count: int) -> dict[str, AnyArray]:
    """Masks of all kinds, from none to all, and densities that are infinite or no number."""
    made: dict[str, AnyArray] = {}
    for spec in policy.graph.inputs:
        shape = (count, *spec.shape)
        if spec.type == "float":
            made[spec.name] = rng.exponential(40, shape).astype(np.float32)
        else:
            made[spec.name] = rng.integers(0, 7 if "stage" in spec.name else 2, shape)
    made["mask"] = (rng.random(made["mask"].shape) < np.linspace(0, 1, count)[:, np.newaxis]).astype(np.int64)
    density = made["use_def_density"]
    density[rng.random(density.shape) < 0.1] = np.inf
    made["liverange_size"][rng.random(density.shape) < 0.05] = np.nan
    made["nr_broken_hints"][rng.random(density.shape) < 0.05] = -np.inf
    return made
