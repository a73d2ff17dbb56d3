"""Loops and regions of machine IR, against what the text's control flow says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from embed_oracle import TRIPLES, machine_code, needs_core, random_mir_vocabulary, same_bits

from pymlgo.embed import ParsedModule, ReadOptions, embed, embed_blocks_of, read_mir, shipped_mir_vocabulary
from pymlgo.errors import SpecError

pytestmark = [pytest.mark.llvm, needs_core]


@pytest.fixture(scope="module", params=TRIPLES)
def mir(request: pytest.FixtureRequest, clang22: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return machine_code(clang22, tmp_path_factory.mktemp("mir"), request.param)


@pytest.fixture(scope="module")
def module(mir: Path) -> ParsedModule:
    return read_mir(mir, options=ReadOptions(loops=True, regions=True, isolated=False))


def control_flow(path: Path) -> dict[str, list[list[int]]]:
    """For each function of a .mir file, the successors of each block, all by their place in the layout."""
    found: dict[str, list[list[int]]] = {}
    for part in re.split(r"^--- *$", path.read_text(), flags=re.MULTILINE):
        name = re.search(r"^name: +(\S+)", part, re.MULTILINE)
        blocks = re.split(r"^  bb\.(\d+).*:$", part, flags=re.MULTILINE)
        if name is None or len(blocks) == 1:
            continue
        place = {number: at for at, number in enumerate(blocks[1::2])}
        lines = [re.search(r"^    successors: (.*)$", block, re.MULTILINE) for block in blocks[2::2]]
        found[name[1]] = [[place[to] for to in re.findall(r"%bb\.(\d+)", line[1])] if line else [] for line in lines]
    return found


def natural_loops(successors: list[list[int]]) -> dict[int, set[int]]:
    """Header to blocks, from the definition: the edges to a block that dominates where they start."""
    blocks = range(len(successors))
    reached = reachable(successors, removed=-1)
    dominators = {block: {at for at in reached if block not in reachable(successors, at)} for block in reached}
    loops: dict[int, set[int]] = {}
    for tail in sorted(reached):
        for header in set(successors[tail]) & dominators[tail]:
            body, open_ = loops.setdefault(header, {header}), [tail]
            while open_:
                block = open_.pop()
                if block not in body:
                    body.add(block)
                    open_ += [each for each in blocks if block in successors[each] and each in reached]
    return loops


def reachable(successors: list[list[int]], removed: int) -> set[int]:
    found: set[int] = set()
    open_ = [0]
    while open_:
        block = open_.pop()
        if block not in found and block != removed:
            found.add(block)
            open_ += successors[block]
    return found


@pytest.mark.spec("mir2vec.levels")
def test_loops_are_those_of_the_control_flow(mir: Path, module: ParsedModule, tmp_path: Path) -> None:
    vocabulary = random_mir_vocabulary(tmp_path / "v.json", module.entities, dimension=3)
    found = embed(module, vocabulary, level="loop")
    blocks = embed(module, vocabulary, level="block")
    depths, parents = found.depth, found.parent
    assert depths is not None
    assert parents is not None
    loops = 0
    for name, successors in control_flow(mir).items():
        number = module.function(name).number
        rows = np.flatnonzero(found.function == number)
        vectors = blocks.of_function(name)
        expected = natural_loops(successors)
        assert sorted(found.block[rows].tolist()) == sorted(expected), name
        for row in rows:
            members = expected[int(found.block[row])]
            assert same_bits(found.vectors[row], sum((vectors[block] for block in sorted(members)), np.zeros(3)))
            around = [other for other in expected.values() if members < other]
            assert depths[row] == 1 + len(around)
            parent = min(around, key=len, default=None)
            assert (expected[int(found.block[parents[row]])] if parents[row] >= 0 else None) == parent
        loops += len(rows)
    assert loops >= 4
    assert (depths > 1).any()


@pytest.mark.spec("mir2vec.levels")
def test_regions_have_one_entry_and_one_exit(mir: Path, module: ParsedModule, tmp_path: Path) -> None:
    vocabulary = random_mir_vocabulary(tmp_path / "v.json", module.entities, dimension=3)
    vectors = embed(module, vocabulary, level="region").vectors
    walk = module.walk
    firsts, regions = walk.first_member, np.flatnonzero(walk.set_kind == 1)
    assert len(regions) > len(module.functions)
    flow = control_flow(mir)
    for row, region in enumerate(regions):
        function = module.functions[int(walk.set_function[region])]
        base, successors = int(walk.first_block[function.number]), flow[function.name]
        members = {int(each) - base for each in walk.member[firsts[region] : firsts[region + 1]]}
        entry, leaving = int(walk.set_entry[region]) - base, int(walk.set_exit[region])
        edges = [(start, end) for start, ends in enumerate(successors) for end in ends]
        assert {end for start, end in edges if start not in members and end in members} <= {entry}
        assert {end for start, end in edges if start in members and end not in members} <= {leaving - base}
        assert leaving == 2**32 - 1 or leaving - base not in members
        if walk.set_depth[region] == 0:
            assert members == set(range(len(successors)))
        blocks = embed_blocks_of(module, vocabulary, [(function.number, sorted(members))])
        assert same_bits(vectors[row], blocks[0])


@pytest.mark.spec("mir2vec.levels")
def test_loops_and_regions_are_the_same_from_text_and_from_ir_in_another_process(
    mir: Path, module: ParsedModule
) -> None:
    other = read_mir(mir.with_suffix(".ll"), options=ReadOptions(loops=True, regions=True))
    for name in ("set_kind", "set_function", "set_parent", "set_depth", "set_entry", "set_exit", "member"):
        assert np.array_equal(getattr(other.walk, name), getattr(module.walk, name)), name
    with pytest.raises(SpecError, match="was read without loops"):
        embed(read_mir(mir), shipped_mir_vocabulary(), level="loop")
