"""A compiler's identity is its content and that of the LLVM it loads, hashed once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pymlgo.errors import ToolchainError
from pymlgo.toolchain import identity as identity_module
from pymlgo.toolchain.identity import binary_identity, cache_folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that, says our `ldd`, loads a libLLVM and a libc, both beside it."""
    for name, text in (("clang", "program"), ("libLLVM.so.22.1", "llvm"), ("libc.so.6", "libc")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    ldd = tmp_path / "bin/ldd"
    ldd.parent.mkdir()
    lines = [f"\t{name} => {tmp_path / name} (0x00007f0000000000)" for name in ("libLLVM.so.22.1", "libc.so.6")]
    ldd.write_text("#!/bin/sh\ncat <<EOF\n\tlinux-vdso.so.1 (0x00007f0000000000)\n" + "\n".join(lines) + "\nEOF\n")
    ldd.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ldd.parent}:{os.environ['PATH']}")
    return tmp_path / "clang"


@pytest.mark.spec("toolchain.identity")
def test_it_changes_with_the_program_and_with_its_llvm_and_with_nothing_else(compiler: Path) -> None:
    first = binary_identity(compiler)
    assert len(first) == 64
    os.utime(compiler, (1, 1))
    (compiler.parent / "libc.so.6").write_text("another libc")
    assert binary_identity(compiler) == first
    (compiler.parent / "libLLVM.so.22.1").write_text("llvm!")
    second = binary_identity(compiler)
    assert second != first
    compiler.write_text("program!")
    assert binary_identity(compiler) not in (first, second)


def test_copies_have_one_identity(compiler: Path) -> None:
    copy = compiler.with_name("clang-copy")
    copy.write_bytes(compiler.read_bytes())
    copy.chmod(0o755)
    assert binary_identity(copy) == binary_identity(compiler)


def test_a_known_compiler_is_not_read_again(compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = binary_identity(compiler)

    def unexpected(file: str) -> str:
        raise AssertionError(f"{file} was read")

    monkeypatch.setattr(identity_module, "_digest", unexpected)
    assert binary_identity(compiler) == first


@pytest.mark.parametrize(
    "damage", ["", "{}", '{"identity":"x","files":[["a"]]}', '{"identity":"x","files":[]}', "\xff"]
)
def test_a_damaged_cache_is_made_anew(compiler: Path, cache: Path, damage: str) -> None:
    first = binary_identity(compiler)
    (entry,) = (cache / "pymlgo/identity").iterdir()
    entry.write_bytes(damage.encode("latin-1"))
    assert binary_identity(compiler) == first


def test_an_unwritable_cache_only_makes_it_slow(compiler: Path, cache: Path) -> None:
    cache.write_text("a file where a folder should be")
    assert binary_identity(compiler) == binary_identity(compiler)


def test_another_library_path_is_asked_anew(compiler: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary_identity(compiler)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(compiler.parent))
    binary_identity(compiler)
    assert len(list((cache / "pymlgo/identity").iterdir())) == 2


def test_a_missing_program_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="no program"):
        binary_identity(tmp_path / "nothing")


def test_a_relative_cache_home_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "somewhere")
    assert cache_folder("x") == Path("~/.cache/pymlgo/x").expanduser()


@pytest.mark.llvm
def test_a_wrappers_identity_follows_the_compiler_behind_it(clang22: Path, clang19: Path, tmp_path: Path) -> None:
    link = tmp_path / "behind"
    link.symlink_to(clang22)
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nexec "{link}" "$@"\n')
    wrapper.chmod(0o755)
    first = binary_identity(wrapper)
    assert binary_identity(wrapper) == first
    wrapper.write_text(wrapper.read_text().replace(str(link), str(clang19)))
    assert binary_identity(wrapper) != first


@pytest.mark.llvm
@pytest.mark.spec("toolchain.identity")
def test_real_compilers_are_told_apart_by_their_libraries(clang22: Path, clang19: Path) -> None:
    assert binary_identity(clang22) != binary_identity(clang19)
    files = identity_module._compiler_libraries(str(clang22.resolve()))
    assert any("libLLVM" in file for file in files)
    assert all("libc.so" not in file for file in files)
