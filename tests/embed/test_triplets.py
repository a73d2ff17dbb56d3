"""Triplets and entities: byte for byte what llvm-ir2vec prints, and the graph that training takes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from embed_oracle import C_SOURCE, CPP_SOURCE, HAND_MADE, compiled, needs_core

from conftest import require_tool
from pymlgo.embed import KnowledgeGraph, knowledge_graph, read_ir, triplets, triplets_text
from pymlgo.embed.batch import Source, sources_of
from pymlgo.embed.reader import Reader
from pymlgo.embed.shipped import RARE_IR
from pymlgo.embed.triplets import CountedTriplets, Reading, corpus_graph
from pymlgo.errors import CorpusError

pytestmark = [pytest.mark.llvm, needs_core]


def printed(*arguments: str | Path) -> bytes:
    tool = require_tool("llvm-ir2vec-22")
    return subprocess.run([tool, *arguments], capture_output=True, check=True).stdout


@pytest.mark.spec("ir2vec.triplets")
def test_triplets_of_ir_are_those_of_the_tool(clang22: Path, tmp_path: Path) -> None:
    (tmp_path / "hand.ll").write_text(HAND_MADE)
    (tmp_path / "none.ll").write_text("declare void @f()\n")
    modules = [
        compiled(clang22, C_SOURCE, tmp_path / "c0.bc", "-O0"),
        compiled(clang22, C_SOURCE, tmp_path / "c2.bc", "-O2", "-g", "-fpseudo-probe-for-profiling"),
        compiled(clang22, CPP_SOURCE, tmp_path / "cpp.bc", "-O1", "c++"),
        tmp_path / "hand.ll",
        tmp_path / "none.ll",
        RARE_IR,
    ]
    for path in modules:
        assert triplets_text(read_ir(path)).encode() == printed("triplets", path), path


@pytest.mark.full
def test_triplets_of_both_corpora_are_those_of_the_tool(corpora: Path) -> None:
    paths = sorted(path for part in ("train", "dev") for path in (corpora / part).rglob("*.bc"))
    with Reader() as reader:
        for path in paths:
            assert triplets_text(read_ir(path, reader=reader)).encode() == printed("triplets", path), path


def test_arrays_hold_the_lines_of_the_text(clang22: Path, tmp_path: Path) -> None:
    module = read_ir(compiled(clang22, C_SOURCE, tmp_path / "c.bc", "-O1"))
    lines = triplets_text(module).splitlines()
    assert lines[0] == f"MAX_RELATION={triplets(module)[:, 2].max()}"
    assert triplets(module).tolist() == [[int(each) for each in line.split("\t")] for line in lines[1:]]


COMPARE = b"define i1 @f(i32 %a) {\n %c = icmp slt i32 %a, 5\n %d = fcmp oeq float 1.0, 2.0\n ret i1 %c\n}\n"


@pytest.mark.spec("ir2vec.triplets")
def test_predicates_are_a_relation_of_their_own() -> None:
    module = read_ir(COMPARE)
    names = module.entities.names
    graph = knowledge_graph([module, module], predicates=True)
    assert graph.relations == ("Type", "Next", "Arg0", "Arg1", "Predicate")
    rows = [(names[head], names[tail], graph.relations[relation]) for head, tail, relation in graph.triplets.tolist()]
    counted = dict(zip(rows, graph.counts.tolist(), strict=True))
    assert counted["ICmp", "ICMP_slt", "Predicate"] == 2
    assert counted["FCmp", "FCMP_oeq", "Predicate"] == 2
    assert counted["ICmp", "FCmp", "Next"] == 2
    assert len(triplets(module)) == len(triplets(module, predicates=True)) - 2


@pytest.mark.spec("ir2vec.triplets")
def test_the_graph_counts_each_triplet(clang22: Path, tmp_path: Path) -> None:
    modules = [read_ir(compiled(clang22, C_SOURCE, tmp_path / f"c{level}.bc", f"-O{level}")) for level in (0, 1)]
    graph = knowledge_graph(modules)
    every = np.concatenate([triplets(module) for module in modules])
    rows, counts = np.unique(every, axis=0, return_counts=True)
    assert np.array_equal(graph.triplets, rows)
    assert np.array_equal(graph.counts, counts)


def test_openkes_files_have_openkes_form(tmp_path: Path) -> None:
    graph = knowledge_graph([read_ir(COMPARE)], predicates=True)
    graph.save_openke(tmp_path)
    assert (tmp_path / "entity2id.txt").read_bytes() == printed("entities", "/dev/null")
    assert (tmp_path / "relation2id.txt").read_text().splitlines()[:3] == ["5", "Type\t0", "Next\t1"]
    lines = (tmp_path / "train2id.txt").read_text().splitlines()
    assert int(lines[0]) == len(lines) - 1 == len(graph.triplets)
    assert lines[1:] == ["\t".join(map(str, row)) for row in graph.triplets.tolist()]
    assert [int(line) for line in (tmp_path / "frequency.txt").read_text().splitlines()] == graph.counts.tolist()


def test_counting_in_pieces_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 40, (3000, 3)).astype(np.int32)
    entities = read_ir(COMPARE).entities
    whole, pieces = CountedTriplets(), CountedTriplets()
    whole.add(rows)
    for piece in np.array_split(rows, 7):
        pieces.add(piece)
    one, other = whole.graph(entities), pieces.graph(entities)
    assert np.array_equal(one.triplets, other.triplets)
    assert np.array_equal(one.counts, other.counts)
    assert one.counts.sum() == 3000


def test_a_batch_goes_on_after_a_broken_module(tmp_path: Path) -> None:
    (tmp_path / "good.ll").write_bytes(COMPARE)
    (tmp_path / "bad.ll").write_text("define nonsense")
    sources, _ = sources_of([tmp_path / "bad.ll", tmp_path / "good.ll", tmp_path / "gone.bc"])
    graph, failures = corpus_graph(sources, Reading(), jobs=2)
    assert len(graph.triplets)
    assert [Path(failure.name).name for failure in failures] == ["bad.ll", "gone.bc"]
    assert "expected" in failures[0].reason
    with pytest.raises(CorpusError, match="no module"):
        corpus_graph([Source(name="gone", path=tmp_path / "gone.bc")], Reading())


def test_levels_of_optimization_are_read_beside_each_other(clang22: Path, tmp_path: Path) -> None:
    path = compiled(clang22, C_SOURCE, tmp_path / "c.bc", "-O2", "-Xclang", "-disable-llvm-passes")
    sources, _ = sources_of([path])
    plain, _ = corpus_graph(sources, Reading())
    both, _ = corpus_graph(sources, Reading(levels=("as-is", "O2")))
    assert both.counts.sum() > plain.counts.sum()
    alloca = plain.entities.names.index("Alloca")

    def share(graph: KnowledgeGraph) -> float:
        return float(graph.counts[graph.triplets[:, 0] == alloca].sum() / graph.counts.sum())

    optimized, _ = corpus_graph(sources, Reading(levels=("O2",)))
    assert share(optimized) < share(both) < share(plain)
    _, failures = corpus_graph(sources * 2, Reading(levels=("as-is", "O2")))
    assert not failures
    with pytest.raises(CorpusError, match="no module"):
        corpus_graph(sources, Reading(levels=("O9",)))
