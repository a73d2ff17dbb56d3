"""The TFLite form: LiteRT loads it and agrees, and the loader's rules of development mode are kept on both sides."""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from policy_samples import SCALARS, observations, random_trees, row, sample_policies
from pymlgo.errors import PolicyError
from pymlgo.policy.builder import GraphBuilder, Value
from pymlgo.policy.directory import load_policy, save_policy, tflite_file
from pymlgo.policy.graph import Graph
from pymlgo.policy.interpreter import evaluate, evaluate_batch
from pymlgo.policy.shapes import constant_policy, inlining_policy
from pymlgo.policy.tflite import development_mode, lowering, schema
from pymlgo.policy.tflite.lowering import lowered
from pymlgo.policy.tflite.reader import read_model
from pymlgo.policy.tflite.writer import write_model
from pymlgo.runner.litert import LiteRTModel
from pymlgo.tensor_spec import TensorSpec

GOLDEN = Path(__file__).with_name("golden")


def written(graph: Graph, folder: Path) -> Path:
    development_mode.write_development_files(graph, folder)
    return folder / "model.tflite"


def litert(graph: Graph, folder: Path) -> LiteRTModel:
    file = written(graph, folder)
    outputs = {name: f"{spec.name}:{spec.port}" for name, spec in development_mode.output_specs(graph)}
    return LiteRTModel(file, {spec.name: f"action_{spec.name}:0" for spec in graph.inputs}, outputs)


def read_back(graph: Graph, folder: Path) -> Graph:
    model = read_model(written(graph, folder).read_bytes())
    names = {index: spec.name for index, spec in enumerate(graph.inputs)}
    return model.graph(names, {each.name: index for each, index in zip(graph.outputs, model.outputs, strict=True)})


# --- agreement ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sample_policies())
def test_litert_decides_as_the_interpreter(name: str, tmp_path: Path) -> None:
    policy = sample_policies()[name]
    model = litert(policy.graph, tmp_path)
    batch = observations(policy, 200)
    expected = evaluate_batch(policy.graph, batch)
    equal = 0
    for index in range(200):
        found = model(row(batch, index))
        equal += np.array_equal(found[policy.advice], expected[policy.advice][index])
        for key, value in found.items():
            np.testing.assert_allclose(value, expected[key][index], rtol=1e-4, atol=1e-5)
    assert equal >= 199 if name != "priority" else equal > 0  # a priority is a float, so equal to some bits only


@pytest.mark.parametrize("name", sample_policies())
def test_what_is_read_back_computes_the_same(name: str, tmp_path: Path) -> None:
    policy = sample_policies()[name]
    batch = observations(policy, 100)
    again = evaluate_batch(read_back(policy.graph, tmp_path), batch)
    for key, value in evaluate_batch(policy.graph, batch).items():
        np.testing.assert_array_equal(again[key], value)


def test_lowered_trees_are_equal_bit_for_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    policy = inlining_policy(SCALARS, random_trees(rng, trees=30, depth=5))
    batch = observations(policy, 300)
    simple = lowered(policy.graph)
    assert not any(node.op == "TreeEnsemble" for node in simple.nodes)
    expected = evaluate_batch(policy.graph, batch)["score"]
    np.testing.assert_array_equal(evaluate_batch(simple, batch)["score"], expected)
    model = litert(policy.graph, tmp_path)
    for index in range(100):
        np.testing.assert_array_equal(model(row(batch, index))["score"], expected[index])


F = TensorSpec("f", "float", (2, 3))
G = TensorSpec("g", "float", (2, 3))
N = TensorSpec("n", "int64_t", (2, 3))
Make = GraphBuilder


def each_of(names: str, build: Callable[[Make, str, Value, Value, Value], Value], suffix: str = ""):
    """One case for each operator of `names`, built by `build`."""
    return {f"{op}{suffix}": (lambda make, f, g, n, op=op: build(make, op, f, g, n)) for op in names.split()}


