"""The four runners keep the contract, and the check finds runners that do not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from interactive_hosts import answering

import pymlgo
from policy_samples import SCALARS, sample_policies
from pymlgo import (
    MLModelRunner,
    ModelUnderTrainingRunner,
    NoInferenceModelRunner,
    ReleaseModeModelRunner,
    TensorSpec,
)
from pymlgo.emit import compile_policy
from pymlgo.errors import PolicyError, SpecError
from pymlgo.policy.directory import save_policy
from pymlgo.testing.runner_contract import check_model_runner

INPUTS = {name: policy.graph.inputs for name, policy in sample_policies().items()}
ADVICE = TensorSpec("inlining_decision", "int64_t", (1,))


@pytest.mark.spec("model-runner.no-inference")
def test_no_inference() -> None:
    check_model_runner(NoInferenceModelRunner, SCALARS, evaluates=False)


@pytest.mark.spec("model-runner.under-training")
@pytest.mark.parametrize("executor", ["interpreter", "litert"])
@pytest.mark.parametrize("name", ["mlp", "trees", "upstream_inliner", "upstream_eviction", "priority"])
def test_under_training(name: str, executor: str, tmp_path: Path) -> None:
    save_policy(sample_policies()[name], tmp_path)
    check_model_runner(lambda specs: ModelUnderTrainingRunner(specs, tmp_path, executor=executor), INPUTS[name])


@pytest.mark.spec("model-runner.release")
@pytest.mark.parametrize("name", ["mlp", "trees", "upstream_eviction"])
def test_release(name: str, tmp_path: Path) -> None:
    policy = sample_policies()[name]
    compile_policy(policy, tmp_path / "policy.so")
    check_model_runner(lambda specs: ReleaseModeModelRunner(specs, policy.advice, tmp_path / "policy.so"), INPUTS[name])


@pytest.mark.spec("model-runner.interactive")
def test_interactive(tmp_path: Path) -> None:
    def decide(features: dict[str, np.ndarray]) -> int:
        return int(sum(features[spec.name].sum() for spec in SCALARS) % 7)

    with answering(tmp_path, decide) as runner:
        check_model_runner(lambda specs: runner(specs, ADVICE), SCALARS, knows_types=False)


# --- runners that break it ----------------------------------------------------------------------------------


class Honest(MLModelRunner):
    """Adds its features up."""

    def __init__(self, inputs: Sequence[TensorSpec]) -> None:
        super().__init__(inputs, ADVICE)
        for index, spec in enumerate(inputs):
            if spec.name == SCALARS[0].name and (spec.type, spec.shape) != ("int64_t", (1,)):
                raise PolicyError(f"feature {spec.name!r} is of another type")
            self.set_up_buffer_for_tensor(index, spec, self.buffer(spec))

    def buffer(self, spec: TensorSpec) -> np.ndarray | None:
        return None

    def evaluate_untyped(self) -> np.ndarray:
        return np.asarray([sum(int(self.get_tensor(index).sum()) for index in range(len(SCALARS)))])


class ForgetsInputs(Honest):
    def evaluate_untyped(self) -> np.ndarray:
        made = super().evaluate_untyped()
        self.get_tensor(1)[...] = 0
        return made


class CountsUnknownFeatures(Honest):
    def evaluate_untyped(self) -> np.ndarray:
        return super().evaluate_untyped() + int(self.get_tensor(len(SCALARS)).sum())


class IsRandom(Honest):
    def evaluate_untyped(self) -> np.ndarray:
        return np.random.default_rng().integers(0, 2**60, 1)


class MovesBuffers(Honest):
    def switch_context(self, name: str) -> None:
        self._buffers = [None if each is None else each.copy() for each in self._buffers]


class SharesBuffers(Honest):
    shared = np.zeros(1, np.int64)

    def buffer(self, spec: TensorSpec) -> np.ndarray | None:
        return self.shared if spec.type == "int64_t" and spec.shape == (1,) else None


class AdvisesFloats(Honest):
    def evaluate_untyped(self) -> np.ndarray:
        return super().evaluate_untyped().astype(np.float32)


class TakesAnything(Honest):
    def __init__(self, inputs: Sequence[TensorSpec]) -> None:
        MLModelRunner.__init__(self, inputs, ADVICE)
        for index, spec in enumerate(inputs):
            self.set_up_buffer_for_tensor(index, spec, None)


@pytest.mark.spec("model-runner.evaluate")
def test_the_check_accepts_an_honest_runner() -> None:
    check_model_runner(Honest, SCALARS)


@pytest.mark.parametrize(
    ("broken", "clause"),
    [
        (ForgetsInputs, "evaluate leaves the buffer of 'cost_estimate' as it is"),
        (CountsUnknownFeatures, "features that the model does not know do not change the decision"),
        (IsRandom, "equal features make equal decisions"),
        (MovesBuffers, "the buffer of 'callee_users' keeps its address"),
        (SharesBuffers, "buffers do not overlap"),
        (AdvisesFloats, "the advice is"),
        (TakesAnything, "was accepted"),
    ],
)
def test_the_check_finds_what_is_broken(broken: type[Honest], clause: str) -> None:
    with pytest.raises(AssertionError, match=clause):
        check_model_runner(broken, SCALARS)


# --- MLModelRunner itself -----------------------------------------------------------------------------------


@pytest.mark.spec("model-runner.buffers")
@pytest.mark.spec("model-runner.access")
def test_buffers_of_the_implementer_are_used_as_they_are() -> None:
    mine = np.zeros(1, np.int64)

    class Mine(Honest):
        def buffer(self, spec: TensorSpec) -> np.ndarray | None:
            return mine if spec.name == "cost_estimate" else None

    runner = Mine(SCALARS)
    runner.get_tensor(1)[0] = 42
    assert mine[0] == 42
    assert bytes(runner.get_tensor_untyped(1)) == mine.tobytes()


@pytest.mark.spec("model-runner.binding")
def test_wrong_buffers_and_specs_are_refused() -> None:
    class Late(MLModelRunner):
        def evaluate_untyped(self) -> np.ndarray:
            return np.zeros(1, np.int64)

    runner = Late(SCALARS, ADVICE)
    with pytest.raises(SpecError, match="has no buffer"):
        runner.get_tensor(0)
    with pytest.raises(SpecError, match="input 0 is"):
        runner.set_up_buffer_for_tensor(0, SCALARS[1], None)
    for wrong in (np.zeros(2, np.int64), np.zeros(1, np.int32), np.zeros(2, np.int64)[::2][:1].reshape(1, 1)):
        with pytest.raises(SpecError, match="must be a contiguous writable int64_t"):
            runner.set_up_buffer_for_tensor(0, SCALARS[0], wrong)
    read_only = np.zeros(1, np.int64)
    read_only.flags.writeable = False
    with pytest.raises(SpecError, match="contiguous writable"):
        runner.set_up_buffer_for_tensor(0, SCALARS[0], read_only)


def test_two_features_of_one_name_are_refused() -> None:
    with pytest.raises(SpecError, match="'cost_estimate' stands there twice"):
        NoInferenceModelRunner([SCALARS[1], SCALARS[1]])


def test_the_package_offers_the_runners() -> None:
    for name in (
        "TensorSpec",
        "MLModelRunner",
        "NoInferenceModelRunner",
        "InteractiveModelRunner",
        "ModelUnderTrainingRunner",
        "ReleaseModeModelRunner",
    ):
        assert getattr(pymlgo, name).__name__ == name
