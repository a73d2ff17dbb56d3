"""Every bit of IR2Vec's vectors is LLVM's: two kinds, three levels."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from embed_oracle import (
    C_SOURCE,
    CPP_SOURCE,
    HAND_MADE,
    KINDS,
    LEVELS,
    compiled,
    ir_oracle,
    needs_core,
    random_vocabulary,
    same_bits,
)

from conftest import require_tool
from pymlgo.embed import ReadOptions, Vocabulary, Weights, embed, read_ir
from pymlgo.embed.reader import Reader
from pymlgo.embed.shipped import RARE_IR

pytestmark = [pytest.mark.llvm, needs_core]


def assert_bits(modules: list[Path], vocabulary: Vocabulary, file: Path) -> int:
    """Compare every module with LLVM; the number of rows that were."""
    rows = 0
    with Reader() as reader:
        for path, expected in zip(modules, ir_oracle(file, modules), strict=True):
            module = read_ir(path, reader=reader)
            for kind in KINDS:
                for level in LEVELS:
                    found = embed(module, vocabulary, level=level, kind=kind).vectors
                    assert same_bits(found, expected[kind, level]), f"{path}, {kind}, {level}"
                    rows += len(found)
    return rows


@pytest.mark.spec("ir2vec.embeddings")
def test_vectors_have_llvms_bits(clang22: Path, tmp_path: Path) -> None:
    vocabulary = random_vocabulary(tmp_path / "v.json")
    modules = [
        compiled(clang22, C_SOURCE, tmp_path / "c0.bc", "-O0"),
        compiled(clang22, C_SOURCE, tmp_path / "c2.bc", "-O2", "-g"),
        compiled(clang22, C_SOURCE, tmp_path / "cp.ll", "-O2", "-fpseudo-probe-for-profiling"),
        compiled(clang22, CPP_SOURCE, tmp_path / "cpp.bc", "-O1", "c++", "-g"),
        RARE_IR,
    ]
    (tmp_path / "hand.ll").write_text(HAND_MADE)
    modules.append(tmp_path / "hand.ll")
    assert assert_bits(modules, vocabulary, tmp_path / "v.json") > 2000


LABELS_OF_OTHERS = """
@table = global [2 x ptr] [ptr blockaddress(@first, %two), ptr blockaddress(@last, %there)]
define void @first(i32 %x) {
  switch i32 %x, label %two [ i32 1, label %one ]
one:
  ret void
two:
  ret void
}
define ptr @middle() {
  ret ptr blockaddress(@first, %one)
}
define ptr @last(ptr %p) {
  store ptr blockaddress(@first, %two), ptr %p
  br label %there
there:
  ret ptr blockaddress(@last, %there)
}
"""


@pytest.mark.parametrize("suffix", [".ll", ".bc"])
def test_bodies_whose_blocks_are_named_elsewhere_have_llvms_bits(suffix: str, tmp_path: Path) -> None:
    """A body is dropped after its walk; the reader must still find blocks that later functions name."""
    (tmp_path / "m.ll").write_text(LABELS_OF_OTHERS)
    subprocess.run([require_tool("llvm-as-22"), tmp_path / "m.ll", "-o", tmp_path / "m.bc"], check=True)
    vocabulary = random_vocabulary(tmp_path / "v.json")
    assert assert_bits([tmp_path / f"m{suffix}"], vocabulary, tmp_path / "v.json") == 2 * (3 + 6 + 7)


def test_a_narrow_vocabulary_has_llvms_bits_too(clang22: Path, tmp_path: Path) -> None:
    vocabulary = random_vocabulary(tmp_path / "v.json", dimension=1)
    module = compiled(clang22, C_SOURCE, tmp_path / "c.bc", "-O2")
    assert assert_bits([module], vocabulary, tmp_path / "v.json")


@pytest.mark.spec("ir2vec.embeddings")
def test_the_worked_example_by_hand() -> None:
    vocabulary = Vocabulary.from_sections(
        {
            "Opcodes": {"Add": [10], "Ret": [20], "ICmp": [5]},
            "Types": {"IntegerTy": [4], "VoidTy": [2]},
            "Arguments": {"Variable": [1], "Constant": [3], "ICMP_slt": [7]},
        }
    )
    text = b"define void @f(i32 %a) {\n %x = add i32 %a, 1\n %c = icmp slt i32 %x, 5\n ret void\n}\n"
    module = read_ir(text)
    symbolic = embed(module, vocabulary, level="instruction").vectors[:, 0]
    flow_aware = embed(module, vocabulary, level="instruction", kind="flow-aware").vectors[:, 0]
    assert symbolic == pytest.approx([12.8, 9.2, 21.0], abs=1e-6)
    assert flow_aware == pytest.approx([12.8, 21.8, 21.0], abs=1e-6)


@pytest.mark.spec("ir2vec.weights")
def test_weights_are_c_floats() -> None:
    vocabulary = Vocabulary.from_sections(
        {"Opcodes": {"Ret": [0]}, "Types": {"VoidTy": [0]}, "Arguments": {"Variable": [1]}}
    )
    module = read_ir(b"define i32 @f(i32 %a) {\n ret i32 %a\n}\n")
    assert embed(module, vocabulary).vectors.item() == float(np.float32(0.2)) != 0.2
    assert embed(module, vocabulary, weights=Weights(argument=-3.0)).vectors.item() == -3.0


@pytest.mark.full
def test_both_corpora_have_llvms_bits(corpora: Path, tmp_path: Path) -> None:
    vocabulary = random_vocabulary(tmp_path / "v.json")
    modules = sorted(path for part in ("train", "dev") for path in (corpora / part).rglob("*.bc"))
    assert len(modules) > 700
    rows = sum(
        assert_bits(modules[start : start + 10], vocabulary, tmp_path / "v.json")
        for start in range(0, len(modules), 10)
    )
    assert rows > 1_000_000


def test_reading_in_this_process_gives_the_same(clang22: Path, tmp_path: Path) -> None:
    path = compiled(clang22, C_SOURCE, tmp_path / "c.bc", "-O1")
    vocabulary = random_vocabulary(tmp_path / "v.json", dimension=5)
    inside = embed(read_ir(path, options=ReadOptions(isolated=False)), vocabulary, kind="flow-aware", level="block")
    outside = embed(read_ir(path.read_bytes()), vocabulary, kind="flow-aware", level="block")
    assert same_bits(inside.vectors, outside.vectors)
