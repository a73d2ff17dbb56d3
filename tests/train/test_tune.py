"""The search per module: never worse, repeatable, replayable."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pymlgo.corpus.description import Corpus, Module
from pymlgo.corpus.objects import object_sizes
from pymlgo.errors import CorpusError
from pymlgo.policy import shipped
from pymlgo.policy.directory import save_policy
from pymlgo.policy.shapes import INLINING_ADVICE, constant_policy, threshold_policy
from pymlgo.rollout import Job, LocalExecutor, Overrides, PipesBackend, PluginBackend, RolloutResult
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.advisor import advisor_plugin, advisor_plugins
from pymlgo.toolchain.llvm import find_llvm
from pymlgo.train.tune import tune
from tiny_corpus import make_corpus, source_text

pytestmark = pytest.mark.llvm


@pytest.fixture(scope="module")
def corpus(clang22: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(clang22, tmp_path_factory.mktemp("corpus"), projects=2, modules=2)


def overrides_in(file: Path) -> dict[int, int]:
    lines = [line.split() for line in file.read_text().splitlines()]
    return {int(key, 16): int(advice) for key, advice in lines}


def test_the_search_finds_smaller_objects_and_is_repeatable(corpus: Corpus, clang22: Path, tmp_path: Path) -> None:
    backend = PipesBackend(llvm=find_llvm(clang=clang22))
    with LocalExecutor(2) as executor:
        first, again = (
            tune(
                corpus.modules,
                tmp_path / f"{name}.overrides",
                backend=backend,
                executor=executor,
                max_compiles=20,
                seed=1,
                each_output=tmp_path / name,
            )
            for name in ("first", "again")
        )
    assert first.modules == again.modules
    assert first.text_change_percent < 0
    assert first.improved > 0
    assert (tmp_path / "first.overrides").read_text() == (tmp_path / "again.overrides").read_text()
    assert len(overrides_in(tmp_path / "first.overrides")) == first.overrides
    for each in first.modules:
        assert each.tuned_text_bytes <= each.default_text_bytes
        assert each.merged_text_bytes <= each.default_text_bytes
        assert each.compiles <= 20
        file = f"{each.name}.overrides"
        assert len(overrides_in(tmp_path / "first" / file)) == each.overrides
        assert (tmp_path / "first" / file).read_text() == (tmp_path / "again" / file).read_text()


def test_the_command_line_tunes_and_one_file_is_replayed_for_all_modules(
    corpus: Corpus, clang22: Path, tmp_path: Path, run_mlgo
) -> None:
    code, out, _ = run_mlgo(
        *("tune", "--corpus", corpus.root, "--max-compiles", "8", "-o", tmp_path / "o"),
        *("--modules", "^p0/", "--backend", "pipes", "--each", tmp_path / "each", "--json"),
    )
    found = json.loads(out)
    assert code == 0
    assert found["schema"] == "pymlgo/tune-1"
    assert [each["name"] for each in found["modules"]] == ["p0/m0", "p0/m1"]
    llvm = find_llvm(clang=clang22)
    if llvm.major not in advisor_plugins():
        pytest.skip("no advisor plugin for LLVM 22 is installed")
    backend = PluginBackend(llvm=llvm, plugin=advisor_plugin(llvm))

    def replayed(module: Module, overrides: Path) -> int:
        recorded = backend.run(Job(module=module, record=True, names=True))
        assert isinstance(recorded, RolloutResult)
        assert recorded.trajectory is not None
        overrides = Overrides(advice=overrides_in(overrides), recorded=recorded.trajectory)
        result = backend.run(Job(module=module, overrides=overrides))
        assert isinstance(result, RolloutResult)
        return result.sizes.text_bytes

    for module, each in zip(corpus.modules, found["modules"], strict=False):
        assert replayed(module, tmp_path / f"each/{module.name}.overrides") == each["tuned_text_bytes"]
        assert replayed(module, tmp_path / "o") == each["merged_text_bytes"] <= each["default_text_bytes"]


def test_the_search_may_begin_with_a_policy(corpus: Corpus, clang22: Path, tmp_path: Path) -> None:
    backend = PipesBackend(llvm=find_llvm(clang=clang22))
    with LocalExecutor(2) as executor:
        alone, led = (
            tune(
                corpus.modules,
                tmp_path / "o",
                backend=backend,
                executor=executor,
                max_compiles=3,
                seed=1,
                start=start,
            )
            for start in (None, constant_policy("inlining", INLINING_ADVICE, 0))
        )
    # Three compiles are the default, the policy, and the policy's decisions as overrides where they were better.
    assert all(each.tuned_text_bytes <= each.default_text_bytes for each in led.modules)
    assert [each.default_text_bytes for each in led.modules] == [each.default_text_bytes for each in alone.modules]
    assert led.tuned_text_bytes != alone.tuned_text_bytes


def test_bad_input_is_named(corpus: Corpus, clang22: Path, tmp_path: Path, run_mlgo) -> None:
    base = ("tune", "--corpus", corpus.root, "-o", tmp_path / "o")
    code, _, err = run_mlgo(*base, "--from", "no-such-policy")
    assert (code, "there is no policy 'no-such-policy'" in err) == (1, True)
    (tmp_path / "file").touch()
    code, _, err = run_mlgo("tune", "--corpus", corpus.root, "-o", tmp_path / "file/o")
    assert (code, "cannot be made" in err) == (1, True)
    code, _, err = run_mlgo("tune", "--corpus", corpus.root, "-o", tmp_path)
    assert (code, "is a folder" in err) == (2, True)
    assert run_mlgo(*base, "--max-compiles", "1")[0] == 2
    code, _, err = run_mlgo(*base, "--modules", "(")
    assert code == 2
    assert "regular expression" in err
    code, _, err = run_mlgo(*base, "--modules", "nothing-like-it")
    assert code == 1
    assert re.search("no modules to tune", err)
    backend = PipesBackend(llvm=find_llvm(clang=clang22))
    with LocalExecutor(1) as executor, pytest.raises(CorpusError):
        tune([], tmp_path / "o", backend=backend, executor=executor, max_compiles=3, seed=1)


def test_a_module_that_does_not_compile_is_counted(corpus: Corpus, clang22: Path, tmp_path: Path, run_mlgo) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(corpus.root, copy)
    (copy / "p0/m0.bc").write_bytes(b"BC\xc0\xde damaged")
    (copy / "p0/m1.bc").unlink()
    code, out, _ = run_mlgo(
        "tune", "--corpus", copy, "-o", tmp_path / "o", "--max-compiles", "2", "--backend", "pipes", "--json"
    )
    found = json.loads(out)
    assert code == 1
    assert found["failed"] == 2
    assert found["failed_modules"]["p0/m1"].startswith("unusable")
    assert found["failed_modules"]["p0/m0"].startswith("bad bitcode")
    assert [each["name"] for each in found["modules"]] == ["p1/m0", "p1/m1"]


def test_the_file_works_in_the_build_of_a_project(
    corpus: Corpus, clang22: Path, tmp_path: Path, run_mlgo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    llvm = find_llvm(clang=clang22)
    if llvm.major not in advisor_plugins():
        pytest.skip("no advisor plugin for LLVM 22 is installed")
    code, out, _ = run_mlgo("tune", "--corpus", corpus.root, "--max-compiles", "12", "-o", tmp_path / "o", "--json")
    found = json.loads(out)
    assert (code, found["improved"] > 0) == (0, True)
    sizes = {}
    for module in corpus.modules:
        source = tmp_path / f"{Path(module.name).name}.c"
        source.write_text(source_text(random.Random(f"1 {module.name}")))
        for kind, command in (
            ("plain", [clang22]),
            (
                "tuned",
                [
                    Path(sys.executable).with_name("mlgo"),
                    "clang",
                    "--overrides",
                    tmp_path / "o",
                    "--clang",
                    clang22,
                    "--",
                ],
            ),
        ):
            output = tmp_path / f"{kind}.o"
            subprocess.run([*command, "-Oz", "-fPIC", "-w", "-c", source, "-o", output], check=True)
            sizes[module.name, kind] = object_sizes(output.read_bytes()).text_bytes
    assert all(sizes[module.name, "tuned"] <= sizes[module.name, "plain"] for module in corpus.modules)
    saved = sum(sizes[module.name, "plain"] - sizes[module.name, "tuned"] for module in corpus.modules)
    assert saved == found["default_text_bytes"] - found["merged_text_bytes"] > 0


def test_the_search_begins_with_the_packages_policy_where_the_backend_has_its_features(
    corpus: Corpus, clang22: Path, tmp_path: Path, run_mlgo, monkeypatch: pytest.MonkeyPatch
) -> None:
    if 22 not in advisor_plugins():
        pytest.skip("no advisor plugin for LLVM 22 is installed")
    moon = TensorSpec("phase_of_the_moon", "int64_t", (1,))
    save_policy(threshold_policy(feature=moon), tmp_path / "policies/inline-oz")
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "policies")

    def tune_with(*arguments: str) -> tuple[int, bool]:
        code, _, err = run_mlgo(
            *("tune", "--corpus", corpus.root, "--modules", "^p0/m0", "--clang", clang22, "--max-compiles", "2"),
            *("-o", tmp_path / "o", *arguments),
        )
        return code, moon.name in err

    assert tune_with("--backend", "plugin") == (1, True)
    assert tune_with("--backend", "plugin", "--from", "default") == (0, False)
    assert tune_with("--backend", "pipes") == (0, False)
