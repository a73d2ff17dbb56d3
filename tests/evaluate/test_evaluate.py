"""`mlgo eval` and its API on a corpus that a real clang compiles."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pymlgo.corpus.description import Corpus, Description, write_description
from pymlgo.errors import CorpusError
from pymlgo.evaluate import evaluate
from pymlgo.policy import shipped
from pymlgo.policy.directory import save_policy
from pymlgo.policy.shapes import INLINING_ADVICE, constant_policy, threshold_policy
from pymlgo.rollout import BaselineCache, LocalExecutor, PipesBackend
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.llvm import find_llvm
from tiny_corpus import make_corpus

pytestmark = pytest.mark.llvm

FIXED_FORM = {
    "schema",
    "modules",
    "failed",
    "default_text_bytes",
    "policy_text_bytes",
    "default_berkeley_bytes",
    "policy_berkeley_bytes",
    "text_change_percent",
    "interval95",
    "worst_module",
    "programs",
    "never_worse_change_percent",
}


@pytest.fixture(scope="module")
def corpus(clang22: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(clang22, tmp_path_factory.mktemp("corpus"), projects=2, modules=2)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_default_changes_exactly_nothing(corpus: Corpus, run_mlgo) -> None:
    code, out, _ = run_mlgo("eval", "default", "--corpus", corpus.root, "--backend", "pipes", "--json")
    found = json.loads(out)
    assert code == 0
    assert found.keys() >= FIXED_FORM
    assert found["schema"] == "pymlgo/eval-1"
    assert (found["modules"], found["failed"]) == (4, 0)
    assert found["default_text_bytes"] == found["policy_text_bytes"] > 0
    assert found["default_berkeley_bytes"] == found["policy_berkeley_bytes"]
    assert (found["better"], found["same"], found["worse"]) == (0, 4, 0)
    assert found["changed_decisions"] == 0 < found["decisions"]
    assert found["interval95"] == [0, 0]
    assert found["backend"] == "pipes"


def test_a_policy_is_measured_and_shown(
    corpus: Corpus, tmp_path: Path, run_mlgo, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_policy(constant_policy("inlining", INLINING_ADVICE, 0), tmp_path / "never")
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    code, out, _ = run_mlgo("eval", "never", "--corpus", corpus.root, "--backend", "pipes")
    assert code == 0
    assert out.startswith("never against LLVM's default")
    assert "4 modules:" in out
    assert "p0" in out
    assert "decisions differ from the default" in out


def test_defaults_are_reused_if_asked(corpus: Corpus, clang22: Path, tmp_path: Path) -> None:
    llvm = find_llvm(clang=clang22)
    cache = BaselineCache(tmp_path)
    with LocalExecutor(2) as executor:
        first, second = (
            evaluate(
                threshold_policy(threshold=-20),
                corpus,
                name="t",
                llvm=llvm,
                backend=PipesBackend(llvm=llvm),
                executor=executor,
                cache=cache,
            )
            for _ in range(2)
        )
    assert (first.compiles, second.compiles) == (8, 4)
    assert first.text_change_percent == second.text_change_percent != 0
    assert first.programs == second.programs


def test_a_damaged_module_is_counted_and_decides_the_exit_code(corpus: Corpus, tmp_path: Path, run_mlgo) -> None:
    copy = tmp_path / "corpus"
    shutil.copytree(corpus.root, copy)
    (copy / "p0/m0.bc").write_bytes(b"BC\xc0\xde damaged")
    (copy / "p0/m1.bc").unlink()
    code, out, _ = run_mlgo("eval", "default", "--corpus", copy, "--backend", "pipes", "--json")
    found = json.loads(out)
    assert code == 1
    assert (found["modules"], found["failed"]) == (2, 2)
    assert found["failures"] == {"bad bitcode": 1, "unusable": 1}
    assert "p0/m1" in found["failed_modules"]


def test_an_empty_corpus_is_an_error(tmp_path: Path, run_mlgo) -> None:
    write_description(tmp_path, Description(modules=()))
    code, out, err = run_mlgo("eval", "default", "--corpus", tmp_path, "--json")
    assert (code, out) == (1, "")
    assert "has no modules" in err
    assert "hint:" in err


def test_a_policy_for_other_features_is_an_error(corpus: Corpus, tmp_path: Path, run_mlgo) -> None:
    save_policy(threshold_policy(feature=TensorSpec("phase_of_the_moon", "int64_t", (1,))), tmp_path / "odd")
    code, out, err = run_mlgo("eval", tmp_path / "odd", "--corpus", corpus.root, "--backend", "pipes", "--json")
    assert (code, out) == (1, "")
    assert "phase_of_the_moon" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("eval", "no-such-policy", "--corpus", "."), "there is no policy 'no-such-policy'"),
        (("eval", "default", "--corpus", "no-such-corpus"), "not a corpus"),
        (("eval", "default", "--corpus", ".", "--clang", "no-such-clang"), "not a corpus"),
    ],
)
def test_what_is_missing_is_named(
    arguments: tuple[str, ...], message: str, run_mlgo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run_mlgo(*arguments)
    assert (code, out) == (1, "")
    assert message in err


def test_an_empty_corpus_is_an_error_in_the_api(clang22: Path, tmp_path: Path) -> None:
    llvm = find_llvm(clang=clang22)
    empty = Corpus(root=tmp_path, modules=(), has_thinlto=False, command_override=None, extra={})
    with LocalExecutor(1) as executor, pytest.raises(CorpusError, match="has no modules"):
        evaluate(None, empty, name="default", llvm=llvm, backend=PipesBackend(llvm=llvm), executor=executor)
