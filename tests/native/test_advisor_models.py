"""What policies may ask the plugin for beside LLVM's scalar features: IR2Vec embeddings, and one model of several."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from conftest import llvm_with_plugin
from pymlgo.embed.shipped import FOLDER, SHIPPED
from pymlgo.emit import compile_policy
from pymlgo.emit.compiled import compile_policies
from pymlgo.policy.builder import GraphBuilder
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import threshold_policy
from pymlgo.problem import INLINING
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.flags import ir2vec_feature_flags, mllvm
from pymlgo.toolchain.llvm import LLVM
from pymlgo.training_log import read_log

from advised_compiles import (  # isort: skip
    ADVICE,
    calls_source,
    compile_advised,
    compile_plain,
    compile_through_pipes,
)

pytestmark = pytest.mark.llvm

VOCABULARY = FOLDER / SHIPPED["ir"]
NAMES = ("callee_embedding", "caller_embedding")


def embedding_policy() -> Policy:
    """Inlines where the callee's embedding, weighed, lies under the caller's."""
    make = GraphBuilder()
    callee, caller = (make.input(TensorSpec(name, "float", (75,))).reshape(1, 75) for name in NAMES)
    weights = np.random.default_rng(3).normal(size=(75, 1)).astype(np.float32)
    score = make.dense(callee * 4.0 - caller, weights, np.zeros(1, np.float32)).reshape(1)
    make.output(ADVICE, (score > 0.0).cast("int64_t"))
    return Policy(problem="inlining", graph=make.build(), advice=ADVICE)


@pytest.fixture(scope="module")
def llvm() -> LLVM:
    return llvm_with_plugin("clang-22")


@pytest.fixture(scope="module")
def embedding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_policy(embedding_policy(), tmp_path_factory.mktemp("policies") / "embedding.so").path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "calls.c"
    file.write_text(calls_source())
    return file


@pytest.mark.spec("deploy.embeddings")
def test_a_policy_that_takes_embeddings_decides_as_through_the_pipes(
    llvm: LLVM, embedding: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted, data = compile_through_pipes(
        llvm, INLINING, embedding_policy(), source, "-Oz", *ir2vec_feature_flags(llvm, VOCABULARY)
    )
    assert hosted.decisions > 5
    by_llvms_options = compile_advised(
        llvm, source, "-Oz", *ir2vec_feature_flags(llvm, VOCABULARY), policies=(embedding,)
    )
    monkeypatch.setenv("PYMLGO_VOCABULARY", str(VOCABULARY))
    by_ours = compile_advised(llvm, source, "-Oz", policies=(embedding,), log=tmp_path)
    for done in (by_llvms_options, by_ours):
        assert (done.returncode, done.stderr) == (0, "")
        advised = done.report.problems["inlining"]
        assert advised.by_policy == advised.decisions == hosted.decisions
        assert 0 < advised.inlined < advised.decisions
        assert done.data == data
    (file,) = tmp_path.glob("inlining-*.log")
    (context,) = read_log(file).contexts
    for name in NAMES:
        assert context.features[name].shape == (hosted.decisions, 75)
        assert np.abs(context.features[name]).max() > 0


@pytest.mark.spec("deploy.embeddings")
@pytest.mark.parametrize("vocabulary", [None, "missing", "damaged"])
def test_without_a_vocabulary_llvms_default_decides(
    llvm: LLVM, embedding: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: str | None
) -> None:
    (tmp_path / "damaged").write_text("{")
    if vocabulary:
        monkeypatch.setenv("PYMLGO_VOCABULARY", str(tmp_path / vocabulary))
    done = compile_advised(llvm, source, "-Oz", policies=(embedding,))
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("warning: mlgo: inlining: there is no vocabulary for embeddings: ")
    assert done.data == compile_plain(llvm, source, "-Oz")


def test_clang_19_has_no_embeddings(embedding: Path, source: Path) -> None:
    older = llvm_with_plugin("clang-19")
    done = compile_advised(older, source, "-Oz", policies=(embedding,))
    assert "wants embeddings, which came with LLVM 22; LLVM's default decides" in done.stderr
    assert done.data == compile_plain(older, source, "-Oz")


def test_features_that_only_llvm_wants_do_no_harm(llvm: LLVM, source: Path, tmp_path: Path) -> None:
    # LLVM's advisor then writes embeddings and the default beside what this policy takes.
    policy = compile_policy(threshold_policy(threshold=40), tmp_path / "threshold.so").path
    plain = compile_advised(llvm, source, "-Oz", policies=(policy,))
    more = (*ir2vec_feature_flags(llvm, VOCABULARY), *mllvm(["-inliner-interactive-include-default"]))
    done = compile_advised(llvm, source, "-Oz", *more, policies=(policy,))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.data == plain.data


@pytest.mark.spec("deploy.multiple-models")
def test_llvms_selector_picks_a_model(llvm: LLVM, source: Path, tmp_path: Path) -> None:
    models = {"small": threshold_policy(threshold=-50), "fast": threshold_policy(threshold=200)}
    both = compile_policies(models, tmp_path / "both.so", name="both").path
    for name, policy in models.items():
        alone = compile_policy(policy, tmp_path / f"{name}.so").path
        expected = compile_advised(llvm, source, "-Oz", policies=(alone,))
        done = compile_advised(llvm, source, "-Oz", *mllvm([f"-ml-inliner-model-selector={name}"]), policies=(both,))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.data == expected.data
        assert done.report.problems["inlining"].by_policy > 20
    for selector, said in ((None, "name one with -mllvm -ml-inliner-model-selector=NAME"), ("slow", "names no policy")):
        flags = mllvm([f"-ml-inliner-model-selector={selector}"]) if selector else ()
        done = compile_advised(llvm, source, "-Oz", *flags, policies=(both,))
        assert done.returncode == 0
        assert said in done.stderr
        assert done.data == compile_plain(llvm, source, "-Oz")
