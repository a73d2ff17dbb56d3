"""Distillation: a small policy agrees with the large one, and what is lost is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pymlgo.corpus.description import Corpus
from pymlgo.errors import ConfigError, CorpusError, PolicyError
from pymlgo.policy.directory import load_policy, save_policy
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import (
    COST_ESTIMATE,
    InliningRule,
    inlining_policy,
    linear,
    random_layers,
    threshold_policy,
)
from pymlgo.rollout import LocalExecutor, PipesBackend
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.llvm import find_llvm
from pymlgo.train.distil import distil
from tiny_corpus import make_corpus

pytestmark = pytest.mark.llvm

FEATURES = (COST_ESTIMATE, TensorSpec("callee_basic_block_count", "int64_t", (1,)))


@pytest.fixture(scope="module")
def corpus(clang22: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(clang22, tmp_path_factory.mktemp("corpus"), projects=4, modules=3)


def teacher() -> Policy:
    """Inlines what costs less than about 30, and is sure of it only away from there."""
    weights = np.array([-0.5, 0.0], np.float32)
    rule = InliningRule(margin=2.0, default="inlining_default")
    return inlining_policy(FEATURES, linear(weights, bias=15.0), rule=rule)


@pytest.mark.parametrize("shape", ["small-trees", "mlp"])
def test_a_small_policy_agrees_with_the_large_one(
    shape: str, corpus: Corpus, clang22: Path, tmp_path: Path, run_mlgo
) -> None:
    save_policy(teacher(), tmp_path / "teacher")
    code, out, _ = run_mlgo(
        *("policy", "distil", tmp_path / "teacher", "--corpus", corpus.root, "--shape", shape),
        *("--backend", "pipes", "-o", tmp_path / "student", "--clang", clang22, "--json"),
    )
    found = json.loads(out)
    assert code == 0
    assert found["schema"] == "pymlgo/policy-distil-1"
    assert found["by_project"]
    assert found["held_out"] >= 3
    assert found["agreement_percent"] > 80
    assert found["departures_agreement_percent"] > 50
    assert found["teacher_text_bytes"] != found["default_text_bytes"] > 0
    assert found["compiles"] == 12 + 2 * found["held_out"]
    student = load_policy(tmp_path / "student")
    assert {spec.name for spec in student.graph.inputs} >= {spec.name for spec in FEATURES}
    assert student.provenance["teacher"]["fingerprint"] == teacher().graph.fingerprint()


def test_people_are_told_what_is_lost(corpus: Corpus, clang22: Path, tmp_path: Path, run_mlgo) -> None:
    save_policy(teacher(), tmp_path / "teacher")
    code, out, _ = run_mlgo(
        *("policy", "distil", tmp_path / "teacher", "--corpus", corpus.root, "--backend", "pipes"),
        *("-o", tmp_path / "student", "--clang", clang22),
    )
    assert code == 0
    assert "of decisions agree" in out
    assert "instead of" in out


def test_what_cannot_be_distilled_is_named(corpus: Corpus, clang22: Path, tmp_path: Path) -> None:
    llvm = find_llvm(clang=clang22)
    vector = TensorSpec("callee_embedding", "float", (3,))
    cases: list[tuple[Policy, str, type[Exception], str]] = [
        (threshold_policy(), "small-trees", PolicyError, "no scores"),
        (inlining_policy([vector], linear(np.ones(3, np.float32))), "mlp", PolicyError, "callee_embedding"),
        (teacher(), "forest", ConfigError, "unknown shape 'forest'"),
    ]
    with LocalExecutor(1) as executor:
        for policy, shape, error, message in cases:
            with pytest.raises(error, match=message):
                distil(
                    policy,
                    corpus.modules,
                    tmp_path / "o",
                    shape=shape,
                    llvm=llvm,
                    backend=PipesBackend(llvm=llvm),
                    executor=executor,
                    seed=1,
                )
        with pytest.raises(CorpusError, match="needs two"):
            distil(
                teacher(),
                corpus.modules[:1],
                tmp_path / "o",
                shape="mlp",
                llvm=llvm,
                backend=PipesBackend(llvm=llvm),
                executor=executor,
                seed=1,
            )
    assert not (tmp_path / "o").exists()


def test_logits_are_scores_too(corpus: Corpus, clang22: Path, tmp_path: Path) -> None:
    layers = random_layers((2, 4, 2), np.random.default_rng(1))
    llvm = find_llvm(clang=clang22)
    with LocalExecutor(2) as executor:
        found = distil(
            inlining_policy(FEATURES, layers),
            corpus.modules,
            tmp_path / "o",
            shape="small-trees",
            llvm=llvm,
            backend=PipesBackend(llvm=llvm),
            executor=executor,
            seed=1,
        )
    assert found.agreement_percent > 80
