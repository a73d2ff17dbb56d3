"""A policy that changes while the compiler runs."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from policy_samples import SCALARS, observations, row, sample_policies
from pymlgo import ModelUnderTrainingRunner, TensorSpec
from pymlgo.errors import MissingDependency, PolicyError, SpecError
from pymlgo.policy.directory import load_policy, save_policy
from pymlgo.policy.interpreter import evaluate
from pymlgo.policy.shapes import inlining_policy, linear
from pymlgo.policy.tflite import lowering

GOLDEN = Path(__file__).resolve().parents[1] / "policy" / "golden"


def weighted(*weights: float):
    return inlining_policy(SCALARS, linear(np.float32(weights)))


def fill(runner: ModelUnderTrainingRunner, features) -> None:
    for index, spec in enumerate(runner.inputs):
        if spec.name in features:
            runner.get_tensor(index)[...] = features[spec.name]


@pytest.mark.spec("model-runner.under-training")
@pytest.mark.parametrize("executor", ["interpreter", "litert"])
@pytest.mark.parametrize("name", ["mlp", "trees", "upstream_eviction"])
def test_it_decides_as_the_policy(name: str, executor: str, tmp_path: Path) -> None:
    policy = sample_policies()[name]
    save_policy(policy, tmp_path)
    runner = ModelUnderTrainingRunner(policy.graph.inputs, tmp_path, executor=executor)
    assert runner.executor == executor
    batch = observations(policy, 60)
    equal = 0
    for index in range(60):
        fill(runner, row(batch, index))
        expected = evaluate(policy.graph, row(batch, index))
        equal += runner.evaluate() == expected[policy.advice].item()
        for place, spec in enumerate(runner.extra_outputs):
            np.testing.assert_allclose(runner.extra_output(place), expected[spec.name], rtol=1e-4, atol=1e-5)
    assert equal >= 59


@pytest.mark.parametrize("executor", ["interpreter", "litert"])
def test_what_tensorflow_s_converter_wrote(executor: str) -> None:
    policy = load_policy(GOLDEN / "eviction")
    runner = ModelUnderTrainingRunner(policy.graph.inputs, GOLDEN / "eviction", executor=executor)
    expected = np.load(GOLDEN / "eviction" / "expected.npz")
    for index in range(20):
        fill(runner, {spec.name: expected[f"input_{spec.name}"][index] for spec in runner.inputs})
        assert runner.evaluate() == expected["output_index_to_evict"][index].item()
    assert [spec.name for spec in runner.extra_outputs] == ["scores"]


@pytest.mark.spec("model-runner.context")
@pytest.mark.parametrize("executor", ["interpreter", "litert"])
def test_a_changed_policy_is_taken_up_when_the_context_switches(executor: str, tmp_path: Path) -> None:
    save_policy(weighted(1, 0, 0, 0), tmp_path)
    runner = ModelUnderTrainingRunner(SCALARS, tmp_path, executor=executor)
    kept = runner.get_tensor(0)
    kept[0] = 5
    assert runner.evaluate() == 1
    save_policy(weighted(-1, 0, 0, 0), tmp_path)
    assert runner.evaluate() == 1  # within a context the policy stays
    runner.switch_context("f")
    assert runner.evaluate() == 0
    assert runner.get_tensor(0) is kept
    assert not runner.reload()
    save_policy(weighted(1, 0, 0, 0), tmp_path)
    assert runner.reload()
    assert runner.evaluate() == 1


def test_a_policy_that_became_unusable_leaves_the_one_in_use(tmp_path: Path) -> None:
    save_policy(weighted(1, 0, 0, 0), tmp_path)
    runner = ModelUnderTrainingRunner(SCALARS, tmp_path)
    runner.get_tensor(0)[0] = 5
    whole = (tmp_path / "policy.json").read_text()
    (tmp_path / "policy.json").write_text("{")
    with pytest.raises(PolicyError, match="not JSON"):
        runner.switch_context("f")
    assert runner.evaluate() == 1
    (tmp_path / "policy.json").write_text(whole)
    runner.switch_context("f")
    save_policy(sample_policies()["threshold"], tmp_path)  # one output fewer
    with pytest.raises(PolicyError, match="outputs changed from inlining_decision"):
        runner.switch_context("g")
    shutil.rmtree(tmp_path)
    with pytest.raises(PolicyError):
        runner.switch_context("h")
    assert runner.evaluate() == 1


@pytest.mark.spec("model-runner.versioning")
def test_features_beyond_the_model_and_inputs_beyond_the_compiler(tmp_path: Path) -> None:
    save_policy(sample_policies()["mlp"], tmp_path)
    few = [spec for spec in SCALARS if spec.name != "switch_penalty"]  # has a default
    runner = ModelUnderTrainingRunner([*few, TensorSpec("newer", "float", (9,))], tmp_path)
    runner.get_tensor(3)[...] = 1
    assert runner.evaluate() in (0, 1)
    with pytest.raises(PolicyError, match="needs 'callee_users', which the compiler does not send"):
        ModelUnderTrainingRunner(few[1:], tmp_path)


@pytest.mark.spec("model-runner.mismatch")
def test_a_mismatch_names_both_sides(tmp_path: Path) -> None:
    save_policy(sample_policies()["linear"], tmp_path)
    changed = [TensorSpec("callee_users", "float", (2,)), *SCALARS[1:]]
    with pytest.raises(PolicyError) as caught:
        ModelUnderTrainingRunner(changed, tmp_path)
    assert "'callee_users'" in str(caught.value)
    assert "takes int64_t [1], the compiler has float [2]" in str(caught.value)


def test_extra_outputs_are_those_of_an_evaluation(tmp_path: Path) -> None:
    save_policy(sample_policies()["linear"], tmp_path)
    runner = ModelUnderTrainingRunner(SCALARS, tmp_path)
    for index in (0, 1, -1):
        with pytest.raises(SpecError, match="1 extra outputs"):
            runner.extra_output(index)


def test_without_litert_the_interpreter_evaluates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_policy(sample_policies()["linear"], tmp_path)
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    assert ModelUnderTrainingRunner(SCALARS, tmp_path).executor == "interpreter"
    with pytest.raises(MissingDependency) as caught:
        ModelUnderTrainingRunner(SCALARS, tmp_path, executor="litert")
    assert caught.value.hint == "pip install 'pymlgo[tflite]'"


def test_without_a_tflite_form_the_interpreter_evaluates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "LARGEST_LOWERED_TREES", 3)
    save_policy(sample_policies()["trees"], tmp_path)
    inputs = sample_policies()["trees"].graph.inputs
    assert ModelUnderTrainingRunner(inputs, tmp_path).executor == "interpreter"
    with pytest.raises(PolicyError, match="has no TFLite form"):
        ModelUnderTrainingRunner(inputs, tmp_path, executor="litert")


def test_litert_refuses_what_it_cannot_load(tmp_path: Path) -> None:
    save_policy(sample_policies()["linear"], tmp_path)
    model = tmp_path / "model.tflite"
    model.write_bytes(model.read_bytes()[:300])
    members = json.loads((tmp_path / "policy.json").read_text())
    del members["tflite"]["sha256"]
    (tmp_path / "policy.json").write_text(json.dumps(members))
    with pytest.raises(PolicyError, match="LiteRT cannot load it"):
        ModelUnderTrainingRunner(SCALARS, tmp_path, executor="litert")
