"""Whatever is wrong, through the wrapper a build succeeds or fails as without us, with one line that says why."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import llvm_with_plugin, require_tool

from deployed_builds import SOURCE, alien_directory, threshold_directory  # isort: skip

from pymlgo.deploy.check import check_deployment
from pymlgo.deploy.deployment import Deployment, deploy_to_clang_config, read_deployment
from pymlgo.toolchain.advisor import overrides_text
from pymlgo.toolchain.llvm import LLVM

pytestmark = [pytest.mark.llvm, pytest.mark.spec("deploy.wrapper-falls-back")]


@pytest.fixture(scope="module")
def llvm() -> LLVM:
    return llvm_with_plugin("clang-22")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return threshold_directory(tmp_path_factory.mktemp("policies") / "policy")


@pytest.fixture
def build(tmp_path: Path) -> Path:
    (tmp_path / "x.c").write_text(SOURCE)
    return tmp_path


def advised(build: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(build / "cache")}
    command = [Path(sys.executable).with_name("mlgo"), "clang", *words]
    return subprocess.run(command, cwd=build, env=environment, capture_output=True, text=True, timeout=300)


def plain(clang: Path, build: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([clang, *arguments], cwd=build, capture_output=True, text=True)


def assert_as_without_us(clang: Path, build: Path, *words: str | Path) -> str:
    """Compile both ways to the same object; the line that says why."""
    compile_it = ("-Oz", "-c", "x.c", "-o", "x.o")
    assert plain(clang, build, *compile_it).returncode == 0
    expected = (build / "x.o").read_bytes()
    (build / "x.o").unlink()
    done = advised(build, *words, "--clang", clang, "--", *compile_it)
    assert done.returncode == 0, done.stderr
    assert (build / "x.o").read_bytes() == expected
    (line,) = done.stderr.splitlines()
    assert line.startswith("mlgo: compiling without advice: ")
    return line


def _without_plugin(deployment: Deployment) -> None:
    (plugin,) = deployment.folder.glob("pymlgo-advisor-*.so")
    plugin.unlink()


def _damaged_plugin(deployment: Deployment) -> None:
    (plugin,) = deployment.folder.glob("pymlgo-advisor-*.so")
    plugin.write_bytes(b"\x7fELF")


def _without_config(deployment: Deployment) -> None:
    deployment.config.unlink()


def _damaged_config(deployment: Deployment) -> None:
    deployment.config.write_text("-fno-such-option\n")


def _damaged_description(deployment: Deployment) -> None:
    (deployment.folder / "deployment.json").write_text("{")


def _without_policy(deployment: Deployment) -> None:
    (deployment.folder / "inlining.so").unlink()


def _alien_library(deployment: Deployment) -> None:
    subprocess.run(["g++", "-shared", "-x", "c++", "/dev/null", "-o", deployment.folder / "inlining.so"], check=True)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_without_plugin, "unable to load plugin"),
        (_damaged_plugin, "check that the plugin's path is absolute"),
        (_without_config, "configuration file"),
        (_damaged_config, "unknown argument"),
        (_damaged_description, "is damaged, or of another version"),
        (_without_policy, "cannot be loaded"),
        (_alien_library, "does not export mlgo_abi_version"),
    ],
)
def test_a_damaged_deployment(
    llvm: LLVM, policy: Path, build: Path, damage: Callable[[Deployment], None], said: str
) -> None:
    deployment = deploy_to_clang_config(build / "d", llvm=llvm, policies=[policy])
    damage(deployment)
    why = assert_as_without_us(llvm.clang, build, "--policy", deployment.folder)
    assert "no policy directory" not in why
    if damage is not _damaged_description:
        check = check_deployment(read_deployment(deployment.folder))
        assert not check.works
        told = " ".join((check.message, check.explanation or "", *(each.reason for each in check.fallbacks)))
        assert said in told


def test_a_deployment_for_another_llvm(llvm: LLVM, policy: Path, build: Path) -> None:
    older = llvm_with_plugin("clang-19")
    deployment = deploy_to_clang_config(build / "d", llvm=older, policies=[policy])
    assert "each needs its own" in assert_as_without_us(llvm.clang, build, "--policy", deployment.folder)


def test_a_clang_that_there_is_no_plugin_and_no_channel_for(policy: Path, build: Path) -> None:
    assert_as_without_us(require_tool("clang-14"), build, "--policy", policy)


def test_overrides_that_are_none(llvm: LLVM, build: Path) -> None:
    (build / "overrides").write_text("nonsense\n")
    assert "line 1" in assert_as_without_us(llvm.clang, build, "--overrides", build / "overrides")


def test_a_policy_of_a_feature_that_no_compiler_sends(llvm: LLVM, build: Path) -> None:
    assert "phase_of_moon" in assert_as_without_us(llvm.clang, build, "--policy", alien_directory(build / "alien"))


@pytest.mark.parametrize("case", ["-O0", "nothing to decide", "overrides that match nothing"])
def test_nothing_is_said_where_nothing_is_wrong(llvm: LLVM, policy: Path, build: Path, case: str) -> None:
    level = "-O0" if case == "-O0" else "-Oz"
    advice: tuple[str | Path, ...] = ("--policy", policy)
    if case == "nothing to decide":
        (build / "x.c").write_text("int lonely(int x) { return x + 1; }\n")
    if case.startswith("overrides"):
        (build / "overrides").write_text(overrides_text({1: 1}))
        advice = ("--overrides", build / "overrides")
    compile_it = (level, "-c", "x.c", "-o", "x.o")
    plain(llvm.clang, build, *compile_it)
    expected = (build / "x.o").read_bytes()
    for _ in range(2):  # the long way, then the short one
        done = advised(build, *advice, "--clang", llvm.clang, "--", *compile_it)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert (build / "x.o").read_bytes() == expected


@pytest.mark.parametrize("crash", ["crash", "llvm_fatal_error"])
def test_a_compiler_that_crashes_by_itself_fails_as_without_us(
    llvm: LLVM, policy: Path, build: Path, crash: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLVM_DISABLE_SYMBOLIZATION", "1")
    (build / "x.c").write_text(f"int f(void);\n#pragma clang __debug {crash}\n")
    compile_it = ("-Oz", "-c", "x.c", "-o", "x.o", "-fno-crash-diagnostics")
    expected = plain(llvm.clang, build, *compile_it)
    assert expected.returncode not in (0, 1) or crash == "llvm_fatal_error"
    done = advised(build, "--policy", policy, "--clang", llvm.clang, "--", *compile_it)
    assert done.returncode == expected.returncode
    assert not (build / "x.o").exists()
