"""LLVMs are found where the variable, versioned names and PATH say, newest first."""

from __future__ import annotations

from pathlib import Path

import pytest

from pymlgo.errors import ToolchainError
from pymlgo.toolchain import llvm as llvm_module
from pymlgo.toolchain.llvm import LLVM, find_llvm, find_llvms, llvm_of


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def clang(path: Path, version: str) -> Path:
    return program(path, f"echo 'Debian clang version {version} (1~deb12u1)'")


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is all of PATH, with the variable unset."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{tmp_path / 'missing'}")
    monkeypatch.delenv("PYMLGO_LLVM_DIR", raising=False)
    return folder


def versions() -> list[str]:
    return [each.version_text for each in find_llvms()]


@pytest.mark.spec("toolchain.find")
def test_versioned_names_and_plain_clang_are_found_newest_first(only: Path) -> None:
    clang(only / "clang-9", "9.0.1")
    clang(only / "clang-22", "22.1.8")
    clang(only / "clang", "18.1.3")
    program(only / "clang-format-22", "echo clang version 99.0.0")
    assert versions() == ["22.1.8", "18.1.3", "9.0.1"]
    assert find_llvm().clang == only / "clang-22"
    assert find_llvm(major=18).clang == only / "clang"


def test_two_names_of_one_clang_count_once(only: Path, tmp_path: Path) -> None:
    real = clang(tmp_path / "llvm/bin/clang", "22.1.8")
    (only / "clang").symlink_to(real)
    (only / "clang-22").symlink_to(real)
    assert [each.clang for each in find_llvms()] == [only / "clang-22"]


@pytest.mark.spec("toolchain.find")
@pytest.mark.parametrize("part", ["", "bin"])
def test_the_variable_comes_first_and_names_a_prefix_or_its_bin(
    only: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    clang(only / "clang-22", "22.1.8")
    clang(tmp_path / "opt/llvm/bin/clang", "19.1.7")
    monkeypatch.setenv("PYMLGO_LLVM_DIR", f"{tmp_path / 'nowhere'}:{tmp_path / 'opt/llvm' / part}")
    assert versions() == ["19.1.7", "22.1.8"]
    assert find_llvm().version == (19, 1, 7)
    assert find_llvm(major=22).version == (22, 1, 8)


def test_what_is_no_clang_is_passed_over(only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_module, "VERSION_LIMIT_S", 0.3)
    program(only / "clang-1", "exit 1")
    program(only / "clang-2", "echo gcc 12")
    program(only / "clang-3", "while :; do :; done")
    (only / "clang-4").write_text("clang version 4.0.0")
    (only / "clang-5").mkdir()
    assert find_llvms() == ()


def test_an_upgrade_under_a_running_process_is_seen(only: Path) -> None:
    clang(only / "clang", "18.1.3")
    assert versions() == ["18.1.3"]
    clang(only / "clang", "22.1.10")
    assert versions() == ["22.1.10"]


def test_without_any_clang_the_error_says_what_to_install(only: Path) -> None:
    with pytest.raises(ToolchainError, match="no clang in PYMLGO_LLVM_DIR or PATH; none is installed") as caught:
        find_llvm()
    assert caught.value.hint == "install clang-22, or set PYMLGO_LLVM_DIR to the folder of an LLVM"
    assert caught.value.exit_code == 3


def test_a_missing_release_is_told_with_those_that_are_there(only: Path) -> None:
    clang(only / "clang-14", "14.0.6")
    with pytest.raises(ToolchainError, match=r"no clang of LLVM 22 .* found are 14\.0\.6") as caught:
        find_llvm(major=22)
    assert "install clang-22" in str(caught.value.hint)


def test_a_named_clang_must_be_one_and_of_the_wanted_release(only: Path) -> None:
    clang(only / "my-clang", "22.1.8")
    program(only / "gcc", "echo gcc")
    assert find_llvm(clang="my-clang").clang == only / "my-clang"
    assert llvm_of(only / "my-clang").major == 22
    with pytest.raises(ToolchainError, match=r"is LLVM 22\.1\.8, wanted is 19"):
        find_llvm(clang="my-clang", major=19)
    with pytest.raises(ToolchainError, match="does not say that it is clang"):
        find_llvm(clang="gcc")
    with pytest.raises(ToolchainError, match="no program 'clang-77'"):
        find_llvm(clang="clang-77")


def test_a_tool_is_this_installations(only: Path, tmp_path: Path) -> None:
    real = clang(tmp_path / "llvm/bin/clang", "22.1.8")
    beside = program(tmp_path / "llvm/bin/opt", "")
    (only / "clang-22").symlink_to(real)
    versioned = program(only / "llc-22", "")
    program(only / "llvm-size", "")  # of whichever LLVM: not taken
    found = find_llvm()
    assert found.tool("opt") == beside
    assert found.tool("llc") == versioned
    assert found.tool("llvm-size") is None


def test_a_versioned_tool_is_looked_up_in_path(only: Path, tmp_path: Path) -> None:
    found = LLVM(clang=clang(tmp_path / "llvm/bin/clang", "22.1.8"), version=(22, 1, 8))
    assert found.tool("opt") is None
    assert program(only / "opt-22", "") == found.tool("opt")


@pytest.mark.llvm
def test_the_real_ones_are_found(clang22: Path, clang19: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYMLGO_LLVM_DIR", raising=False)
    majors = [each.major for each in find_llvms()]
    assert majors == sorted(majors, reverse=True)
    assert {22, 19} <= set(majors)
    tool = find_llvm(major=22).tool("llvm-objcopy")
    assert tool is not None
    assert "22" in str(tool.resolve())
