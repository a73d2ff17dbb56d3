"""A policy that `mlgo train` wrote decides alike in the interpreter, as a shared object, and in LLVM's templates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from compiled_graphs import assert_same_bits, run_batch
from test_emit_llvm_tree import OBSERVATIONS, check_in_llvm

from pymlgo.emit import compile_policy
from pymlgo.policy.directory import load_policy
from pymlgo.policy.interpreter import evaluate_batch
from pymlgo.runner.release import CompiledModel
from tiny_corpus import make_corpus


@pytest.mark.llvm
def test_a_trained_policy_decides_alike_everywhere(clang22: Path, tmp_path: Path, run_mlgo) -> None:
    corpus = make_corpus(clang22, tmp_path / "corpus", projects=4, modules=3)
    where = ["-o", tmp_path / "policy", "--runs", tmp_path / "runs"]
    plan = ["--max-compiles", 70, "--rounds", 1, "--sweeps", 4, "--backend", "pipes", "--budget", "10m"]
    code, _, err = run_mlgo("train", "--corpus", corpus.root, *where, *plan)
    assert code == 0, err
    policy = load_policy(tmp_path / "policy")
    assert len(policy.graph.outputs) == 2, "nothing was learned: the policy is LLVM's default"

    rng = np.random.default_rng(1)
    inputs = {
        spec.name: rng.integers(0, 2 if spec.name == "inlining_default" else 60, (OBSERVATIONS, 1))
        for spec in policy.graph.inputs
    }
    expected = evaluate_batch(policy.graph, inputs)
    compiled = compile_policy(policy, tmp_path / "policy.so")
    found = run_batch(CompiledModel(compiled.path), inputs, OBSERVATIONS)
    for name, values in expected.items():
        assert_same_bits(found[name], values, name)
    folder = tmp_path / "llvm"
    folder.mkdir()
    check_in_llvm(folder, policy, inputs)
