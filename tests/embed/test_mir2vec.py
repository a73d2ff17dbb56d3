"""MIR2Vec: register classes re-derived from LLVM's tables, every bit of the vectors, entities and triplets."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from embed_oracle import (
    C_SOURCE,
    TRIPLES,
    compiled,
    machine_code,
    needs_core,
    oracle,
    random_mir_vocabulary,
    same_bits,
)

from conftest import ROOT, require_tool
from pymlgo.embed import (
    MIREmbedder,
    MIRWeights,
    ParsedModule,
    Reader,
    ReadOptions,
    embed,
    mir_entities,
    read_mir,
    shipped_mir_vocabulary,
    triplets,
)
from pymlgo.errors import CorpusError, SpecError, VocabularyError

pytestmark = [pytest.mark.llvm, needs_core]

COMMON = [
    "Immediate",
    "CImmediate",
    "FPImmediate",
    "MBB",
    "FrameIndex",
    "ConstantPoolIndex",
    "TargetIndex",
    "JumpTableIndex",
    "ExternalSymbol",
    "GlobalAddress",
    "BlockAddress",
    "RegisterMask",
    "RegisterLiveOut",
    "Metadata",
    "MCSymbol",
    "CFIIndex",
    "IntrinsicID",
    "Predicate",
    "ShuffleMask",
    "LaneMask",
]


@functools.cache
def tables(triple: str) -> tuple[list[str], list[str], dict[str, str]]:
    """Opcodes, register classes, and each register's smallest class ("-": none), dumped from LLVM."""
    lines = subprocess.run([oracle("mir2vec_oracle"), "tables", triple], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in lines.stdout.splitlines()]
    opcodes, classes = ([row[1] for row in rows if row[0] == kind] for kind in "OC")
    return opcodes, classes, {row[1]: row[2] for row in rows if row[0] == "R"}


def base_name(opcode: str) -> str:
    match = re.search(r"[A-Za-z_]+", opcode)
    return match[0].rstrip("_") if match else opcode


