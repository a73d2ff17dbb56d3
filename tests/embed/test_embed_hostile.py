"""Modules that nobody should have to read: each costs an error at most, never the process."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from embed_oracle import C_SOURCE, compiled, needs_core, random_vocabulary

from conftest import require_tool
from pymlgo.embed import ReadOptions, Vocabulary, embed, read_ir
from pymlgo.embed.core import core
from pymlgo.embed.reader import Reader
from pymlgo.errors import CorpusError

pytestmark = needs_core


@pytest.fixture
def vocabulary(tmp_path: Path) -> Vocabulary:
    return random_vocabulary(tmp_path / "v.json", dimension=4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("define i32 @f( {\n}\n", r"m\.ll:\d+:\d+: expected"),
        (
            "define i32 @f() {\n %x = add i32 1, %missing\n ret i32 %x\n}\n",
            r"m\.ll:2:\d+: use of undefined value '%missing'",
        ),
        ("define i32 @f() {\n ret float 1.0\n}\n", r"m\.ll:2:\d+: value doesn't match function result type"),
        ("\x00\x01\x02", r"m\.ll:1:\d: expected"),
    ],
)
def test_invalid_text_is_refused_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "m.ll").write_text(text)
    with pytest.raises(CorpusError, match=message) as caught:
        read_ir(tmp_path / "m.ll")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"gone\.bc: No such file"):
        read_ir(tmp_path / "gone.bc")


def test_bitcode_of_a_newer_or_older_llvm_is_read_or_refused_cleanly(
    clang19: Path, clang14: Path, tmp_path: Path
) -> None:
    for clang in (clang19, clang14):
        module = read_ir(compiled(clang, C_SOURCE, tmp_path / "old.bc", "-O2"))
        assert module.function("classify").block_count > 5
    wrapper = bytearray(compiled(clang19, C_SOURCE, tmp_path / "new.bc").read_bytes())
    wrapper[8:12] = b"\xff\xff\xff\xff"
    with pytest.raises(CorpusError):
        read_ir(bytes(wrapper))


def test_damaged_bitcode_costs_no_process(clang22: Path, tmp_path: Path, vocabulary: Vocabulary) -> None:
    good = compiled(clang22, C_SOURCE, tmp_path / "c.bc", "-O1").read_bytes()
    rng = np.random.default_rng(7)
    refused = 0
    with Reader(limit_s=60) as reader:
        for round_number in range(60):
            data = bytearray(good)
            if round_number % 3 == 0:
                data = data[: rng.integers(4, len(data))]
            for place in rng.integers(4, len(data), 6):
                data[place] ^= 1 << int(rng.integers(8))
            try:
                embed(read_ir(bytes(data), reader=reader), vocabulary, level="block", kind="flow-aware")
            except CorpusError:
                refused += 1
        assert refused > 10
        whole = embed(read_ir(good, reader=reader), vocabulary)
    assert len(whole) == 6


BROKEN_DEBUG_INFO = """
define void @f() !dbg !3 {
  ret void
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: FullDebug)
!1 = !DIFile(filename: "a.c", directory: "/")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = distinct !DISubprogram(name: "f", file: !1, unit: !0, spFlags: DISPFlagDefinition)
define i32 @g(i1 %c) {
  br i1 %c, label %a, label %b
a:
  %x = add i32 1, 2
  br label %b
b:
  ret i32 %x
}
"""


def test_a_module_that_llvm_aborts_on_is_an_error_here_and_the_next_one_is_read() -> None:
    """LLVM's reader verifies a module with debug information, and aborts the process when that fails."""
    tool = require_tool("llvm-ir2vec-22")
    died = subprocess.run([tool, "triplets", "-"], input=BROKEN_DEBUG_INFO.encode(), capture_output=True, check=False)
    assert died.returncode < 0 or b"LLVM ERROR" in died.stderr
    with Reader() as reader:
        with pytest.raises(
            CorpusError, match=r"crashed on the module \(signal SIGABRT\): LLVM ERROR: Broken module"
        ) as caught:
            read_ir(BROKEN_DEBUG_INFO.encode(), reader=reader)
        assert "only the reading process" in str(caught.value.hint)
        assert read_ir(b"define void @f() {\n ret void\n}\n", reader=reader).functions[0].name == "f"


def test_a_module_that_takes_too_long_is_given_up(clang22: Path, tmp_path: Path) -> None:
    path = compiled(clang22, C_SOURCE, tmp_path / "c.bc")
    with Reader(limit_s=0.0) as reader, pytest.raises(CorpusError, match="did not finish with the module within 0 s"):
        read_ir(path, reader=reader)


@pytest.mark.parametrize("text", [b"", b"declare void @f()\n", b"; nothing\n", b"@g = global i32 7\n"])
def test_modules_without_code_have_no_vectors(text: bytes, vocabulary: Vocabulary) -> None:
    module = read_ir(text, options=ReadOptions(loops=True, regions=True))
    for level in ("function", "block", "instruction", "loop", "region"):
        assert embed(module, vocabulary, level=level).vectors.shape == (0, 4)
    assert not embed(module, vocabulary, level="module").vectors.any()
    assert embed(module, vocabulary, exact=False).vectors.shape == (0, 4)


