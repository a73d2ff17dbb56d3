"""A statically linked clang is not deployed to, and served over the pipes; the plugin leaves it alone if it can."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import llvm_with_plugin

from deployed_builds import SOURCE, threshold_directory  # isort: skip
from static_clang import build_static_clang  # isort: skip

from pymlgo.deploy.check import check_deployment
from pymlgo.deploy.deployment import Deployment, deploy_to_clang_config
from pymlgo.errors import ToolchainError
from pymlgo.toolchain.llvm import LLVM, find_llvm

pytestmark = [pytest.mark.llvm, pytest.mark.full]


@pytest.fixture(scope="module")
def llvm() -> LLVM:
    return llvm_with_plugin("clang-22")


@pytest.fixture(scope="module")
def deployment(llvm: LLVM, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    folder = tmp_path_factory.mktemp("deployed")
    return deploy_to_clang_config(folder / "here", llvm=llvm, policies=[threshold_directory(folder / "policy")])


@pytest.fixture(scope="module", params=[True, False], ids=["exported", "closed"])
def static_clang(
    request: pytest.FixtureRequest, llvm: LLVM, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, bool]]:
    program = build_static_clang(tmp_path_factory.mktemp("static"), llvm.clang, exported=request.param)
    yield program, request.param
    program.unlink()  # 150 MB


def _object(clang: Path, folder: Path, *flags: str) -> tuple[bytes, str]:
    (folder / "x.c").write_text(SOURCE)
    command = [clang, *flags, "-Oz", "-c", "x.c", "-o", "x.o"]
    done = subprocess.run(command, check=True, cwd=folder, capture_output=True, text=True)
    return (folder / "x.o").read_bytes(), done.stderr


@pytest.mark.spec("deploy.static-clang")
def test_it_is_not_deployed_to(static_clang: tuple[Path, bool], deployment: Deployment, tmp_path: Path) -> None:
    clang, _ = static_clang
    with pytest.raises(ToolchainError, match="linked statically"):
        deploy_to_clang_config(
            tmp_path / "d", llvm=find_llvm(clang=clang), policies=[Path(deployment.policies[0].source)]
        )
    assert not (tmp_path / "d").exists()


@pytest.mark.spec("deploy.static-clang")
def test_a_plugin_that_meets_a_second_llvm_stays_away(
    static_clang: tuple[Path, bool], llvm: LLVM, deployment: Deployment, tmp_path: Path
) -> None:
    clang, exported = static_clang
    if exported:
        pytest.skip("with exported symbols both LLVMs share their global objects, and it may crash when it ends")
    plain, _ = _object(llvm.clang, tmp_path)
    data, said = _object(clang, tmp_path, f"--config={deployment.config}")
    assert data == plain
    assert said == (
        "warning: mlgo: plugin: this compiler has an LLVM of its own, which it does not share; LLVM's default decides\n"
    )
    check = check_deployment(deployment, clang=clang)
    assert not check.works
    assert not check.active
    assert check.explanation is not None
    assert "linked statically" in check.explanation


@pytest.mark.spec("deploy.static-clang")
def test_the_wrapper_of_a_static_clang(
    static_clang: tuple[Path, bool], llvm: LLVM, deployment: Deployment, tmp_path: Path
) -> None:
    # The pipes advise it, to the same object.
    clang, _ = static_clang
    advised, _ = _object(llvm.clang, tmp_path, f"--config={deployment.config}")
    mlgo = Path(sys.executable).with_name("mlgo")
    command = [mlgo, "clang", "--policy", deployment.policies[0].source, "--clang", clang, "--", "-Oz", "-c", "x.c"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "x.o").read_bytes() == advised
