"""The texts of stock clang that users meet are explained; each is provoked from a real clang."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from pymlgo.toolchain.flags import mllvm
from pymlgo.toolchain.messages import explain
from pymlgo.toolchain.process import run

SOURCE = "static int f(int x) { return x * x; }\nint g(int x) { return f(x) + f(x + 1); }\n"


def stderr_of(clang: Path, folder: Path, flags: Sequence[str]) -> str:
    (folder / "x.c").write_text(SOURCE)
    done = run([clang, "-O2", "-c", folder / "x.c", "-o", folder / "x.o", *flags], limit_s=60)
    assert done.returncode != 0
    return done.stderr.decode()


@pytest.mark.llvm
@pytest.mark.spec("toolchain.messages")
@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (["-enable-ml-inliner=release"], "no built-in inliner model"),
        (["-enable-ml-inliner=development"], "no built-in inliner model"),
        (["-regalloc-enable-advisor=release"], "no built-in register allocation model"),
        (["-regalloc-enable-priority-advisor=release"], "no built-in register allocation model"),
        (["-regalloc-evict-advisor=release"], "the option is -regalloc-enable-advisor"),
        (["-training-log=x"], "built with TFLite"),
        (["-ml-inliner-model-under-training=x"], "built with TFLite"),
        (["-regalloc-model=x"], "built with TFLite"),
        (["-mlgo-model=x"], "the advisor plugin is not loaded"),
        (["-enable-ml-inliner=release", "-inliner-interactive-channel-base=/nonexistent/x"], "is not there"),
    ],
)
def test_a_message_of_a_real_clang_is_explained(clang: Path, tmp_path: Path, options: list[str], hint: str) -> None:
    assert hint in str(explain(stderr_of(clang, tmp_path, mllvm(options))))


@pytest.mark.llvm
def test_ir2vec_options_are_explained_on_both_releases(clang22: Path, clang19: Path, tmp_path: Path) -> None:
    channel = ["-enable-ml-inliner=release", f"-inliner-interactive-channel-base={tmp_path}/c"]
    (tmp_path / "c.in").symlink_to("/dev/zero")
    flags = mllvm([*channel, "-ml-inliner-ir2vec-vocab-file=/x"])
    assert "give both options" in str(explain(stderr_of(clang22, tmp_path, flags)))
    assert "use LLVM 22" in str(explain(stderr_of(clang19, tmp_path, flags)))


@pytest.mark.llvm
def test_an_old_clang_without_channel_is_explained(clang14: Path, tmp_path: Path) -> None:
    flags = mllvm(["-inliner-interactive-channel-base=/x"])
    assert "came with LLVM 17" in str(explain(stderr_of(clang14, tmp_path, flags)))


@pytest.mark.llvm
def test_plugins_that_do_not_load_are_explained(clang22: Path, clang19: Path, tmp_path: Path) -> None:
    assert "path is absolute" in str(explain(stderr_of(clang22, tmp_path, ["-fpass-plugin=/nonexistent.so"])))
    from pymlgo.toolchain.plugin_probe import _PLUGIN

    (tmp_path / "p.c").write_text(_PLUGIN)
    build = [clang22, "-O1", "-fPIC", "-shared", "-nostdlib", "-DVERSION=1", tmp_path / "p.c", "-o", tmp_path / "p.so"]
    subprocess.run(build, check=True)
    text = stderr_of(clang22, tmp_path, [f"-fpass-plugin={tmp_path}/p.so"])
    assert "built for another LLVM release" in str(explain(text))


@pytest.mark.llvm
def test_bitcode_of_a_newer_llvm_is_explained(clang22: Path, clang19: Path, tmp_path: Path) -> None:
    (tmp_path / "y.c").write_text("void sink(int *); void h(void) { int x[4]; sink(x); }\n")
    run([clang22, "-O1", "-emit-llvm", "-c", tmp_path / "y.c", "-o", tmp_path / "y.bc"], limit_s=60)
    done = run([clang19, "-c", "-x", "ir", tmp_path / "y.bc", "-o", tmp_path / "y.o"], limit_s=60)
    assert done.returncode != 0
    assert "from a newer LLVM" in str(explain(done.stderr.decode()))


@pytest.mark.llvm
def test_what_is_no_bitcode_is_explained(clang22: Path, tmp_path: Path) -> None:
    (tmp_path / "y.bc").write_bytes(b"BC\xc0\xde" + b"nothing of the kind")
    done = run([clang22, "-c", "-x", "ir", tmp_path / "y.bc", "-o", tmp_path / "y.o"], limit_s=60)
    assert done.returncode != 0
    assert "damaged" in str(explain(done.stderr.decode()))


def test_an_ordinary_error_is_not_explained() -> None:
    assert explain("x.c:1:1: error: unknown type name 'foo'\n") is None
    assert explain("") is None
