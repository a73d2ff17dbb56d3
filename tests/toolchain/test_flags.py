"""The flags of each version, checked by the compilers that must take them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pymlgo.errors import ToolchainError
from pymlgo.toolchain.flags import (
    embed_bitcode_flags,
    eviction_channel_flags,
    inliner_channel_flags,
    ir2vec_feature_flags,
    mllvm,
    plugin_flags,
    priority_channel_flags,
)
from pymlgo.toolchain.llvm import LLVM, find_llvm
from pymlgo.toolchain.process import run

BASE = Path("/tmp/base")


def of(major: int) -> LLVM:
    return LLVM(clang=Path(f"/usr/bin/clang-{major}"), version=(major, 1, 0))


def test_the_channel_flags_are_llvms_options_each_behind_mllvm() -> None:
    assert inliner_channel_flags(of(22), BASE, include_default=True) == (
        *("-mllvm", "-enable-ml-inliner=release"),
        *("-mllvm", "-inliner-interactive-channel-base=/tmp/base"),
        *("-mllvm", "-inliner-interactive-include-default"),
    )
    assert "-inliner-interactive-include-default" not in inliner_channel_flags(of(22), BASE, include_default=False)


@pytest.mark.spec("interactive-mode.flags")
def test_the_eviction_switch_has_its_real_name() -> None:
    flags = eviction_channel_flags(of(19), BASE)
    assert "-regalloc-enable-advisor=release" in flags
    assert not any("regalloc-evict-advisor" in flag for flag in flags)


def test_an_old_llvm_has_no_channel() -> None:
    for flags in (
        lambda: inliner_channel_flags(of(16), BASE, include_default=False),
        lambda: eviction_channel_flags(of(16), BASE),
        lambda: priority_channel_flags(of(16), BASE),
    ):
        with pytest.raises(ToolchainError, match="has no interactive channel") as caught:
            flags()
        assert "LLVM 17 or newer" in str(caught.value.hint)


def test_a_plugin_is_loaded_twice_where_its_options_would_be_unknown() -> None:
    assert plugin_flags(of(22), Path("/p.so")) == ("-fpass-plugin=/p.so",)
    assert plugin_flags(of(19), Path("/p.so")) == ("-fplugin=/p.so", "-fpass-plugin=/p.so")


@pytest.mark.spec("toolchain.ir2vec-flags")
def test_ir2vec_features_need_two_options_and_llvm_22() -> None:
    assert ir2vec_feature_flags(of(22), Path("/v.json")) == mllvm(
        ("-ml-inliner-ir2vec-vocab-file=/v.json", "-ir2vec-vocab-path=/v.json")
    )
    with pytest.raises(ToolchainError, match="no IR2Vec features"):
        ir2vec_feature_flags(of(19), Path("/v.json"))


SOURCE = "static int f(int x) { return x * x; }\nint g(int x) { return f(x) + f(x + 1); }\n"


@pytest.mark.llvm
@pytest.mark.spec("interactive-mode.flags")
@pytest.mark.spec("interactive-mode.flags")
@pytest.mark.parametrize("problem", ["inlining", "eviction", "priority"])
def test_real_compilers_take_the_channel_flags(clang: Path, tmp_path: Path, problem: str) -> None:
    """An endless supply of zeros answers: do not inline, evict column 0, priority 0."""
    llvm, base = find_llvm(clang=clang), tmp_path / "channel"
    Path(f"{base}.in").symlink_to("/dev/zero")
    (tmp_path / "x.c").write_text(SOURCE)
    flags = {
        "inlining": inliner_channel_flags(llvm, base, include_default=True),
        "eviction": eviction_channel_flags(llvm, base),
        "priority": priority_channel_flags(llvm, base),
    }[problem]
    done = run([clang, "-O2", "-c", tmp_path / "x.c", "-o", tmp_path / "x.o", *flags], limit_s=60)
    assert done.returncode == 0, done.stderr
    header = Path(f"{base}.out").read_bytes().partition(b"\n")[0]
    advice = {"inlining": b"inlining_decision", "eviction": b"index_to_evict", "priority": b"priority"}[problem]
    assert b'"advice":{"name":"' + advice in header


@pytest.mark.llvm
@pytest.mark.spec("interactive-mode.flags")
def test_the_documents_name_of_the_eviction_switch_is_unknown_to_clang(clang: Path, tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text(SOURCE)
    command = [clang, "-c", tmp_path / "x.c", "-o", tmp_path / "x.o", *mllvm(["-regalloc-evict-advisor=release"])]
    done = run(command, limit_s=60)
    assert done.returncode == 1
    assert b"Unknown command line argument" in done.stderr


@pytest.mark.llvm
def test_real_compilers_embed_bitcode(clang: Path, tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text(SOURCE)
    flags = embed_bitcode_flags(find_llvm(clang=clang))
    assert run([clang, "-c", tmp_path / "x.c", "-o", tmp_path / "x.o", *flags], limit_s=60).returncode == 0
    assert b"\0.llvmcmd\0" in (tmp_path / "x.o").read_bytes()
