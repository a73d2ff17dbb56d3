"""`Embedder`: the document's getters, and code that changes under it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from embed_oracle import HAND_MADE, needs_core, random_vocabulary, same_bits

from pymlgo.embed import Embedder, Kind, StaleEmbedding, Vocabulary, embed, read_ir
from pymlgo.errors import CorpusError, SpecError

pytestmark = needs_core


@pytest.fixture
def vocabulary(tmp_path: Path) -> Vocabulary:
    return random_vocabulary(tmp_path / "v.json", dimension=6)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.ll"
    path.write_text(HAND_MADE)
    return path


@pytest.mark.spec("ir2vec.embedder")
@pytest.mark.parametrize("kind", list(Kind))
def test_getters_give_what_the_arrays_hold(file: Path, vocabulary: Vocabulary, kind: Kind) -> None:
    module = read_ir(file)
    embedder = Embedder.create(kind, module.function("loop"), vocabulary)
    blocks = embed(module, vocabulary, level="block", kind=kind).of_function("loop")
    instructions = embed(module, vocabulary, level="instruction", kind=kind).of_function("loop")
    assert same_bits(embedder.get_function_vector(), embed(module, vocabulary, kind=kind).of_function("loop")[0])
    assert same_bits(embedder.get_bb_vector(1), blocks[1])
    assert same_bits(embedder.get_inst_vector(1, 2), instructions[3])
    assert [len(rows) for rows in embedder.get_inst_vectors()] == [1, 8, 1]


def test_a_declaration_has_the_zero_vector(file: Path, vocabulary: Vocabulary) -> None:
    embedder = Embedder.create("symbolic", read_ir(file).function("outside"), vocabulary)
    assert not embedder.get_function_vector().any()
    assert embedder.get_inst_vectors() == []


@pytest.mark.spec("ir2vec.embedder")
def test_changed_code_is_refused(file: Path, vocabulary: Vocabulary) -> None:
    embedder = Embedder.create(Kind.SYMBOLIC, read_ir(file).function("order"), vocabulary)
    embedder.get_function_vector()
    file.write_text(HAND_MADE.replace("mul i32 %a, %a", "udiv i32 %a, %a"))
    with pytest.raises(StaleEmbedding, match=r"function order of .* has changed") as caught:
        embedder.get_function_vector()
    assert "recompute" in str(caught.value.hint)


@pytest.mark.spec("ir2vec.embedder")
def test_changed_code_is_computed_anew_where_asked(file: Path, vocabulary: Vocabulary) -> None:
    embedder = Embedder.create("flow-aware", read_ir(file).function("order"), vocabulary, on_change="recompute")
    before, hash_before = embedder.get_function_vector(), embedder.content_hash
    file.write_text(HAND_MADE.replace("mul i32 %a, %a", "udiv i32 %a, %a"))
    after = embedder.get_function_vector()
    assert not same_bits(before, after)
    assert embedder.content_hash != hash_before
    assert same_bits(after, embed(read_ir(file), vocabulary, kind="flow-aware").of_function("order")[0])


def test_a_change_elsewhere_in_the_file_does_no_harm(file: Path, vocabulary: Vocabulary) -> None:
    embedder = Embedder.create(Kind.SYMBOLIC, read_ir(file).function("order"), vocabulary)
    before = embedder.get_function_vector()
    file.write_text(HAND_MADE.replace("fcmp olt", "fcmp oge").replace("@empty", "@emptied"))
    assert same_bits(embedder.get_function_vector(), before)


def test_swapped_definitions_change_the_content_hash(tmp_path: Path) -> None:
    text = "define i32 @f(i32 %a) {{\n %x = add i32 %a, 1\n %y = add i32 %a, 2\n %z = sub i32 {0}\n ret i32 %z\n}}\n"
    one, two = (read_ir(text.format(order).encode()).functions[0] for order in ("%x, %y", "%y, %x"))
    assert one.content_hash != two.content_hash


def test_a_function_that_is_gone_is_named(file: Path, vocabulary: Vocabulary) -> None:
    embedder = Embedder.create(Kind.SYMBOLIC, read_ir(file).function("empty"), vocabulary)
    file.write_text(HAND_MADE.replace("@empty", "@emptied"))
    with pytest.raises(CorpusError, match="Function 'empty' not found"):
        embedder.get_function_vector()


def test_numbers_that_do_not_exist_are_refused(file: Path, vocabulary: Vocabulary) -> None:
    embedder = Embedder.create(Kind.SYMBOLIC, read_ir(file).function("order"), vocabulary)
    with pytest.raises(SpecError, match="no block number 5"):
        embedder.get_bb_vector(5)
    with pytest.raises(SpecError, match="found number -1"):
        embedder.get_inst_vector(-1, 0)
    with pytest.raises(SpecError, match="no instruction number 9"):
        embedder.get_inst_vector(0, 9)
    with pytest.raises(SpecError, match="unknown kind 'paper'"):
        Embedder.create("paper", read_ir(file).function("order"), vocabulary)


def test_a_vector_is_json_in_its_own_precision(file: Path, vocabulary: Vocabulary) -> None:
    vector = Embedder.create(Kind.SYMBOLIC, read_ir(file).function("order"), vocabulary).get_function_vector()
    assert np.array_equal(json.loads(json.dumps(vector.tolist())), vector)
