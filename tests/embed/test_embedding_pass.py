"""The out-of-tree pass of `examples/embedding-pass` builds, runs, and agrees with us."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from embed_oracle import needs_core

from conftest import ROOT, require_tool
from pymlgo.embed import embed, read_ir, read_mir, shipped_mir_vocabulary, shipped_vocabulary
from pymlgo.embed.shipped import FOLDER, SHIPPED

pytestmark = [pytest.mark.llvm, needs_core]

EXAMPLE = ROOT / "examples/embedding-pass"
SOURCE = """
target triple = "x86_64-unknown-linux-gnu"
define i32 @first(i32 %x, i32 %y) {
  %s = add i32 %x, %y
  %c = icmp slt i32 %s, 7
  %r = select i1 %c, i32 %s, i32 %x
  ret i32 %r
}
define ptr @second(ptr %p) {
  %q = getelementptr i32, ptr %p, i64 3
  store i32 1, ptr %q
  ret ptr %q
}
"""


def numbers(printed: str) -> dict[str, float]:
    return {name: float(value) for name, value in (line.split() for line in printed.splitlines())}


@pytest.mark.spec("ir2vec.pass")
@pytest.mark.spec("mir2vec.pass")
def test_the_pass_goes_the_four_steps(tmp_path: Path) -> None:
    config, opt, llc = (require_tool(f"{name}-22") for name in ("llvm-config", "opt", "llc"))
    flags = subprocess.run(
        [config, "--cppflags", "--libdir"], capture_output=True, text=True, check=True
    ).stdout.split()
    plugin = tmp_path / "embedding_pass.so"
    command = ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", *flags[:-1], EXAMPLE / "embedding_pass.cpp"]
    subprocess.run([*command, "-o", plugin, f"-L{flags[-1]}", "-lLLVM-22"], check=True)
    (tmp_path / "m.ll").write_text(SOURCE)
    subprocess.run([llc, "-stop-after=finalize-isel", tmp_path / "m.ll", "-o", tmp_path / "m.mir"], check=True)

    printed = subprocess.run(
        [opt, "-load-pass-plugin", plugin, "-passes=similar-functions", f"-ir2vec-vocab-path={FOLDER / SHIPPED['ir']}",
         "-disable-output", tmp_path / "m.ll"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    first, second = embed(read_ir(tmp_path / "m.ll"), shipped_vocabulary()).vectors
    cosine = first @ second / (np.linalg.norm(first) * np.linalg.norm(second))
    assert numbers(printed.stdout) == pytest.approx({"first": 1.0, "second": cosine})

    printed = subprocess.run(
        [llc, "-load", plugin, "-run-pass=machine-function-length",
         f"-mir2vec-vocab-path={FOLDER / SHIPPED['mir-x86-64']}", tmp_path / "m.mir", "-o", "/dev/null"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = embed(read_mir(tmp_path / "m.mir"), shipped_mir_vocabulary())
    lengths = dict(zip(found.names, np.linalg.norm(found.vectors, axis=1).tolist(), strict=True))
    assert numbers(printed.stdout) == pytest.approx(lengths)