ONE_OPERATOR = {
    **each_of("ADD SUB MUL MAXIMUM MINIMUM", lambda make, op, f, g, n: make.apply(op, f, g)),
    **each_of("ADD SUB MUL MAXIMUM MINIMUM", lambda make, op, f, g, n: make.apply(op, n, n + 3), "_integers"),
    **each_of("ABS NEG EXP TANH LOGISTIC ELU RELU", lambda make, op, f, g, n: make.apply(op, f)),
    **each_of("SQRT LOG", lambda make, op, f, g, n: make.apply(op, abs(f) + 1)),
    **each_of(
        "EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL",
        lambda make, op, f, g, n: make.apply(op, n, make.constant(np.asarray(4))).cast("float"),
    ),
    **each_of("LOGICAL_AND LOGICAL_OR", lambda make, op, f, g, n: make.apply(op, f < g, g < 1).cast("int64_t")),
    "DIV": lambda make, f, g, n: f / (abs(g) + 1),  # LiteRT has no infinite quotients
    **{
        f"{op}_{keep}": (lambda make, f, g, n, op=op, keep=keep: make.apply(op, f, axes=(1,), keep_dims=keep))
        for op in ("SUM", "MEAN", "REDUCE_MAX")
        for keep in (False, True)
    },
    "LOGICAL_NOT": lambda make, f, g, n: make.apply("LOGICAL_NOT", f < g).cast("int32_t"),
    "SELECT_V2": lambda make, f, g, n: make.select(f < g, 2.5, g),
    "SOFTMAX": lambda make, f, g, n: make.apply("SOFTMAX", f),
    "LOG_SOFTMAX": lambda make, f, g, n: make.apply("LOG_SOFTMAX", f),
    "ARG_MAX": lambda make, f, g, n: f.arg_max(1),
    "ARG_MAX_integers": lambda make, f, g, n: f.cast("int32_t").arg_max(0, "int32_t"),
    "BUCKETIZE": lambda make, f, g, n: f.bucketize([-1, 0, 0, 2]),
    "BUCKETIZE_integers": lambda make, f, g, n: n.bucketize([-1, 0, 0, 2]),
    "CAST": lambda make, f, g, n: f.cast("int64_t").cast("float"),
    "GATHER": lambda make, f, g, n: make.apply("GATHER", f, n.slice((0, 0), (1, 2)).reshape(2), axis=1),
    "FULLY_CONNECTED": lambda make, f, g, n: make.dense(f, np.ones((3, 4)), np.arange(4), activation="relu"),
    "FULLY_CONNECTED_vector": lambda make, f, g, n: make.dense(f.reshape(6), np.ones((6, 2)), np.zeros(2)),
    "FULLY_CONNECTED_deep": lambda make, f, g, n: make.dense(f.reshape(1, 2, 3), np.ones((3, 2)), np.zeros(2)),
    "CONCATENATION": lambda make, f, g, n: make.concatenate([f, g], axis=1),
    "PACK": lambda make, f, g, n: make.apply("PACK", f, g, axis=1),
    "TILE": lambda make, f, g, n: f.tile(2, 1),
    "TRANSPOSE": lambda make, f, g, n: make.apply("TRANSPOSE", f, permutation=(1, 0)),
    "SLICE": lambda make, f, g, n: f.slice((1, 0), (1, 2)),
    "EXPAND_DIMS": lambda make, f, g, n: make.apply("EXPAND_DIMS", f, axis=1),
    "SQUEEZE": lambda make, f, g, n: make.apply("SQUEEZE", f.reshape(1, 6, 1), axes=(0, 2)),
    "an input itself": lambda make, f, g, n: f,
    "a constant": lambda make, f, g, n: make.constant(np.float32([1, 2])),
}


@pytest.mark.parametrize("case", ONE_OPERATOR)
def test_every_operator_in_litert(case: str, tmp_path: Path) -> None:
    make = GraphBuilder()
    f, g, n = (make.input(spec) for spec in (F, G, N))
    made: Value = ONE_OPERATOR[case](make, f, g, n)
    make.output("y", made)
    make.output("twice", made)
    graph = make.build()
    model = litert(graph, tmp_path)
    again = read_back(graph, tmp_path)
    rng = np.random.default_rng(6)
    for _ in range(20):
        inputs = {name: rng.normal(0, 3, (2, 3)).round(1).astype(np.float32) for name in "fg"}
        inputs["n"] = rng.integers(-5, 6, (2, 3))
        expected = evaluate(graph, inputs)
        found = model(inputs)
        for name in ("y", "twice"):
            assert found[name].dtype == expected[name].dtype
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(evaluate(again, inputs)[name], expected[name])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2.0**24, -1.0])
def test_buckets_at_their_edges_are_litert_s(value: float, tmp_path: Path) -> None:
    make = GraphBuilder()
    make.output("y", make.input(TensorSpec("x", "float", (1,))).bucketize([-1, 0, 2**24]))
    graph = make.build()
    inputs = {"x": np.float32([value])}
    np.testing.assert_array_equal(litert(graph, tmp_path)(inputs)["y"], evaluate(graph, inputs)["y"])


