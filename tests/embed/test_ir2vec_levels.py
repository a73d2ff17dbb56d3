"""Levels, the index beside the vectors, the fast mode, and our own flow-normalized kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from embed_oracle import C_SOURCE, HAND_MADE, compiled, needs_core, random_vocabulary, same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

from pymlgo.embed import (
    Kind,
    Level,
    ParsedModule,
    ReadOptions,
    Vocabulary,
    Weights,
    embed,
    embed_blocks_of,
    ir_entities,
    read_ir,
)
from pymlgo.errors import SpecError, VocabularyError

pytestmark = needs_core

EVERYTHING = ReadOptions(loops=True, regions=True)

NESTED = b"""
define void @nest(i32 %n) {
entry:
  br label %outer
outer:
  br label %inner
inner:
  %i = phi i32 [ 0, %outer ], [ %j, %inner ]
  %j = add i32 %i, 1
  %c = icmp slt i32 %j, %n
  br i1 %c, label %inner, label %latch
latch:
  %again = icmp eq i32 %j, %n
  br i1 %again, label %outer, label %second
second:
  br i1 %again, label %second, label %exit
exit:
  ret void
}
"""


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    return random_vocabulary(tmp_path_factory.mktemp("vocabulary") / "v.json", dimension=8)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory, clang22: Path) -> ParsedModule:
    return read_ir(compiled(clang22, C_SOURCE, tmp_path_factory.mktemp("c") / "c.bc", "-O2"), options=EVERYTHING)


@pytest.mark.parametrize("level", list(Level))
def test_no_two_rows_share_their_index(module: ParsedModule, vocabulary: Vocabulary, level: Level) -> None:
    found = embed(module, vocabulary, level=level)
    index = list(zip(found.function.tolist(), found.block.tolist(), found.instruction.tolist(), strict=True))
    if level == Level.REGION:  # several regions can start at one block
        depths = found.depth
        assert depths is not None
        index = [(*place, depth) for place, depth in zip(index, depths.tolist(), strict=True)]
    assert len(index) == len(found.vectors)
    assert len(set(index)) == len(index)


def test_functions_are_the_defined_ones_in_module_order(module: ParsedModule, vocabulary: Vocabulary) -> None:
    found = embed(module, vocabulary)
    assert found.names == ["classify", "mix", "bits", "make", "scale", "atomically"]
    assert found.function.tolist() == [each.number for each in module.functions if not each.is_declaration]
    assert set(found.block.tolist()) == {-1}


def test_rows_of_instructions_sum_to_those_of_blocks(module: ParsedModule, vocabulary: Vocabulary) -> None:
    instructions = embed(module, vocabulary, level="instruction")
    blocks = embed(module, vocabulary, level="block")
    for row in range(len(blocks)):
        mine = (instructions.function == blocks.function[row]) & (instructions.block == blocks.block[row])
        assert instructions.instruction[mine].tolist() == list(range(mine.sum()))
        np.testing.assert_allclose(instructions.vectors[mine].sum(axis=0), blocks.vectors[row], rtol=1e-9, atol=1e-9)


def test_blocks_of_equal_text_and_no_name_are_told_apart(vocabulary: Vocabulary) -> None:
    blocks = "br i1 %c, label %1, label %2\n1:\n br label %3\n2:\n br label %3\n3:\n ret void"
    text = f"define void @f(i1 %c) {{\n {blocks}\n}}\n".encode()
    found = embed(read_ir(text), vocabulary, level="block")
    assert found.block.tolist() == [0, 1, 2, 3]
    assert found.block_name == ("", "", "", "")
    assert same_bits(found.vectors[1], found.vectors[2])


def test_unnamed_functions_are_told_apart(vocabulary: Vocabulary) -> None:
    functions = ("@0", "@1", '@"two\\0Alines"')
    text = "".join(f"define void {name}() {{\n ret void\n}}\n" for name in functions)
    assert embed(read_ir(text.encode()), vocabulary).names == [
        "<unnamed function 0>",
        "<unnamed function 1>",
        "two\nlines",
    ]


def test_block_names_are_kept_where_there_are_some(vocabulary: Vocabulary) -> None:
    assert embed(read_ir(NESTED), vocabulary, level="block").block_name == (
        "entry", "outer", "inner", "latch", "second", "exit",
    )  # fmt: skip


@pytest.mark.spec("ir2vec.levels")
@pytest.mark.parametrize("kind", list(Kind))
def test_loops_hold_the_blocks_of_their_inner_loops(vocabulary: Vocabulary, kind: Kind) -> None:
    module = read_ir(NESTED, options=EVERYTHING)
    found = embed(module, vocabulary, level="loop", kind=kind)
    blocks = embed(module, vocabulary, level="block", kind=kind).vectors
    by_header = dict(zip(found.block.tolist(), range(len(found)), strict=True))
    assert set(by_header) == {1, 2, 4}
    outer, inner, second = (by_header[block] for block in (1, 2, 4))
    assert same_bits(found.vectors[outer], ((0.0 + blocks[1]) + blocks[2]) + blocks[3])
    assert same_bits(found.vectors[inner], 0.0 + blocks[2])
    parents, depths = found.parent, found.depth
    assert parents is not None
    assert depths is not None
    assert (parents[outer], parents[inner], parents[second]) == (-1, outer, -1)
    assert (depths[outer], depths[inner], depths[second]) == (1, 2, 1)


@pytest.mark.spec("ir2vec.levels")
def test_the_outermost_region_is_the_function(vocabulary: Vocabulary) -> None:
    module = read_ir(NESTED, options=EVERYTHING)
    found = embed(module, vocabulary, level="region")
    whole = embed(module, vocabulary).vectors[0]
    parents, depths = found.parent, found.depth
    assert parents is not None
    assert depths is not None
    assert (found.block[0], parents[0], depths[0]) == (0, -1, 0)
    np.testing.assert_allclose(found.vectors[0], whole, rtol=1e-12)
    assert all(depths[row] == depths[parent] + 1 for row, parent in enumerate(parents.tolist()) if parent >= 0)
    assert len(found) > 1


@pytest.mark.spec("ir2vec.levels")
def test_any_set_of_blocks_has_a_vector(vocabulary: Vocabulary) -> None:
    module = read_ir(NESTED)
    blocks = embed(module, vocabulary, level="block").vectors
    found = embed_blocks_of(module, vocabulary, [(0, [5, 0]), (0, []), (0, [3])])
    assert same_bits(found[0], (0.0 + blocks[5]) + blocks[0])
    assert not found[1].any()
    assert same_bits(found[2], 0.0 + blocks[3])
    with pytest.raises(SpecError, match="has 6 blocks"):
        embed_blocks_of(module, vocabulary, [(0, [6])])


@pytest.mark.spec("ir2vec.levels")
def test_a_module_is_the_sum_of_its_functions(module: ParsedModule, vocabulary: Vocabulary) -> None:
    total = np.zeros(vocabulary.dimension)
    for row in embed(module, vocabulary).vectors:
        total = total + row
    assert same_bits(embed(module, vocabulary, level="module").vectors[0], total)


@pytest.mark.parametrize("level", list(Level))
def test_the_fast_mode_agrees_within_rounding(module: ParsedModule, vocabulary: Vocabulary, level: Level) -> None:
    exact, fast = (embed(module, vocabulary, level=level, exact=exact).vectors for exact in (True, False))
    # Relative to the sum of magnitudes, as sums cancel.
    sizes = Vocabulary.from_sections(
        {
            name: {key: np.abs(each.rows[row]) for key, row in each.index.items()}
            for name, each in vocabulary.sections.items()
        }
    )
    scale = embed(module, sizes, level=level).vectors
    assert (np.abs(exact - fast) <= 1e-12 * scale).all()


@given(st.lists(st.floats(-4, 4), min_size=3, max_size=3))
@settings(max_examples=25, deadline=None)
def test_symbolic_vectors_are_linear_in_the_weights(factors: list[float]) -> None:
    entities = ir_entities()
    rng = np.random.default_rng(1)
    sections: dict[str, dict[str, object]] = {"Opcodes": {}, "Types": {}, "Arguments": {}}
    for kind, ids in entities.kinds.items():
        for entity in ids:
            sections[Vocabulary.SECTION_OF_KIND[kind]][entities.names[entity]] = rng.standard_normal(4)
    vocabulary = Vocabulary.from_sections(sections)
    module = read_ir(HAND_MADE.encode(), options=ReadOptions(isolated=False))

    def weighted(opcode: float, type_: float, argument: float) -> np.ndarray:
        return embed(module, vocabulary, weights=Weights(opcode=opcode, type=type_, argument=argument)).vectors

    a, b, c = (float(np.float32(factor)) for factor in factors)
    parts = a * weighted(1, 0, 0) + b * weighted(0, 1, 0) + c * weighted(0, 0, 1)
    np.testing.assert_allclose(weighted(a, b, c), parts, rtol=1e-9, atol=1e-9)


@pytest.mark.spec("ir2vec.flow-aware")
def test_flow_aware_growth_to_infinity_is_counted() -> None:
    vocabulary = Vocabulary.from_sections(
        {"Opcodes": {"Add": [1]}, "Types": {"IntegerTy": [1]}, "Arguments": {"Variable": [1]}}
    )
    chain = "".join(f" %x{n} = add i32 %x{n - 1}, %x{n - 1}\n" for n in range(1, 1200))
    module = read_ir(f"define i32 @f(i32 %x0) {{\n{chain} ret i32 %x1199\n}}\n".encode())
    found = embed(module, vocabulary, level="instruction", kind="flow-aware")
    assert np.isinf(found.vectors[-1]).all()
    assert 0 < found.overflowed < 300
    assert embed(module, vocabulary, level="instruction", kind="flow-normalized").overflowed == 0


@pytest.mark.spec("ir2vec.flow-aware")
def test_flow_aware_depends_on_the_order_of_visits(vocabulary: Vocabulary) -> None:
    module = read_ir(HAND_MADE.encode())
    rows = embed(module, vocabulary, level="instruction", kind="flow-aware")
    whole = embed(module, vocabulary, kind="flow-aware")
    reachable = (rows.function == 0) & (rows.block != 3)
    assert not np.allclose(rows.vectors[reachable].sum(axis=0), whole.vectors[0])


SHUFFLED = """
define i32 @f(i32 %a, i1 %c) {{
entry:
  br i1 %c, label %def, label %other
{blocks}
}}
"""
DEF = "def:\n  %d = mul i32 %a, %a\n  br label %use\n"
USE = "use:\n  %u = add i32 %d, %d\n  br label %other\n"
OTHER = "other:\n  %p = phi i32 [ 0, %entry ], [ %u, %use ]\n  ret i32 %p\n"


@pytest.mark.spec("ir2vec.flow-normalized")
def test_flow_normalized_does_not_depend_on_the_layout(vocabulary: Vocabulary) -> None:
    first, second = (
        embed(
            read_ir(SHUFFLED.format(blocks="".join(order)).encode()), vocabulary, level="block", kind="flow-normalized"
        )
        for order in ((DEF, USE, OTHER), (OTHER, USE, DEF))
    )
    for name in ("def", "use", "other"):
        assert same_bits(first.vectors[first.block_name.index(name)], second.vectors[second.block_name.index(name)])


@pytest.mark.spec("ir2vec.flow-normalized")
def test_flow_normalized_vectors_are_no_longer_than_their_parts(module: ParsedModule, vocabulary: Vocabulary) -> None:
    lengths = Vocabulary.from_sections(
        {
            name: {key: [float(np.linalg.norm(each.rows[row]))] for key, row in each.index.items()}
            for name, each in vocabulary.sections.items()
        }
    )
    bound = embed(module, lengths, level="instruction").vectors[:, 0]
    found = embed(module, vocabulary, level="instruction", kind="flow-normalized").vectors
    assert (np.linalg.norm(found, axis=1) <= bound * (1 + 1e-9)).all()
    symbolic = embed(module, vocabulary, level="instruction").vectors
    assert not np.allclose(found, symbolic)


def test_what_was_not_read_is_refused_with_a_hint(vocabulary: Vocabulary) -> None:
    module = read_ir(NESTED, options=ReadOptions(definitions=False))
    with pytest.raises(SpecError, match="without definitions"):
        embed(module, vocabulary, kind="flow-aware")
    with pytest.raises(SpecError, match="without loops") as caught:
        embed(module, vocabulary, level="loop")
    assert "loops=True" in str(caught.value.hint)
    with pytest.raises(SpecError, match="unknown level or kind") as caught:
        embed(module, vocabulary, level="program")
    assert "instruction" in str(caught.value.hint)


def test_a_vocabulary_for_machine_code_is_refused(module: ParsedModule) -> None:
    from pymlgo.embed import MIRVocabulary

    sections = ("Opcodes", "CommonOperands", "PhysicalRegisters", "VirtualRegisters")
    with pytest.raises(VocabularyError, match="expected a Vocabulary and Weights, found MIRVocabulary"):
        embed(module, MIRVocabulary.from_sections({name: {"x": [1]} for name in sections}))
