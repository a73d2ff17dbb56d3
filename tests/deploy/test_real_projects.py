"""Projects that the shipped policy has not seen, built by CMake and by make with nothing but `--config=`, shrink."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import llvm_with_plugin, require_tool
from pymlgo.corpus.debian import SourcePackages, os_release
from pymlgo.corpus.objects import object_sizes
from pymlgo.deploy.deployment import Deployment, deploy_to_clang_config
from pymlgo.policy.shipped import shipped_policies
from pymlgo.toolchain.advisor import read_report
from pymlgo.toolchain.llvm import LLVM

pytestmark = [pytest.mark.llvm, pytest.mark.full]

POLICY = "inline-oz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """One build: .text of all objects, and decisions by the policy and by anything else."""

    text_bytes: int
    by_policy: int
    by_others: int


@pytest.fixture(scope="module")
def llvm() -> LLVM:
    return llvm_with_plugin("clang-22")


@pytest.fixture(scope="module")
def deployment(llvm: LLVM, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    if POLICY not in shipped_policies():
        pytest.skip(f"this package has no policy {POLICY}")
    folder = tmp_path_factory.mktemp("deployed") / "here"
    return deploy_to_clang_config(folder, llvm=llvm, policies=[shipped_policies()[POLICY]])


def upstream_source(package: str, folder: Path) -> Path:
    """A project as its authors published it, from the archive of this distribution."""
    require_tool("apt-get")
    if os_release().get("ID") not in ("debian", "ubuntu"):
        pytest.skip("the sources come from Debian's archive")
    SourcePackages.prepare(folder / "apt").fetch(package, None, folder)
    (archive,) = folder.glob("*.orig.tar.*")
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "source", filter="data")
    (top,) = (folder / "source").iterdir()
    return top


def built(commands: list[list[str | Path]], folder: Path) -> Built:
    report = folder / "report"
    for each in commands:
        environment = {**os.environ, "PYMLGO_REPORT": str(report)}
        subprocess.run(each, cwd=folder, env=environment, check=True, capture_output=True)
    advised = read_report(report.read_text() if report.exists() else "").problems.get("inlining")
    return Built(
        text_bytes=sum(object_sizes(each.read_bytes()).text_bytes for each in folder.rglob("*.o")),
        by_policy=advised.by_policy if advised else 0,
        by_others=advised.decisions - advised.by_policy if advised else 0,
    )


def check(plain: Built, advised: Built, record: Callable[[str, object], None]) -> None:
    record("text_bytes", f"{plain.text_bytes} by LLVM's default, {advised.text_bytes} by {POLICY}")
    assert plain.by_policy == 0
    assert advised.by_policy > 100
    assert advised.by_others == 0
    assert advised.text_bytes < plain.text_bytes


@pytest.mark.spec("deploy.builds")
def test_a_cmake_project_in_cxx(
    llvm: LLVM, deployment: Deployment, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    require_tool("cmake")
    source = upstream_source("leveldb", tmp_path / "leveldb")

    def build(name: str, *flags: str) -> Built:
        folder = tmp_path / name
        folder.mkdir()
        switches = [f"-DLEVELDB_BUILD_{each}=OFF" for each in ("TESTS", "BENCHMARKS")]
        compilers = [f"-DCMAKE_C_COMPILER={llvm.clang}", f"-DCMAKE_CXX_COMPILER={llvm.tool('clang++')}"]
        options = [*switches, *compilers, f"-DCMAKE_CXX_FLAGS={' '.join(['-Oz', *flags])}"]
        return built([["cmake", source, *options], ["cmake", "--build", ".", "--target", "leveldb"]], folder)

    check(build("plain"), build("advised", f"--config={deployment.config}"), record_property)


@pytest.mark.spec("deploy.builds")
def test_a_plain_make_project_in_c(
    llvm: LLVM, deployment: Deployment, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    require_tool("make")

    def build(name: str, *flags: str) -> Built:
        source = upstream_source("lua5.4", tmp_path / name)
        compiler = " ".join([str(llvm.clang), *flags])
        return built(
            [["make", "-C", source / "src", "a", f"CC={compiler}", "CFLAGS=-Oz -DLUA_USE_LINUX"]], tmp_path / name
        )

    check(build("plain"), build("advised", f"--config={deployment.config}"), record_property)
