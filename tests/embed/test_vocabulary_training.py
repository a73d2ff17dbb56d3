"""Training: repeatable, resumable, and what comes out is what LLVM loads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from embed_oracle import C_SOURCE, compiled, needs_core

from conftest import require_tool
from pymlgo.embed import KnowledgeGraph, MIRVocabulary, Vocabulary, ir_entities, knowledge_graph, read_ir, read_mir
from pymlgo.embed.core import core
from pymlgo.embed.shipped import FOLDER, RARE_IR, SHIPPED, shipped_mir_vocabulary, shipped_vocabulary
from pymlgo.embed.transe import TransE, TransESettings, train
from pymlgo.embed.vocabulary_training import analogies, quality_of, vocabulary_of
from pymlgo.errors import ConfigError, CorpusError, VocabularyError

pytestmark = [pytest.mark.llvm, needs_core]

SMALL = TransESettings(dimension=12, epochs=30, batch=128, seed=5)


@pytest.fixture(scope="module")
def graph(clang22: Path, tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    folder = tmp_path_factory.mktemp("graph")
    paths = [compiled(clang22, C_SOURCE, folder / f"c{level}.bc", f"-O{level}") for level in (0, 2)]
    return knowledge_graph([read_ir(path) for path in [*paths, RARE_IR]], predicates=True)


@pytest.fixture(scope="module")
def model(graph: KnowledgeGraph) -> TransE:
    return train(graph, SMALL)


@pytest.mark.spec("ir2vec.training")
def test_equal_seeds_give_equal_bits_and_others_do_not(graph: KnowledgeGraph, model: TransE) -> None:
    again = train(graph, SMALL)
    assert np.array_equal(again.entities, model.entities)
    other = train(graph, TransESettings(dimension=12, epochs=2, batch=128, seed=6))
    assert not np.array_equal(other.entities, model.entities)


def test_training_lowers_the_loss_and_ranks_true_tails_first(graph: KnowledgeGraph, model: TransE) -> None:
    losses: list[float] = []
    train(graph, SMALL, on_epoch=lambda epoch, loss: losses.append(loss))
    assert losses[-1] < losses[0] / 2
    before = quality_of(TransE.start(graph, SMALL), graph)
    after = quality_of(model, graph)
    assert after.hit_at_10 > 0.7 > before.hit_at_10
    assert after.mean_rank < before.mean_rank / 3


@pytest.mark.spec("ir2vec.training")
def test_an_interrupted_run_continues_exactly(graph: KnowledgeGraph, model: TransE, tmp_path: Path) -> None:
    class Interrupted(Exception):
        pass

    def stop_at_17(epoch: int, loss: float) -> None:
        if epoch == 17:
            raise Interrupted

    checkpoint = tmp_path / "run.npz"
    with pytest.raises(Interrupted):
        train(graph, SMALL, checkpoint=checkpoint, each_epochs=5, on_epoch=stop_at_17)
    epochs: list[int] = []
    resumed = train(
        graph, SMALL, checkpoint=checkpoint, each_epochs=5, on_epoch=lambda epoch, loss: epochs.append(epoch)
    )
    assert epochs[0] == 16
    assert np.array_equal(resumed.entities, model.entities)


def test_a_checkpoint_of_another_run_is_refused(graph: KnowledgeGraph, tmp_path: Path) -> None:
    checkpoint = tmp_path / "run.npz"
    train(graph, TransESettings(dimension=12, epochs=1), checkpoint=checkpoint)
    with pytest.raises(CorpusError, match="other settings or triplets"):
        train(graph, TransESettings(dimension=12, epochs=2), checkpoint=checkpoint)
    checkpoint.write_bytes(b"damaged")
    with pytest.raises(CorpusError, match="no checkpoint"):
        train(graph, SMALL, checkpoint=checkpoint)


def test_the_gradient_is_that_of_the_loss(graph: KnowledgeGraph) -> None:
    """One step of plain descent along a numerical gradient changes the loss as the written-out gradient says."""
    from pymlgo.embed.transe import _normalised, _through_normalisation

    rng = np.random.default_rng(0)
    rows, direction = rng.standard_normal((5, 7)), rng.standard_normal((5, 7))
    target = rng.standard_normal((5, 7))

    def loss(values: np.ndarray) -> float:
        return float((_normalised(values)[0] * target).sum())

    unit, lengths = _normalised(rows)
    written = float((_through_normalisation(target, unit, lengths) * direction).sum())
    step = 1e-6
    numerical = (loss(rows + step * direction) - loss(rows - step * direction)) / (2 * step)
    assert written == pytest.approx(numerical, rel=1e-6)


@pytest.mark.spec("ir2vec.training")
def test_a_trained_vocabulary_has_every_entity_and_llvm_loads_it(
    graph: KnowledgeGraph, model: TransE, tmp_path: Path
) -> None:
    vocabulary = vocabulary_of(model, graph, SMALL, {"corpus": "test"})
    assert isinstance(vocabulary, Vocabulary)
    assert vocabulary.present(ir_entities()).all()
    assert vocabulary.provenance["entities_not_in_corpus"] == [
        "UserOp1", "UserOp2", "LabelTy", "MetadataTy", "FunctionTy",
    ] or set(vocabulary.provenance["entities_not_in_corpus"]) >= {"UserOp1", "UserOp2"}  # fmt: skip
    lengths = np.linalg.norm(np.concatenate([each.rows for each in vocabulary.sections.values()]), axis=1)
    np.testing.assert_allclose(lengths, 1.0, atol=1e-3)
    vocabulary.save(tmp_path / "v.json")
    (tmp_path / "m.ll").write_text("define i32 @f(i32 %x) {\n ret i32 %x\n}\n")
    tool = require_tool("llvm-ir2vec-22")
    command = [tool, "embeddings", f"--ir2vec-vocab-path={tmp_path / 'v.json'}", tmp_path / "m.ll"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.startswith("Function: f\n [")


def test_machine_vocabularies_are_trained_the_same_way(clang22: Path, tmp_path: Path) -> None:
    module = read_mir(compiled(clang22, C_SOURCE, tmp_path / "c.bc", "-O2"))
    graph = knowledge_graph([module])
    vocabulary = vocabulary_of(train(graph, TransESettings(dimension=8, epochs=3)), graph, SMALL_8, {})
    assert isinstance(vocabulary, MIRVocabulary)
    assert vocabulary.present(module.entities).all()


SMALL_8 = TransESettings(dimension=8, epochs=3)


def test_impossible_settings_are_refused() -> None:
    for wrong in ({"dimension": 0}, {"margin": -1.0}, {"learning_rate": float("nan")}, {"frequency_power": 2.0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            TransESettings(**wrong)


def test_an_empty_graph_is_refused() -> None:
    with pytest.raises(CorpusError, match="no triplets"):
        train(knowledge_graph([read_ir(b"declare void @f()\n")]), SMALL)


def test_analogies_ask_only_what_was_trained(graph: KnowledgeGraph) -> None:
    count = len(graph.used_entities())
    right, asked = analogies(np.eye(count), graph, (("Add", "FAdd", "Sub", "FSub"), ("Add", "FAdd", "Sub", "UserOp1")))
    assert asked == 1
    assert right in (0, 1)


def test_the_shipped_ir_vocabulary_has_every_entity_and_its_provenance() -> None:
    vocabulary = shipped_vocabulary()
    assert vocabulary.dimension == 75
    assert vocabulary.present(ir_entities()).all()
    assert not vocabulary.unknown_keys(ir_entities())
    assert vocabulary.layout["llvm"] == core().llvm_version()
    assert vocabulary.provenance["licence"] == "Apache-2.0 WITH LLVM-exception"
    assert "zlib" in str(vocabulary.provenance["corpus"])
    assert vocabulary.provenance["quality"]["hit_at_10"] > 0.9


@pytest.mark.spec("mir2vec.vocabulary")
def test_the_shipped_machine_vocabulary_has_every_entity(tmp_path: Path, clang22: Path) -> None:
    from pymlgo.embed import mir_entities

    vocabulary = shipped_mir_vocabulary()
    assert vocabulary.present(mir_entities("x86_64-linux-gnu")).all()
    assert vocabulary.provenance["licence"] == "Apache-2.0 WITH LLVM-exception"
    assert vocabulary.provenance["entities_trained"] == {
        "opcodes": "3180 of 6868",
        "common_operands": "11 of 20",
        "physical_registers": "39 of 135",
        "virtual_registers": "44 of 135",
    }
    with pytest.raises(VocabularyError, match="no MIR vocabulary for target riscv64"):
        shipped_mir_vocabulary("riscv64")


def test_llvm_loads_the_shipped_vocabularies(clang22: Path, tmp_path: Path) -> None:
    tool, llc = require_tool("llvm-ir2vec-22"), require_tool("llc-22")
    ir = tmp_path / "m.ll"
    ir.write_text(
        'target triple = "x86_64-linux-gnu"\ndefine i32 @f(i32 %x, i32 %y) {\n %z = add i32 %x, %y\n ret i32 %z\n}\n'
    )
    subprocess.run([llc, "-stop-after=finalize-isel", ir, "-o", tmp_path / "m.mir"], check=True)
    for name, mode, prefix, file in (("ir", "llvm", "ir2vec", "m.ll"), ("mir-x86-64", "mir", "mir2vec", "m.mir")):
        command = [
            tool,
            "embeddings",
            f"--mode={mode}",
            f"--{prefix}-vocab-path={FOLDER / SHIPPED[name]}",
            tmp_path / file,
        ]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        numbers = [float(each) for each in printed[printed.rindex("[") + 1 : printed.rindex("]")].split()]
        assert any(numbers)