@pytest.mark.parametrize("value", [2**24 + 1, 2**31 + 1, 2**53 + 1, -(2**40), 2**63 - 1])
def test_integers_reach_buckets_through_float32_as_in_litert(value: int, tmp_path: Path) -> None:
    make = GraphBuilder()
    make.output("y", make.input(TensorSpec("x", "int64_t", (1,))).bucketize([2**24 + 2, 2**31, 2**53]))
    graph = make.build()
    inputs = {"x": np.asarray([value])}
    np.testing.assert_array_equal(litert(graph, tmp_path)(inputs)["y"], evaluate(graph, inputs)["y"])


# --- what TensorFlow's converter wrote ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["inliner", "eviction"])
def test_models_of_the_real_converter(name: str) -> None:
    policy = load_policy(GOLDEN / name)
    expected = np.load(GOLDEN / name / "expected.npz", allow_pickle=False)
    count = len(expected[f"output_{policy.advice}"])
    inputs = {
        spec.name: expected[f"input_{spec.name}"]
        if f"input_{spec.name}" in expected
        else np.zeros((count, *spec.shape), spec.dtype)
        for spec in policy.graph.inputs
    }
    found = evaluate_batch(policy.graph, inputs)
    assert set(found) == {key.removeprefix("output_") for key in expected if key.startswith("output_")}
    np.testing.assert_array_equal(found[policy.advice], expected[f"output_{policy.advice}"])
    for key, value in found.items():
        np.testing.assert_allclose(value, expected[f"output_{key}"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["inliner", "eviction"])
def test_golden_files_are_those_described(name: str) -> None:
    described = tomllib.loads((GOLDEN / f"{name}.toml").read_text())
    assert described["tensorflow"] == "2.15.1"
    for file, digest in described["sha256"].items():
        assert hashlib.sha256((GOLDEN / name / file).read_bytes()).hexdigest() == digest


def test_inputs_of_upstream_s_training_loop_vanish_and_extra_outputs_stay() -> None:
    policy = load_policy(GOLDEN / "inliner")
    names = {spec.name for spec in policy.graph.inputs}
    assert "cost_estimate" in names
    assert not names & {"discount", "reward", "step_type"}
    assert [each.name for each in policy.graph.outputs] == ["inlining_decision", "CategoricalProjectionNetwork_logits"]
    assert (policy.problem, policy.advice) == ("inlining", "inlining_decision")


def test_an_imported_directory_is_saved_as_ours(tmp_path: Path) -> None:
    imported = load_policy(GOLDEN / "eviction")
    save_policy(imported, tmp_path / "ours")
    assert load_policy(tmp_path / "ours").graph.fingerprint() == imported.graph.fingerprint()


# --- the loader's rules -------------------------------------------------------------------------------------


def test_inputs_are_tensors_0_to_n_in_order(tmp_path: Path) -> None:
    policy = sample_policies()["upstream_eviction"]
    model = read_model(written(policy.graph, tmp_path).read_bytes())
    assert model.inputs == tuple(range(len(policy.graph.inputs)))
    assert [model.tensors[index].name for index in model.inputs] == [f"action_{s.name}:0" for s in policy.graph.inputs]


def test_output_spec_is_what_llvm_demands(tmp_path: Path) -> None:
    written(sample_policies()["upstream_inliner"].graph, tmp_path)
    first, second = json.loads((tmp_path / "output_spec.json").read_text())
    assert first["logging_name"] == "inlining_decision"
    assert first["tensor_spec"] == {"name": "StatefulPartitionedCall", "type": "int64_t", "port": 0, "shape": [1]}
    assert (second["logging_name"], second["tensor_spec"]["port"]) == ("logits", 1)


def test_inputs_elsewhere_are_refused(tmp_path: Path) -> None:
    graph = sample_policies()["linear"].graph
    file = written(graph, tmp_path)
    data = bytearray(file.read_bytes())
    inputs = np.asarray([0, 1, 2, 3], "<i4").tobytes()
    at = data.index(inputs)
    data[at : at + len(inputs)] = np.asarray([1, 0, 2, 3], "<i4").tobytes()
    file.write_bytes(data)
    with pytest.raises(PolicyError, match=r"inputs are tensors \[1, 0, 2, 3\]"):
        load_policy(tmp_path)


def with_spec(entry: dict, **changes: object) -> dict:
    return {**entry, "tensor_spec": {**entry["tensor_spec"], **changes}}


def edited_spec(folder: Path, edit) -> None:
    file = folder / "output_spec.json"
    entries = json.loads(file.read_text())
    file.write_text(json.dumps(edit(entries)))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda e: {}, "must be a list"),
        (lambda e: [], "at least one output"),
        (lambda e: [1], "'logging_name' and 'tensor_spec'"),
        (lambda e: [{"logging_name": "inlining_decision", "tensor_spec": {}}], "lacks 'name'"),
        (lambda e: e[::-1], "first output must be the decision, found 'logits'"),
        (lambda e: [e[0], {**e[1], "logging_name": "inlining_decision"}], "stands twice"),
        (lambda e: [{**e[0], "tensor_spec": {**e[0]["tensor_spec"], "type": "uint8_t"}}], "which LLVM can log"),
        (
            lambda e: [{**e[0], "tensor_spec": {**e[0]["tensor_spec"], "type": "int32_t"}}],
            "output_spec.json says int32_t",
        ),
        (lambda e: [{**e[0], "tensor_spec": {**e[0]["tensor_spec"], "shape": [2]}}], r"says int64_t\[2\]"),
        (lambda e: [{**e[0], "tensor_spec": {**e[0]["tensor_spec"], "port": 7}}], "names the output 'StatefulPart"),
        (lambda e: [{**e[0], "tensor_spec": {**e[0]["tensor_spec"], "name": "Other"}}], "the model has Stateful"),
    ],
)
def test_output_specs_that_disagree(edit, message: str, tmp_path: Path) -> None:
    written(sample_policies()["upstream_inliner"].graph, tmp_path)
    edited_spec(tmp_path, edit)
    with pytest.raises(PolicyError, match=message):
        load_policy(tmp_path)


