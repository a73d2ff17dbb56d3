"""`mlgo policy compile`, `export` and `bench` through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from compiled_graphs import small_eviction

from pymlgo.policy.directory import save_policy
from pymlgo.policy.shapes import threshold_policy
from pymlgo.runner.release import CompiledModel


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    save_policy(threshold_policy(), tmp_path / "rule")
    return tmp_path / "rule"


def test_compile_writes_a_shared_object(run_mlgo, directory: Path, tmp_path: Path) -> None:
    output, source = tmp_path / "rule.so", tmp_path / "rule.cpp"
    code, out, err = run_mlgo("policy", "compile", directory, "-o", output, "--keep-source", source)
    assert (code, out) == (0, f"{output}\n")
    assert "s to compile with" in err
    assert "model_0" in source.read_text()
    assert CompiledModel(output).problem == "inlining"


def test_compile_takes_several_policies(run_mlgo, directory: Path, tmp_path: Path) -> None:
    save_policy(threshold_policy(threshold=9), tmp_path / "other")
    code, out, _ = run_mlgo(
        "policy", "compile", directory, "-o", tmp_path / "both.so", "--add", f"bold={tmp_path / 'other'}", "--json"
    )
    assert code == 0
    assert json.loads(out)["models"] == ["rule", "bold"]
    code, _, err = run_mlgo("policy", "compile", directory, "-o", tmp_path / "x.so", "--add", f"rule={directory}")
    assert code == 1
    assert "error: two policies are called 'rule'" in err
    code, _, err = run_mlgo("policy", "compile", directory, "-o", tmp_path / "x.so", "--add", "bold")
    assert code == 1
    assert "expected NAME=DIR" in err


def test_compile_without_a_compiler(run_mlgo, directory: Path, tmp_path: Path) -> None:
    code, out, err = run_mlgo("policy", "compile", directory, "-o", tmp_path / "x.so", "--cxx", "no-such-compiler")
    assert (code, out) == (3, "")
    assert "error: the C++ compiler 'no-such-compiler' is not there\nhint: name one" in err


def test_outputs_that_cannot_be_written(run_mlgo, directory: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, _, err = run_mlgo("policy", "compile", directory, "-o", directory)
    assert (code, err) == (1, f"error: {directory} cannot be written: Is a directory\n")
    code, _, err = run_mlgo("policy", "export", directory, "--to", "emitc", tmp_path / "file")
    assert code == 1
    assert "file/InlinerSizeEmitCModel.h cannot be written: " in err


def test_export_to_an_llvm_tree_says_the_lines(run_mlgo, directory: Path, tmp_path: Path) -> None:
    code, out, err = run_mlgo("policy", "export", directory, "--to", "llvm-release", tmp_path / "out")
    assert code == 0
    assert f"-DLLVM_OVERRIDE_MODEL_HEADER_INLINERSIZEMODEL={tmp_path}/out/InlinerSizeModel.h" in out
    assert "-DLLVM_RAEVICT_MODEL_PATH=none" in out
    assert "tf_xla_runtime" in err
    assert "-enable-ml-inliner=release" in err
    assert f"-ml-inliner-model-under-training={directory}" in err
    save_policy(small_eviction(np.random.default_rng(1), registers=3), tmp_path / "evict")
    code, out, _ = run_mlgo("policy", "export", tmp_path / "evict", "--to", "llvm-release", tmp_path / "out", "--json")
    assert code == 0
    assert json.loads(out)["release"]["class_name"] == "RegAllocEvictModel"
    assert any("HEADER_INLINERSIZEMODEL" in each for each in json.loads(out)["release"]["cmake"])


def test_export_the_emitc_class(run_mlgo, directory: Path, tmp_path: Path) -> None:
    code, out, _ = run_mlgo("policy", "export", directory, "--to", "emitc", tmp_path, "--class-name", "Rule")
    assert (code, out) == (0, f"{tmp_path / 'Rule.h'}\n")
    assert "class Rule {" in (tmp_path / "Rule.h").read_text()


def test_bench_prints_each_backend(run_mlgo, directory: Path) -> None:
    code, out, _ = run_mlgo("policy", "bench", directory, "--observations", "20", "--json")
    assert code == 0
    printed = json.loads(out)
    assert printed["schema"] == "pymlgo/policy-bench-1"
    assert {"compiled, a batch", "interpreter, one by one"} <= {each["backend"] for each in printed["backends"]}
    assert all(each["equal_decisions"] == 1 for each in printed["backends"])
    code, _, err = run_mlgo("policy", "bench", directory, "--observations", "0")
    assert code == 2
    assert "--observations must be at least 1" in err
