"""`mlgo deploy`: one flag compiles with a policy; the check proves it or says why not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import llvm_with_plugin, require_tool

from deployed_builds import SOURCE, alien_directory, threshold_directory  # isort: skip

from pymlgo.deploy.check import check_deployment
from pymlgo.deploy.deployment import Deployment, deploy_to_clang_config, read_deployment, remove_deployment
from pymlgo.errors import ConfigError, PolicyError
from pymlgo.toolchain.advisor import overrides_text, read_report
from pymlgo.toolchain.llvm import LLVM

pytestmark = pytest.mark.llvm


@pytest.fixture(scope="module", params=["clang-22", "clang-19"])
def llvm(request: pytest.FixtureRequest) -> LLVM:
    return llvm_with_plugin(str(request.param))


@pytest.fixture(scope="module")
def deployment(llvm: LLVM, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    folder = tmp_path_factory.mktemp("deployed")
    policy = threshold_directory(folder / "policy")
    return deploy_to_clang_config(folder / "here", llvm=llvm, policies=[policy])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "x.c"
    file.write_text(SOURCE)
    return file


def _object(llvm: LLVM, source: Path, *arguments: str, environment: dict[str, str] | None = None) -> bytes:
    output = source.with_suffix(".o")
    command = [llvm.clang, "-Werror", *arguments, "-Oz", "-c", source, "-o", output]
    subprocess.run(command, check=True, env={**os.environ, **(environment or {})})
    return output.read_bytes()


@pytest.mark.spec("deploy.config")
def test_one_flag_compiles_with_the_policy(llvm: LLVM, deployment: Deployment, source: Path, tmp_path: Path) -> None:
    report = tmp_path / "report"
    advised = _object(llvm, source, f"--config={deployment.config}", environment={"PYMLGO_REPORT": str(report)})
    assert advised != _object(llvm, source)
    assert read_report(report.read_text()).problems["inlining"].by_policy > 5


def test_assembler_preprocessor_and_linker_take_the_flag_too(
    llvm: LLVM, deployment: Deployment, source: Path, tmp_path: Path
) -> None:
    assembly = tmp_path / "a.S"
    assembly.write_text(".globl nothing\nnothing: ret\n")
    config = f"--config={deployment.config}"
    for arguments in (["-c", "a.S"], ["-E", "x.c", "-o", "x.i"], ["-S", "x.c"], ["-c", "x.c"], ["x.o", "-o", "x"]):
        subprocess.run([llvm.clang, config, "-Werror", *arguments], check=True, cwd=tmp_path)
    assert (tmp_path / "x").exists()


def test_the_environment_does_it_where_flags_cannot_change(llvm: LLVM, deployment: Deployment, source: Path) -> None:
    by_flag = _object(llvm, source, f"--config={deployment.config}")
    by_environment = _object(llvm, source, environment={"CCC_OVERRIDE_OPTIONS": deployment.override_options})
    assert by_environment == by_flag


def test_the_folder_may_be_moved(llvm: LLVM, deployment: Deployment, source: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved folder"
    shutil.copytree(deployment.folder, moved)
    assert _object(llvm, source, f"--config={moved / 'mlgo.cfg'}") == _object(
        llvm, source, f"--config={deployment.config}"
    )


@pytest.mark.spec("deploy.check")
def test_the_check_proves_that_it_works(deployment: Deployment) -> None:
    check = check_deployment(deployment)
    assert check.works
    assert check.active
    assert check.problems["inlining"].by_policy > 0
    assert check.silent == ()


@pytest.mark.spec("deploy.wrong-llvm")
def test_the_check_explains_another_clang(deployment: Deployment) -> None:
    other = require_tool("clang-19" if deployment.llvm.startswith("22") else "clang-22")
    check = check_deployment(deployment, clang=other)
    assert not check.works
    assert not check.compiled
    assert check.explanation is not None
    assert "each needs its own" in check.explanation


def test_the_check_finds_a_policy_that_is_gone(llvm: LLVM, deployment: Deployment, tmp_path: Path) -> None:
    shutil.copytree(deployment.folder, tmp_path / "broken")
    (tmp_path / "broken/inlining.so").unlink()
    check = check_deployment(read_deployment(tmp_path / "broken"))
    assert check.compiled
    assert not check.works
    assert check.fallbacks


def test_overrides_are_deployed(llvm: LLVM, source: Path, tmp_path: Path) -> None:
    overrides = tmp_path / "decisions"
    overrides.write_text(overrides_text({1: 1, 2: 0}))
    deployment = deploy_to_clang_config(tmp_path / "d", llvm=llvm, overrides=overrides)
    assert _object(llvm, source, f"--config={deployment.config}") == _object(llvm, source)
    assert read_deployment(tmp_path / "d").overrides


def test_nothing_to_deploy(llvm: LLVM, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to deploy"):
        deploy_to_clang_config(tmp_path / "d", llvm=llvm)


def test_two_policies_for_one_problem(llvm: LLVM, tmp_path: Path) -> None:
    one, two = threshold_directory(tmp_path / "one"), threshold_directory(tmp_path / "two", 3)
    with pytest.raises(PolicyError, match="two policies"):
        deploy_to_clang_config(tmp_path / "d", llvm=llvm, policies=[one, two])


def test_what_is_no_policy(llvm: LLVM, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(PolicyError, match="neither a policy directory"):
        deploy_to_clang_config(tmp_path / "d", llvm=llvm, policies=[tmp_path / "text"])


def test_a_folder_that_is_no_deployment_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(ConfigError, match="is no deployment"):
        remove_deployment(tmp_path)
    (tmp_path / "deployment.json").write_text('{"llvm": 3}')
    with pytest.raises(ConfigError, match="damaged"):
        remove_deployment(tmp_path)
    assert (tmp_path / "mine").exists()


def test_the_command_line(llvm: LLVM, tmp_path: Path, run_mlgo) -> None:
    policy = threshold_directory(tmp_path / "policy")
    code, out, _ = run_mlgo("deploy", policy, "--to", "clang-config", tmp_path / "d", "--clang", llvm.clang, "--json")
    assert code == 0
    assert json.loads(out)["schema"] == "pymlgo/deploy-1"
    assert (tmp_path / "d/mlgo.cfg").exists()
    code, out, _ = run_mlgo("deploy", "--check", tmp_path / "d", "--json")
    assert code == 0
    checked = json.loads(out)
    assert checked["schema"] == "pymlgo/deploy-check-1"
    assert checked["works"]
    assert checked["problems"]["inlining"]["by_policy"] > 0
    code, _, err = run_mlgo("deploy", "--check", tmp_path)
    assert code == 2
    assert "is no deployment" in err


def test_a_policy_that_does_not_fit_this_compiler_is_found_by_the_check(llvm: LLVM, tmp_path: Path) -> None:
    deployment = deploy_to_clang_config(tmp_path / "d", llvm=llvm, policies=[alien_directory(tmp_path / "policy")])
    check = check_deployment(deployment)
    assert not check.works
    assert "phase_of_moon" in check.fallbacks[0].reason
    assert check.silent == ("inlining",)


@pytest.mark.spec("deploy.builds")
def test_a_cmake_and_a_make_project_build_unchanged(deployment: Deployment, tmp_path: Path) -> None:
    require_tool("cmake")
    require_tool("make")
    for name in ("one.c", "two.c"):
        (tmp_path / name).write_text(
            SOURCE
            if name == "one.c"
            else SOURCE.replace("main", "other").replace("first", "third").replace("second", "fourth")
        )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(x C)\nadd_executable(x one.c two.c)\n"
    )
    report = tmp_path / "report"
    environment = {**os.environ, "PYMLGO_REPORT": str(report)}
    configure = ["cmake", "-S", ".", "-B", "build", f"-DCMAKE_TOOLCHAIN_FILE={deployment.cmake_toolchain}"]
    subprocess.run([*configure, "-DCMAKE_C_FLAGS=-Oz"], check=True, cwd=tmp_path, capture_output=True)
    subprocess.run(["cmake", "--build", "build"], check=True, cwd=tmp_path, env=environment, capture_output=True)
    assert read_report(report.read_text()).problems["inlining"].by_policy > 10
    report.unlink()
    (tmp_path / "Makefile").write_text("CFLAGS = -Oz\nx: one.o two.o\n\t$(CC) -o $@ $^\n")
    make = ["make", f"CC={deployment.clang} --config={deployment.config}"]
    subprocess.run(make, check=True, cwd=tmp_path, env=environment, capture_output=True)
    assert read_report(report.read_text()).problems["inlining"].by_policy > 10
