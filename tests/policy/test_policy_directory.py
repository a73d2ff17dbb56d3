"""What is saved is loaded; a directory is replaced whole; binding is by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from policy_samples import SCALARS, observations, row, sample_policies
from pymlgo import atomic_file
from pymlgo.errors import PolicyError
from pymlgo.policy.directory import load_policy, save_policy
from pymlgo.policy.interpreter import evaluate
from pymlgo.policy.policy import Policy
from pymlgo.tensor_spec import TensorSpec


@pytest.mark.parametrize("name", sample_policies())
def test_saved_and_loaded(name: str, tmp_path: Path) -> None:
    policy = sample_policies()[name]
    save_policy(policy, tmp_path / "deep" / "policy")
    again = load_policy(tmp_path / "deep" / "policy")
    assert again.graph.fingerprint() == policy.graph.fingerprint()
    assert (again.problem, again.advice) == (policy.problem, policy.advice)
    assert dict(again.defaults) == dict(policy.defaults)
    assert dict(again.provenance) == dict(policy.provenance)


def test_policy_json_has_what_a_reader_looks_for(tmp_path: Path) -> None:
    save_policy(sample_policies()["trees"], tmp_path)
    members = json.loads((tmp_path / "policy.json").read_text())
    assert members["schema"] == "pymlgo/policy-1"
    assert members["problem"] == "inlining"
    assert members["advice"] == {"name": "inlining_decision", "type": "int64_t", "port": 0, "shape": [1]}
    assert [spec["name"] for spec in members["features"]] == [*(s.name for s in SCALARS), "inlining_default"]
    assert members["provenance"] == {"seed": 3}
    assert members["tflite"]["file"] == "model.tflite"


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        save_policy(sample_policies()["mlp"], tmp_path / folder)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_a_policy_replaces_another(tmp_path: Path) -> None:
    save_policy(sample_policies()["mlp"], tmp_path)
    save_policy(sample_policies()["linear"], tmp_path)
    assert load_policy(tmp_path).graph.fingerprint() == sample_policies()["linear"].graph.fingerprint()
    assert len(list(tmp_path.glob("weights-*.bin"))) == 1


def test_a_save_that_fails_leaves_the_old_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_policy(sample_policies()["mlp"], tmp_path)

    def no_space(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_file, "write_text", no_space)
    with pytest.raises(PolicyError, match="No space left"):
        save_policy(sample_policies()["linear"], tmp_path)
    assert load_policy(tmp_path).graph.fingerprint() == sample_policies()["mlp"].graph.fingerprint()


def test_provenance_must_be_json(tmp_path: Path) -> None:
    policy = sample_policies()["linear"]
    for odd in (float("nan"), object()):
        wrong = Policy(problem="inlining", graph=policy.graph, advice=policy.advice, provenance={"score": odd})
        with pytest.raises(PolicyError, match="what JSON cannot say"):
            save_policy(wrong, tmp_path)
    assert not (tmp_path / "policy.json").exists()


def test_a_folder_without_a_policy_says_what_one_holds(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no policy directory") as caught:
        load_policy(tmp_path)
    assert "policy.json, or model.tflite and output_spec.json" in str(caught.value.hint)


def test_a_saved_model_is_recognized(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(PolicyError, match="a TensorFlow SavedModel") as caught:
        load_policy(tmp_path)
    assert "mlgo policy import" in str(caught.value.hint)


def test_a_fifo_in_the_place_of_a_file_stops_nobody(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "policy.json")
    with pytest.raises(PolicyError, match="no regular file"):
        load_policy(tmp_path)


# --- binding ------------------------------------------------------------------------------------------------


def test_features_are_bound_by_name_in_any_order() -> None:
    policy = sample_policies()["upstream_inliner"]
    observed = row(observations(policy, 1), 0)
    decide = policy.bind([*reversed(SCALARS), TensorSpec("feature_of_a_newer_llvm", "float", (75,))])
    expected = evaluate(policy.graph, observed)["inlining_decision"]
    np.testing.assert_array_equal(decide({**observed, "feature_of_a_newer_llvm": np.zeros(75, np.float32)}), expected)


def test_a_missing_feature_takes_its_default() -> None:
    policy = sample_policies()["mlp"]
    observed = row(observations(policy, 1), 0)
    observed["switch_penalty"] = np.asarray([0])
    expected = evaluate(policy.graph, observed)["inlining_decision"]
    del observed["switch_penalty"]
    decide = policy.bind([spec for spec in SCALARS if spec.name != "switch_penalty"])
    np.testing.assert_array_equal(decide(observed), expected)


def test_a_default_gives_way_to_the_compiler() -> None:
    policy = sample_policies()["mlp"]
    for observed in (row(observations(policy, 5), index) for index in range(5)):
        np.testing.assert_array_equal(
            policy.bind(SCALARS)(observed), evaluate(policy.graph, observed)["inlining_decision"]
        )


def test_a_missing_feature_without_default_is_an_error() -> None:
    with pytest.raises(PolicyError, match="needs 'cost_estimate', which the compiler does not send"):
        sample_policies()["threshold"].bind([])


@pytest.mark.parametrize(
    "found", [TensorSpec("cost_estimate", "int32_t", (1,)), TensorSpec("cost_estimate", "int64_t", (2,))]
)
def test_a_mismatch_names_both(found: TensorSpec) -> None:
    with pytest.raises(PolicyError) as caught:
        sample_policies()["threshold"].bind([found])
    assert "'cost_estimate': the policy takes int64_t [1]" in str(caught.value)
    assert f"the compiler sends {found.type} {list(found.shape)}" in str(caught.value)


def test_a_vector_default_fills_a_tensor() -> None:
    policy = sample_policies()["eviction_mlp"]
    with_vector = Policy(
        problem="eviction", graph=policy.graph, advice=policy.advice, defaults={"is_free": [0] * 33, "progress": 1}
    )
    assert with_vector.default_inputs()["is_free"].shape == (1, 33)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"advice": "score"}, "the advice is 'score', but output 0 of the graph is 'inlining_decision'"),
        ({"defaults": {"unknown": 1}}, "the graph has no such input"),
        ({"defaults": {"callee_users": 0.5}}, "default of 'callee_users'"),
        ({"defaults": {"callee_users": [1, 2]}}, "default of 'callee_users'"),
        ({"problem": "../x"}, "not a C identifier"),
    ],
)
def test_policies_that_cannot_be(changes, message: str) -> None:
    policy = sample_policies()["linear"]
    fields = {"problem": policy.problem, "graph": policy.graph, "advice": policy.advice, **changes}
    with pytest.raises(PolicyError, match=message):
        Policy(**fields)
