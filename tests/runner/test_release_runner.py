"""Compiled policies, called through their C interface."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import numpy as np
import pytest

from policy_samples import SCALARS, observations, row, sample_policies
from pymlgo import ReleaseModeModelRunner, TensorSpec
from pymlgo.emit import compile_policies, compile_policy
from pymlgo.errors import PolicyError
from pymlgo.policy.interpreter import evaluate
from pymlgo.policy.shapes import constant_policy, threshold_policy
from pymlgo.runner.release import CompiledModel, selector_words


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    compile_policy(sample_policies()["mlp"], folder / "mlp.so")
    compile_policies(
        {"cheap": threshold_policy(threshold=0), "bold": threshold_policy(threshold=100)}, folder / "two.so", name="two"
    )
    return folder


@pytest.mark.spec("model-runner.release")
@pytest.mark.parametrize("name", ["upstream_inliner", "upstream_eviction", "trees", "priority"])
def test_it_decides_as_the_interpreter_bit_for_bit(name: str, tmp_path: Path) -> None:
    policy = sample_policies()[name]
    compile_policy(policy, tmp_path / "policy.so")
    runner = ReleaseModeModelRunner(policy.graph.inputs, policy.advice, tmp_path / "policy.so")
    batch = observations(policy, 100)
    for index in range(100):
        for place, spec in enumerate(runner.inputs):
            runner.get_tensor(place)[...] = batch[spec.name][index]
        assert runner.evaluate() == evaluate(policy.graph, row(batch, index))[policy.advice].item()


def test_buffers_are_the_policy_s_own(compiled: Path) -> None:
    runner = ReleaseModeModelRunner(SCALARS, "inlining_decision", compiled / "mlp.so")
    for index in range(len(SCALARS)):
        assert runner.get_tensor(index).ctypes.data % 64 == 0


def test_buffers_outlive_a_forgotten_runner(compiled: Path) -> None:
    runner = ReleaseModeModelRunner(SCALARS, "inlining_decision", compiled / "mlp.so")
    kept = runner.get_tensor(0)
    del runner
    gc.collect()
    kept[...] = 7
    assert kept[0] == 7


def test_instances_are_independent_and_may_run_in_threads(compiled: Path) -> None:
    wrong: list[int] = []

    def work(cost: int) -> None:
        runner = ReleaseModeModelRunner(SCALARS, "inlining_decision", compiled / "two.so", model_selector="cheap")
        place = [spec.name for spec in SCALARS].index("cost_estimate")
        runner.get_tensor(place)[0] = cost
        wrong.extend(cost for _ in range(500) if runner.evaluate() != (cost <= 0))

    threads = [threading.Thread(target=work, args=(cost,)) for cost in (-1, 1, 0, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.spec("model-runner.versioning")
def test_the_compiler_may_lack_a_feature_that_has_a_default(compiled: Path) -> None:
    few = [spec for spec in SCALARS if spec.name != "switch_penalty"]
    runner = ReleaseModeModelRunner(few, "inlining_decision", compiled / "mlp.so")
    assert runner.evaluate() in (0, 1)
    with pytest.raises(PolicyError, match="needs 'callee_users', which the compiler does not have"):
        ReleaseModeModelRunner(few[1:], "inlining_decision", compiled / "mlp.so")


@pytest.mark.spec("model-runner.mismatch")
def test_a_mismatch_names_both_sides(compiled: Path) -> None:
    changed = [SCALARS[0], TensorSpec("cost_estimate", "int32_t", (1,)), *SCALARS[2:]]
    with pytest.raises(PolicyError, match=r"'cost_estimate': .*takes int64_t \[1\], the compiler has int32_t \[1\]"):
        ReleaseModeModelRunner(changed, "inlining_decision", compiled / "mlp.so")


@pytest.mark.spec("model-runner.selector")
def test_a_selector_picks_one_of_several(compiled: Path) -> None:
    for name, expected in (("cheap", 0), ("bold", 1)):
        runner = ReleaseModeModelRunner(SCALARS, "inlining_decision", compiled / "two.so", model_selector=name)
        runner.get_tensor([spec.name for spec in SCALARS].index("cost_estimate"))[0] = 50
        assert runner.evaluate() == expected


@pytest.mark.spec("model-runner.selector")
def test_selectors_that_do_not_fit(compiled: Path) -> None:
    for library, selector, message in (
        ("two.so", "", "holds cheap, bold; model_selector is ''"),
        ("two.so", "other", "holds cheap, bold; model_selector is 'other'"),
        ("mlp.so", "cheap", "holds one policy and takes no model_selector 'cheap'"),
    ):
        with pytest.raises(PolicyError, match=message):
            ReleaseModeModelRunner(SCALARS, "inlining_decision", compiled / library, model_selector=selector)


@pytest.mark.spec("model-runner.selector")
def test_selector_words_are_llvm_s() -> None:
    # llvm::MD5::hash of "foo": high(), low()
    assert selector_words("foo") == (0xD8A4C4CC4F65EFED, 0x5CF8C24CDB18BDAC)


def test_a_selector_written_over_is_noticed(compiled: Path) -> None:
    model = CompiledModel(compiled / "two.so")
    assert model.model_names == ("cheap", "bold")
    place = [spec.name for spec in model.inputs].index("model_selector")
    model.input_arrays[place][:] = 1
    with pytest.raises(PolicyError, match="model_selector"):
        model.run()


def test_a_policy_compiled_again_is_the_new_one(tmp_path: Path) -> None:
    advice = TensorSpec("inlining_decision", "int64_t", (1,))
    runners = []
    for value in (0, 1):
        compile_policy(constant_policy("inlining", advice, value), tmp_path / "policy.so")
        runners.append(ReleaseModeModelRunner(SCALARS, "inlining_decision", tmp_path / "policy.so"))
    assert [runner.evaluate() for runner in runners] == [0, 1]


def test_files_that_are_no_compiled_policy(tmp_path: Path, compiled: Path) -> None:
    (tmp_path / "text.so").write_text("text")
    (tmp_path / "cut.so").write_bytes((compiled / "mlp.so").read_bytes()[:100])
    for name in ("text.so", "missing.so", "cut.so"):
        with pytest.raises(PolicyError, match="no compiled policy") as caught:
            ReleaseModeModelRunner(SCALARS, "inlining_decision", tmp_path / name)
        assert "mlgo policy compile" in str(caught.value.hint)
    with pytest.raises(PolicyError, match="no compiled policy"):
        CompiledModel(
            Path(np.__file__).parent
            / "_core"
            / next(path.name for path in (Path(np.__file__).parent / "_core").glob("_multiarray_umath*.so"))
        )


def test_a_decision_that_it_does_not_make(compiled: Path) -> None:
    with pytest.raises(PolicyError, match="makes inlining_decision, score, not 'priority'"):
        ReleaseModeModelRunner(SCALARS, "priority", compiled / "mlp.so")