def test_a_function_of_100_000_instructions(vocabulary: Vocabulary) -> None:
    chain = "".join(f" %x{n} = xor i32 %x{n - 1}, {n}\n" for n in range(1, 100_000))
    text = f"define i32 @f(i32 %x0) {{\n{chain} ret i32 %x99999\n}}\n".encode()
    module = read_ir(text, options=ReadOptions(loops=True, regions=True))
    assert embed(module, vocabulary, level="instruction").vectors.shape == (100_000, 4)
    assert embed(module, vocabulary, level="region").vectors.shape == (1, 4)


def test_a_switch_of_20_000_cases(vocabulary: Vocabulary) -> None:
    cases = "".join(f"i32 {n}, label %l{n % 50}\n" for n in range(20_000))
    blocks = "".join(f"l{n}:\n ret i32 {n}\n" for n in range(50))
    text = f"define i32 @f(i32 %x) {{\n switch i32 %x, label %l0 [\n{cases}]\n{blocks}}}\n".encode()
    module = read_ir(text)
    assert module.walk.triplets_text().startswith(b"MAX_RELATION=20003\n")
    assert embed(module, vocabulary, level="block").vectors.shape == (51, 4)


def test_types_as_deep_as_a_stack() -> None:
    deep = "[1 x " * 3000 + "i8" + "]" * 3000
    module = read_ir(f"define void @f(ptr %p) {{\n %x = load {deep}, ptr %p\n ret void\n}}\n".encode())
    assert module.walk.instructions == 2
    deeper = "{" * 200_000 + "}" * 200_000
    with pytest.raises(CorpusError, match=r"crashed on the module \(signal SIG"):
        read_ir(f"define void @f(ptr %p) {{\n %x = load {deeper}, ptr %p\n ret void\n}}\n".encode())


def test_deeply_nested_loops(vocabulary: Vocabulary) -> None:
    depth = 400
    heads = "".join(f"h{n}:\n br label %h{n + 1}\n" for n in range(depth))
    tails = "".join(f"t{n}:\n br i1 %c, label %h{n}, label %t{n - 1}\n" for n in range(depth - 1, 0, -1))
    body = f" br label %h0\n{heads}h{depth}:\n br label %t{depth - 1}\n{tails}t0:\n ret void\n"
    module = read_ir(f"define void @f(i1 %c) {{\n{body}}}\n".encode(), options=ReadOptions(loops=True, regions=True))
    found = embed(module, vocabulary, level="loop")
    assert found.depth is not None
    assert found.depth.max() == depth - 1
    embed(module, vocabulary, level="region")


def test_names_of_any_bytes(vocabulary: Vocabulary) -> None:
    text = b'define void @"a\\0Ab\\FF c"() {\n"x\\0Ay":\n ret void\n}\n'
    found = embed(read_ir(text), vocabulary, level="block")
    assert found.names == ["a\nb\udcff c"]
    assert found.block_name == ("x\ny",)


def test_a_damaged_answer_is_refused() -> None:
    native = core()
    walk = native.read_ir(b"define i32 @f(i32 %x) {\n %y = add i32 %x, %x\n ret i32 %y\n}\n", "m")
    data = walk.serialize()
    assert native.Walk.deserialize(data).serialize() == data
    rng = np.random.default_rng(3)
    for length in rng.integers(0, len(data), 40).tolist():
        with pytest.raises(native.ReadError):
            native.Walk.deserialize(data[:length])
    table = np.ones((walk.entity_count, 3))
    for _ in range(400):
        damaged = bytearray(data)
        damaged[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        try:
            read = native.Walk.deserialize(bytes(damaged))
        except native.ReadError:
            continue
        if read.entity_count == walk.entity_count and not read.is_mir:  # what is accepted can be used
            native.embed_blocks(read, table, int(read.has_definitions), 0, read.functions, np.empty((read.blocks, 3)))
            native.embed_functions(read, table, 0, 0, read.functions, np.empty((read.functions, 3)))
            read.triplets_text()


def test_arrays_of_the_wrong_shape_are_refused_by_the_core() -> None:
    native = core()
    walk = native.read_ir(b"define void @f() {\n ret void\n}\n", "m", definitions=False)
    table = np.ones((walk.entity_count, 3))
    for bad in (
        lambda: native.embed_functions(walk, table[:-1], 0, 0, 1, np.empty((1, 3))),
        lambda: native.embed_functions(walk, table, 0, 0, 2, np.empty((2, 3))),
        lambda: native.embed_functions(walk, table, 0, 0, 1, np.empty((1, 4))),
        lambda: native.embed_functions(walk, table, 1, 0, 1, np.empty((1, 3))),
        lambda: native.embed_functions(walk, table, 5, 0, 1, np.empty((1, 3))),
        lambda: native.sum_rows(table, np.array([0, 9], np.uint32), np.array([1], np.uint32), np.empty((1, 3))),
        lambda: native.sum_rows(table, np.array([0, 1], np.uint32), np.array([999], np.uint32), np.empty((1, 3))),
        lambda: native.count_entities(walk, [9999], np.empty((1, 1))),
    ):
        with pytest.raises(ValueError):
            bad()


def test_a_reader_leaves_no_process_behind() -> None:
    with Reader() as reader:
        read_ir(b"define void @f() {\n ret void\n}\n", reader=reader)
        process = reader._process
        assert process is not None
    assert process.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