@pytest.fixture(scope="module", params=TRIPLES)
def mir(request: pytest.FixtureRequest, clang22: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Machine IR with calls and floating point."""
    return machine_code(clang22, tmp_path_factory.mktemp("mir"), request.param)


@pytest.fixture(scope="module")
def module(mir: Path) -> ParsedModule:
    return read_mir(mir)


@pytest.mark.spec("mir2vec.entities")
@pytest.mark.parametrize("triple", TRIPLES)
def test_entities_follow_from_llvms_tables(triple: str) -> None:
    opcodes, classes, _ = tables(triple)
    bases = sorted({base_name(opcode).encode() for opcode in opcodes})
    expected = [*(base.decode() for base in bases), *COMMON, *(f"PhyReg_{each}" for each in classes)]
    assert list(mir_entities(triple).names) == [*expected, *(f"VirtReg_{each}" for each in classes)]


@pytest.mark.spec("mir2vec.entities")
def test_entities_are_those_of_llvm_ir2vec(mir: Path, module: ParsedModule) -> None:
    tool = require_tool("llvm-ir2vec-22")
    printed = subprocess.run([tool, "entities", "--mode=mir", mir], capture_output=True, text=True, check=True).stdout
    assert module.entities.text() == printed


OPERAND = re.compile(r"(?<![\w.%$@])(?:%(\d+)|\$(\w+))")


def registers_in_text(path: Path, triple: str) -> dict[str, list[list[str]]]:
    """For each function the entities of each instruction's registers, from the .mir text and LLVM's tables."""
    found: dict[str, list[list[str]]] = {}
    smallest = tables(triple)[2]
    text = path.read_text()
    for part in re.split(r"^--- *$", text, flags=re.MULTILINE):
        name = re.search(r"^name: +(\S+)", part, re.MULTILINE)
        if name is None or "body: " not in part:
            continue
        head, body = part.split("body: ", 1)
        classes = dict(re.findall(r"\{ id: (\d+), class: (\w+)", head))
        lines = [line.strip() for line in body.splitlines()[1:]]
        rows: list[list[str]] = []
        for line in lines:
            if not line or line.startswith(("bb.", "successors:", "liveins:", "...", ";", "name:")):
                continue
            code = re.sub(r' :: .*| debug-location.*|, align \d+$|"[^"]*"', "", line)
            code = re.sub(r"%(bb|stack|fixed-stack|const|jump-table|subreg|ir)[.\w-]*", "", code)
            row: list[str] = []
            for number, physical in OPERAND.findall(code):
                if number:
                    row.append(f"VirtReg_{classes[number].upper()}")
                elif physical != "noreg":
                    kept = smallest[physical]
                    if kept != "-":
                        row.append(f"PhyReg_{kept}".upper())
            rows.append(sorted(each.upper() for each in row))
        found[name[1]] = rows
    return found


@pytest.mark.spec("mir2vec.registers")
def test_register_classes_follow_from_the_text_and_llvms_tables(mir: Path, module: ParsedModule) -> None:
    names = module.entities.names
    walk = module.walk
    expected = registers_in_text(mir, module.triple)
    checked = classless = 0
    for function in module.functions:
        blocks = walk.first_block[function.number : function.number + 2]
        begin, end = (int(walk.first_instruction[block]) for block in blocks)
        rows: list[list[str]] = []
        for instruction in range(begin, end):
            pattern = int(walk.pattern[instruction])
            operands = walk.pattern_operand[
                walk.first_pattern_operand[pattern] : walk.first_pattern_operand[pattern + 1]
            ]
            classless += int((operands == 0xFFFF).sum())
            found = [names[entity] for entity in operands.tolist() if entity != 0xFFFF]
            rows.append(sorted(name.upper() for name in found if name.startswith(("PhyReg_", "VirtReg_"))))
        assert rows == expected[function.name], function.name
        checked += sum(map(len, rows))
    assert checked > 300
    assert classless > 0  # $ssp, $mxcsr, $fpcr, $frm … and $noreg


@pytest.mark.spec("mir2vec.embeddings")
def test_vectors_have_llvms_bits(mir: Path, module: ParsedModule, tmp_path: Path) -> None:
    vocabulary = random_mir_vocabulary(tmp_path / "v.json", module.entities)
    data = subprocess.run(
        [oracle("mir2vec_oracle"), "vectors", tmp_path / "v.json", mir], capture_output=True, check=True
    ).stdout
    rows = {level: embed(module, vocabulary, level=level) for level in ("function", "block", "instruction")}
    compared = 0
    while data:
        name, _, data = data.partition(b"\n")
        (count,) = np.frombuffer(data, np.uint64, 1)
        expected = np.frombuffer(data, np.float64, int(count), 8)
        data = data[8 + 8 * int(count) :]
        found = np.concatenate([each.of_function(name.decode()) for each in rows.values()])
        assert same_bits(found, expected), name
        compared += len(found)
    assert compared > 40


@pytest.mark.spec("mir2vec.triplets")
def test_triplets_are_those_of_llvm_ir2vec_where_it_does_not_crash(mir: Path, tmp_path: Path) -> None:
    tool, extract, llc = (require_tool(f"{name}-22") for name in ("llvm-ir2vec", "llvm-extract", "llc"))
    same = 0
    for function in read_mir(mir).functions:
        one = tmp_path / f"{function.name}.mir"
        ir = subprocess.run(
            [extract, f"--func={function.name}", mir.with_suffix(".ll"), "-S"], capture_output=True, check=True
        )
        subprocess.run(
            [llc, "-stop-after=finalize-isel", "-", "-o", one], input=ir.stdout, capture_output=True, check=True
        )
        quiet = {**os.environ, "LLVM_DISABLE_SYMBOLIZATION": "1"}  # it crashes often, and names each frame for seconds
        printed = subprocess.run([tool, "triplets", "--mode=mir", one], capture_output=True, check=False, env=quiet)
        if printed.returncode == 0:
            assert read_mir(one).walk.triplets_text() == printed.stdout, function.name
            same += 1
    assert same >= 2


@pytest.mark.spec("mir2vec.input")
def test_ir_gives_the_machine_code_that_llc_gives(mir: Path, module: ParsedModule) -> None:
    direct = read_mir(mir.with_suffix(".ll"))
    assert [each.name for each in direct.functions] == [each.name for each in module.functions]
    assert [each.content_hash for each in direct.functions] == [each.content_hash for each in module.functions]
    assert np.array_equal(triplets(direct), triplets(module))


@pytest.mark.spec("mir2vec.input")
def test_code_generation_stops_where_it_is_told(clang22: Path, tmp_path: Path) -> None:
    ir = compiled(clang22, C_SOURCE, tmp_path / "m.bc", "-O2")
    early = read_mir(ir)
    late = read_mir(ir, options=ReadOptions(stop_after="prologepilog"))

    def virtual(module: ParsedModule) -> int:
        operands = module.walk.pattern_operand
        return int(((operands >= module.entities.kinds["virtual_registers"].start) & (operands != 0xFFFF)).sum())

    assert virtual(early) > 0
    assert virtual(late) == 0
    llc = require_tool("llc-22")
    subprocess.run([llc, "-stop-after=prologepilog", ir, "-o", tmp_path / "late.mir"], check=True)
    assert np.array_equal(triplets(read_mir(tmp_path / "late.mir")), triplets(late))
    with pytest.raises(CorpusError, match="no pass named 'nonsense'"):
        read_mir(ir, options=ReadOptions(stop_after="nonsense"))
    with pytest.raises(CorpusError, match="0 to 3, found 7"):
        read_mir(ir, options=ReadOptions(opt_level=7))


@pytest.mark.spec("mir2vec.registers")
def test_each_function_has_its_own_register_table(tmp_path: Path, mir: Path, module: ParsedModule) -> None:
    """llvm-ir2vec 22.1.8 looks up the registers of all functions in the first one's table."""
    texts = re.split(r"^--- *$", mir.read_text(), flags=re.MULTILINE)
    assert len(texts) >= 4
    swapped = "---".join([texts[0], texts[1], *reversed(texts[2:])])
    (tmp_path / "swapped.mir").write_text(swapped)
    again = read_mir(tmp_path / "swapped.mir")
    hashes = {each.name: each.content_hash for each in module.functions}
    assert {each.name: each.content_hash for each in again.functions} == hashes


@pytest.mark.spec("mir2vec.embeddings")
def test_weights_apply_to_opcodes_common_operands_and_registers(module: ParsedModule, tmp_path: Path) -> None:
    vocabulary = random_mir_vocabulary(tmp_path / "v.json", module.entities, dimension=3)
    whole = embed(module, vocabulary, weights=MIRWeights(opcode=2, common_operand=3, register=0.5)).vectors
    parts = [
        factor
        * embed(
            module, vocabulary, weights=MIRWeights(**{"opcode": 0, "common_operand": 0, "register": 0, part: 1})
        ).vectors
        for part, factor in (("opcode", 2.0), ("common_operand", 3.0), ("register", 0.5))
    ]
    np.testing.assert_allclose(whole, sum(parts), rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(
        embed(module, vocabulary, exact=False).vectors, embed(module, vocabulary).vectors, rtol=1e-9, atol=1e-6
    )


def test_machine_code_has_one_kind(module: ParsedModule, tmp_path: Path) -> None:
    vocabulary = random_mir_vocabulary(tmp_path / "v.json", module.entities, dimension=3)
    with pytest.raises(SpecError, match="only the symbolic kind"):
        embed(module, vocabulary, kind="flow-aware")
    assert embed(module, vocabulary, level="module").vectors.shape == (1, 3)


DEBUG = """
--- |
  define void @f() { ret void }
...
---
name: f
body: |
  bb.0:
    $eax = MOV32ri 7
    DBG_VALUE $eax, $noreg
    RET64 implicit $eax
...
"""


@pytest.mark.spec("mir2vec.embeddings")
def test_debug_instructions_count_nothing(tmp_path: Path) -> None:
    module = read_mir(DEBUG.encode())
    vocabulary = random_mir_vocabulary(tmp_path / "v.json", module.entities, dimension=3)
    rows = embed(module, vocabulary, level="instruction").vectors
    assert len(rows) == 3
    assert not rows[1].any()
    np.testing.assert_allclose(embed(module, vocabulary).vectors[0], rows.sum(axis=0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--- |\n  define void @f() { ret void }\n...\n", "no machine functions found"),
        ("---\nname: f\nbody: |\n  bb.0:\n    NONSENSE 7\n...\n", r"module:5:\d+: unknown machine instruction name"),
        ("---\nname: [\n", "Could not find closing"),
        ('--- |\n  target triple = "pdp11-dec"\n  define void @f() { ret void }\n...\n---\nname: f\n...\n', "pdp11"),
    ],
)
def test_broken_machine_code_is_refused(text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        read_mir(text.encode())


def test_a_function_that_the_code_generator_cannot_select_costs_no_process() -> None:
    text = b'target triple = "x86_64-linux-gnu"\ndeclare i32 @llvm.aarch64.cls(i32)\n' \
        b"define i32 @f(i32 %x) {\n %r = call i32 @llvm.aarch64.cls(i32 %x)\n ret i32 %r\n}\n"  # fmt: skip
    with pytest.raises(CorpusError, match=r"Cannot select|crashed"):
        read_mir(text)


@pytest.mark.spec("mir2vec.embeddings")
def test_the_documents_getters_give_what_the_arrays_hold(module: ParsedModule, tmp_path: Path) -> None:
    vocabulary = random_mir_vocabulary(tmp_path / "v.json", module.entities, dimension=3)
    embedder = MIREmbedder.create("symbolic", module.function("classify"), vocabulary)
    blocks, instructions = (
        embed(module, vocabulary, level=level).of_function("classify") for level in ("block", "instruction")
    )
    assert same_bits(embedder.get_m_function_vector(), embed(module, vocabulary).of_function("classify")[0])
    assert same_bits(embedder.get_mbb_vector(2), blocks[2])
    assert same_bits(embedder.get_m_inst_vector(0, 1), instructions[1])


def test_a_vocabulary_of_another_target_is_refused(module: ParsedModule) -> None:
    if module.entities.target == "x86-64":
        assert embed(module, shipped_mir_vocabulary()).vectors.any()
    else:
        with pytest.raises(VocabularyError, match=f"is for {module.entities.target}, and the vocabulary for x86-64"):
            embed(module, shipped_mir_vocabulary())


INTEGER_CODE = """
target triple = "aarch64-unknown-linux-gnu"
define i32 @f(i32 %x, i32 %n) {
entry:
  %c = icmp slt i32 %x, %n
  br i1 %c, label %more, label %done
more:
  %y = mul i32 %x, %n
  br label %done
done:
  %r = phi i32 [ %x, %entry ], [ %y, %more ]
  ret i32 %r
}
"""


@pytest.mark.spec("ir2vec.tool")
@pytest.mark.parametrize("verb", ["triplets", "entities", "func", "bb"])
def test_the_script_prints_what_the_tool_prints_for_machine_code(verb: str, tmp_path: Path) -> None:
    tool, llc = require_tool("llvm-ir2vec-22"), require_tool("llc-22")
    file = tmp_path / "f.mir"
    (tmp_path / "f.ll").write_text(INTEGER_CODE)
    subprocess.run([llc, "-stop-after=finalize-isel", tmp_path / "f.ll", "-o", file], check=True)
    arguments = [verb, "--mode=mir"]
    if verb in ("func", "bb"):
        random_mir_vocabulary(tmp_path / "v.json", mir_entities("aarch64-linux-gnu"), dimension=3)
        path = f"--mir2vec-vocab-path={tmp_path / 'v.json'}"
        arguments = ["embeddings", "--mode=mir", f"--level={verb}", path, "--mir2vec-reg-operand-weight=2"]
    expected = subprocess.run([tool, *arguments, file], capture_output=True, check=True).stdout
    script = [sys.executable, ROOT / "scripts/llvm-ir2vec", *arguments, file]
    assert subprocess.run(script, capture_output=True, check=True).stdout == expected


OTHER_TARGETS = (
    ("arm-linux-gnueabihf", "arm"), ("thumbv7m-none-eabi", "thumb"), ("powerpc64le-linux-gnu", "ppc64le"),
    ("s390x-linux-gnu", "systemz"), ("mips64-linux-gnuabi64", "mips64"), ("loongarch64-linux-gnu", "loongarch64"),
    ("sparcv9-linux-gnu", "sparcv9"), ("hexagon-unknown-elf", "hexagon"), ("wasm32-unknown-unknown", "wasm32"),
    ("amdgcn-amd-amdhsa", "amdgcn"), ("avr-unknown-unknown", "avr"), ("bpf", "bpfel"), ("i386-linux-gnu", "x86"),
)  # fmt: skip


@pytest.mark.spec("mir2vec.input")
def test_every_target_has_machine_code_and_entities(tmp_path: Path) -> None:
    with Reader() as reader:
        for triple, target in OTHER_TARGETS:
            text = INTEGER_CODE.replace("aarch64-unknown-linux-gnu", triple)
            module = read_mir(text.encode(), reader=reader)
            assert module.entities.target == target
            assert module.walk.entity_count == len(module.entities)
            assert module.walk.instructions >= 4, triple
            kinds = list(module.entities.kinds.values())
            assert [ids.start for ids in kinds[1:]] == [ids.stop for ids in kinds[:-1]]
            assert len(kinds[2]) == len(kinds[3])
            vocabulary = random_mir_vocabulary(tmp_path / "v.json", module.entities, dimension=2)
            assert embed(module, vocabulary, level="block").vectors.any(), triple
