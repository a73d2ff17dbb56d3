"""`mlgo policy inspect | diff | import | export`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from policy_samples import SCALARS, observations, sample_policies
from pymlgo.policy.directory import load_policy, save_policy
from pymlgo.training_log import Header, LogWriter

GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    for name in ("mlp", "linear", "trees"):
        save_policy(sample_policies()[name], tmp_path / name)
    return tmp_path


def test_inspect_for_people(run_mlgo, saved: Path) -> None:
    code, out, err = run_mlgo("policy", "inspect", saved / "trees")
    assert (code, err) == (0, "")
    assert "problem      inlining" in out
    assert "1 TreeEnsemble" in out
    assert "TFLite form  model.tflite" in out
    assert "seed         3" in out


def test_inspect_as_json(run_mlgo, saved: Path) -> None:
    code, out, _ = run_mlgo("policy", "inspect", saved / "mlp", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["schema"] == "pymlgo/policy-inspect-1"
    assert found["advice"] == {"name": "inlining_decision", "type": "int64_t", "port": 0, "shape": [1]}
    assert [spec["name"] for spec in found["features"]] == [spec.name for spec in SCALARS]
    assert found["defaults"] == {"switch_penalty": 0}
    assert found["fingerprint"] == sample_policies()["mlp"].graph.fingerprint()


def test_inspect_what_tensorflow_wrote(run_mlgo) -> None:
    code, out, _ = run_mlgo("policy", "inspect", GOLDEN / "eviction", "--json")
    assert code == 0
    assert json.loads(out)["operators"]["BUCKETIZE"] == 3


def test_errors_are_two_lines(run_mlgo, tmp_path: Path) -> None:
    code, out, err = run_mlgo("policy", "inspect", tmp_path)
    assert (code, out) == (1, "")
    assert [line.partition(":")[0] for line in err.splitlines()] == ["error", "hint"]


def test_diff(run_mlgo, saved: Path) -> None:
    code, out, _ = run_mlgo("policy", "diff", saved / "mlp", saved / "mlp")
    assert (code, out) == (0, "same\n")
    code, out, _ = run_mlgo("policy", "diff", saved / "linear", saved / "trees")
    assert "+ feature inlining_default" in out
    assert "! TreeEnsemble: 0 -> 1" in out


def test_diff_counts_decisions_on_a_log(run_mlgo, saved: Path) -> None:
    batch = observations(sample_policies()["mlp"], 40)
    with (saved / "log").open("wb") as stream:
        writer = LogWriter(stream, Header(features=SCALARS))
        for name, count in (("", 25), ("empty", 0), ("f", 15)):
            writer.context(name)
            for index in range(count):
                writer.observation({key: value[index] for key, value in batch.items()})
    code, out, _ = run_mlgo("policy", "diff", saved / "mlp", saved / "linear", "--log", saved / "log", "--json")
    found = json.loads(out)
    assert (code, found["decisions"]) == (0, 40)
    decide = [sample_policies()[name].bind(SCALARS) for name in ("mlp", "linear")]
    rows = [{key: value[index] for key, value in batch.items()} for index in range(40)]
    assert found["equal_decisions"] == sum(bool(decide[0](row) == decide[1](row)) for row in rows)


def test_diff_measures_changed_weights(run_mlgo, saved: Path) -> None:
    from pymlgo.policy.shapes import inlining_policy, linear

    for name, weight in (("a", 1), ("b", 3)):
        save_policy(inlining_policy(SCALARS, linear(np.float32([0, 0, weight, 0]))), saved / name)
    code, out, _ = run_mlgo("policy", "diff", saved / "a", saved / "b")
    assert (code, out) == (0, "! 1 constants, by at most 2\n")


def test_import_and_export(run_mlgo, saved: Path) -> None:
    pytest.importorskip("onnx")
    code, out, _ = run_mlgo("policy", "export", saved / "mlp", saved / "mlp.onnx", "--to", "onnx")
    assert (code, out) == (0, f"{saved / 'mlp.onnx'}\n")
    code, out, _ = run_mlgo("policy", "import", saved / "mlp.onnx", saved / "again", "--json")
    assert code == 0
    assert json.loads(out)["problem"] == "inlining"
    assert load_policy(saved / "again").advice == "inlining_decision"


def test_import_what_tensorflow_wrote(run_mlgo, tmp_path: Path) -> None:
    code, _, _ = run_mlgo("policy", "import", GOLDEN / "inliner", tmp_path / "ours")
    assert code == 0
    code, out, _ = run_mlgo("policy", "diff", GOLDEN / "inliner", tmp_path / "ours")
    assert (code, out) == (0, "same\n")


def test_import_of_a_url_wants_a_checksum(run_mlgo, tmp_path: Path) -> None:
    code, _, err = run_mlgo("policy", "import", "https://example.org/policy.tar.gz", tmp_path / "x")
    assert code == 1
    assert "hint: give --sha256" in err