def test_another_feed_prefix(tmp_path: Path) -> None:
    written(sample_policies()["linear"].graph, tmp_path)
    with pytest.raises(PolicyError, match="'serving_<feature>:0'"):
        development_mode.read_development_files(tmp_path, prefix="serving_")
    assert development_mode.read_development_files(tmp_path, prefix="action_").problem == "inlining"


def test_missing_files_are_named(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "inliner" / "model.tflite", tmp_path)
    with pytest.raises(PolicyError, match=r"output_spec\.json: No such file"):
        load_policy(tmp_path)


def test_what_has_no_tflite_form_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = sample_policies()["trees"]
    save_policy(policy, tmp_path)
    assert (tmp_path / "model.tflite").exists()
    monkeypatch.setattr(lowering, "LARGEST_LOWERED_TREES", 3)
    save_policy(policy, tmp_path)
    assert not (tmp_path / "model.tflite").exists()
    assert "8 trees" in json.loads((tmp_path / "policy.json").read_text())["tflite"]["reason"]
    with pytest.raises(PolicyError, match="a tree ensemble of 8 trees"):
        tflite_file(tmp_path)


def test_a_model_that_policy_json_does_not_name_is_refused(tmp_path: Path) -> None:
    save_policy(sample_policies()["linear"], tmp_path)
    shutil.copy(GOLDEN / "inliner" / "model.tflite", tmp_path)
    with pytest.raises(PolicyError, match="is not the model that policy"):
        tflite_file(tmp_path)


def test_a_constant_policy_has_a_tflite_form(tmp_path: Path) -> None:
    policy = constant_policy("inlining", TensorSpec("inlining_decision", "int64_t", (1,)), 1)
    assert litert(policy.graph, tmp_path)({})["inlining_decision"] == [1]


# --- operators that other writers use -----------------------------------------------------------------------


def test_unsupported_operators_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    make = GraphBuilder()
    make.output("y", make.apply("EXP", make.input(F)))
    graph = make.build()
    for code, message in ((32, "custom ''"), (3, "CONV_2D"), (199, "STABLEHLO"), (4000, "builtin 4000")):
        monkeypatch.setattr(schema, "OPERATOR_CODES", {**schema.OPERATOR_CODES, "EXP": code})
        data = write_model(graph, ["a"], ["b"])
        with pytest.raises(PolicyError, match=rf"operator 0 \({message}.* is not supported"):
            read_model(data).graph({0: "f"}, {"y": 1})
