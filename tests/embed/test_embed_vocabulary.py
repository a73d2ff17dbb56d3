"""Vocabularies: LLVM's rules, every error of them, and the converters."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from embed_oracle import needs_core, random_vocabulary

from conftest import require_tool
from pymlgo.embed import MIRVocabulary, MIRWeights, Vocabulary, VocabularyWarning, Weights, ir_entities, mir_entities
from pymlgo.embed.convert import from_iith_text, from_prefixed_mir
from pymlgo.embed.coverage import coverage
from pymlgo.embed.module import read_ir
from pymlgo.embed.vocabulary import require_dimension
from pymlgo.errors import VocabularyError

GOOD = {"Opcodes": {"Add": [1, 2]}, "Types": {"IntegerTy": [3, 4]}, "Arguments": {"Variable": [5, 6]}}


def changed(**sections: object) -> str:
    return json.dumps({key: value for key, value in {**GOOD, **sections}.items() if value is not ...})


ERRORS = [
    ("bad JSON", '{"Opcodes": {"Add": [1]}\n ', "[2:2, byte=26]"),
    ("root", "[]", "JSON root is not an object"),
    ("absent", changed(Arguments=...), "Missing 'Arguments' section in vocabulary file"),
    ("string", changed(Opcodes={"Add": ["1", 2]}), "Unable to parse 'Opcodes' section from vocabulary"),
    ("no list", changed(Opcodes={"Add": 1}), "Unable to parse 'Opcodes' section from vocabulary"),
    ("null", changed(Types=None), "Unable to parse 'Types' section from vocabulary"),
    ("zero", changed(Opcodes={"Add": []}), "Dimension of 'Opcodes' section of the vocabulary is zero"),
    (
        "ragged",
        changed(Types={"IntegerTy": [1, 2], "VoidTy": [1]}),
        "All vectors in the 'Types' section of the vocabulary are not of the same dimension",
    ),
    ("differ", changed(Types={"IntegerTy": [1]}), "Vocabulary sections have different dimensions"),
]
OURS = [
    ("empty section", changed(Arguments={}), "'Arguments' section of the vocabulary is empty"),
    ("boolean", changed(Opcodes={"Add": [True, 2]}), "Unable to parse 'Opcodes' section"),
    ("nan", changed(Opcodes={"Add": [float("nan"), 2]}), "NaN is no JSON number"),
    (
        "infinite",
        '{"Opcodes": {"Add": [1e999]}, "Types": {"VoidTy": [1]}, "Arguments": {"Variable": [1]}}',
        "not finite",
    ),
    ("deep", "[" * 100_000, "recursion"),
    ("nothing", "", "[1:1, byte=0]"),
]


@pytest.mark.spec("ir2vec.vocabulary")
@pytest.mark.parametrize(
    ("text", "message"), [each[1:] for each in ERRORS + OURS], ids=[each[0] for each in ERRORS + OURS]
)
def test_broken_vocabularies_are_refused(text: str, message: str) -> None:
    with pytest.raises(VocabularyError) as caught:
        Vocabulary.load(text.encode())
    assert message.lower() in str(caught.value).lower()
    assert "\n" not in str(caught.value)


@pytest.mark.llvm
@pytest.mark.parametrize(("text", "message"), [each[1:] for each in ERRORS[1:]], ids=[each[0] for each in ERRORS[1:]])
def test_llvm_refuses_the_same_with_the_same_words(text: str, message: str, tmp_path: Path) -> None:
    tool = require_tool("llvm-ir2vec-22")
    (tmp_path / "v.json").write_text(text)
    (tmp_path / "m.ll").write_text("define void @f() {\n ret void\n}\n")
    command = [tool, "embeddings", f"--ir2vec-vocab-path={tmp_path / 'v.json'}", tmp_path / "m.ll"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert message in refused.stderr


def test_a_missing_file_and_bad_bytes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match="No such file") as caught:
        Vocabulary.load(tmp_path / "v.json")
    assert "--shipped" in str(caught.value.hint)
    with pytest.raises(VocabularyError, match="byte 2 is not UTF-8"):
        Vocabulary.load(b'{"\xff":1}')


@pytest.mark.spec("ir2vec.vocabulary")
@needs_core
def test_what_llvm_ignores_gives_a_warning() -> None:
    opcodes = '"Opcodes": {"add": [1], "Add": [2], "Add": [3]}'
    text = f'{{{opcodes}, "Types": {{"IntegerTy": [1]}}, "Arguments": {{"Variable": [1]}}, "more": 1}}'
    with pytest.warns(VocabularyWarning, match="'Add' stands twice"):
        vocabulary = Vocabulary.load(text.encode())
    assert vocabulary.unknown_keys(ir_entities()) == ("Opcodes/add",)
    with pytest.warns(VocabularyWarning, match=r"Opcodes/add, LLVM ignores it; did you mean 'Add'\?"):
        vocabulary.warn_about_unknown_keys(ir_entities())
    table = vocabulary.table(ir_entities())
    assert table[ir_entities().names.index("Add")] == 3  # the last of the two


@pytest.mark.spec("ir2vec.entities")
@needs_core
def test_entities_are_those_of_llvm_ir2vec() -> None:
    tool = require_tool("llvm-ir2vec-22")
    printed = subprocess.run([tool, "entities", "--mode=llvm"], capture_output=True, text=True, check=True).stdout
    assert ir_entities().text() == printed
    assert [len(ids) for ids in ir_entities().kinds.values()] == [68, 12, 4, 26]


@needs_core
def test_a_vocabulary_survives_saving_bit_for_bit(tmp_path: Path) -> None:
    vocabulary = random_vocabulary(tmp_path / "v.json", dimension=7)
    full = Vocabulary(sections=vocabulary.sections, layout={"llvm": "22.1.8"}, provenance={"seed": 3})
    full.save(tmp_path / "again.json")
    again = Vocabulary.load(tmp_path / "again.json")
    assert np.array_equal(again.table(ir_entities()), vocabulary.table(ir_entities()))
    assert (again.layout, again.provenance) == ({"llvm": "22.1.8"}, {"seed": 3})


def test_a_vocabulary_cannot_be_changed() -> None:
    vocabulary = Vocabulary.from_sections(GOOD)
    with pytest.raises(ValueError, match="read-only"):
        vocabulary.sections["Opcodes"].rows[0, 0] = 9
    with pytest.raises(TypeError):
        vocabulary.sections["Opcodes"] = None  # type: ignore[index]
    with pytest.raises(AttributeError):
        vocabulary.provenance = {}  # type: ignore[misc]


@pytest.mark.spec("ir2vec.weights")
@needs_core
def test_tables_are_weighted_once() -> None:
    entities = ir_entities()
    table = Vocabulary.from_sections(GOOD).table(entities, Weights(opcode=2.0, type=0.1))
    assert table[entities.names.index("Add")].tolist() == [2.0, 4.0]
    assert table[entities.names.index("IntegerTy")].tolist() == [3 * float(np.float32(0.1)), 4 * float(np.float32(0.1))]
    assert table[entities.names.index("Variable")].tolist() == [5 * float(np.float32(0.2)), 6 * float(np.float32(0.2))]
    assert not table[entities.names.index("Sub")].any()


def test_another_dimension_than_the_models_is_refused() -> None:
    with pytest.raises(VocabularyError, match="expected a vocabulary of dimension 75, found 2"):
        require_dimension(Vocabulary.from_sections(GOOD), 75)


def test_a_vocabulary_comes_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    class Stdin:
        buffer = io.BytesIO(json.dumps(GOOD).encode())

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert Vocabulary.load("-").dimension == 2


@needs_core
def test_coverage_counts_what_is_absent() -> None:
    module = read_ir(b"define i32 @f(i32 %a) {\n %x = add i32 %a, 1\n %y = sub i32 %x, 1\n ret i32 %y\n}\n")
    found = coverage(Vocabulary.from_sections(GOOD), [module])
    assert {each.entity: each.occurrences for each in found.missing} == {"Constant": 2, "Sub": 1, "Ret": 1, "VoidTy": 1}
    assert (found.entities_used, found.occurrences, found.occurrences_missing) == (7, 11, 5)


@needs_core
def test_the_text_form_of_iith_is_converted() -> None:
    text = "add:[1, 2],\ncmpxchg:[3.5, -4],\nintegerTy:[5, 6],\npointer:[7, 8],\nlabel:[9, 9],\n"
    with pytest.warns(VocabularyWarning, match="no entity 'label'"):
        vocabulary = from_iith_text(text, ir_entities(), name="seed.txt")
    assert set(vocabulary.sections["Opcodes"].index) == {"Add", "AtomicCmpXchg"}
    assert vocabulary.sections["Arguments"].rows.tolist() == [[7.0, 8.0]]
    with pytest.raises(VocabularyError, match="line 1: expected"):
        from_iith_text("add 1 2", ir_entities())


@needs_core
def test_prefixed_register_keys_are_converted() -> None:
    sections = {
        "Opcodes": {"ADD": [1]},
        "CommonOperands": {"Immediate": [2]},
        "PhysicalRegisters": {"PHY_REG_GR32": [3]},
        "VirtualRegisters": {"VIRT_REG_GR64": [4]},
    }
    flat = {"entities": {key: value for members in sections.values() for key, value in members.items()}}
    for form in (sections, flat):
        vocabulary = from_prefixed_mir(json.dumps(form))
        entities = mir_entities("x86_64-linux-gnu")
        table = vocabulary.table(entities, MIRWeights(register=2.0))
        assert table[entities.names.index("PhyReg_GR32")].tolist() == [6.0]
        assert table[entities.names.index("VirtReg_GR64")].tolist() == [8.0]
        assert table[entities.names.index("ADD")].tolist() == [1.0]


def test_machine_vocabularies_follow_the_same_rules() -> None:
    four = {name: {"x": [1.0]} for name in ("Opcodes", "CommonOperands", "PhysicalRegisters", "VirtualRegisters")}
    assert MIRVocabulary.load(json.dumps(four).encode()).dimension == 1
    for section in four:
        with pytest.raises(VocabularyError, match=f"Missing '{section}' section"):
            MIRVocabulary.load(json.dumps({key: value for key, value in four.items() if key != section}).encode())
        with pytest.raises(VocabularyError, match=f"'{section}' section of the vocabulary is empty"):
            MIRVocabulary.load(json.dumps({**four, section: {}}).encode())


def test_a_clean_vocabulary_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Vocabulary.load(json.dumps(GOOD).encode())
