"""A log of what a runner saw and decided."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from policy_samples import SCALARS, observations, sample_policies
from pymlgo import ModelUnderTrainingRunner, NoInferenceModelRunner, TensorSpec
from pymlgo.policy.directory import save_policy
from pymlgo.policy.interpreter import evaluate_batch
from pymlgo.runner.logger import RunnerLogger
from pymlgo.training_log import read_log

DECISION = TensorSpec("inlining_decision", "int64_t", (1,))


@pytest.mark.spec("model-runner.logging")
def test_a_heuristic_captured_through_no_inference(tmp_path: Path) -> None:
    runner = NoInferenceModelRunner(SCALARS)
    batch = observations(sample_policies()["mlp"], 30)
    with (tmp_path / "log").open("wb") as stream:
        logger = RunnerLogger(stream, runner, decision=DECISION, score=TensorSpec("size_delta", "int64_t", (1,)))
        for context in ("f", "g"):
            logger.switch_context(context)
            for index in range(15):
                for place, spec in enumerate(SCALARS):
                    runner.get_tensor(place)[...] = batch[spec.name][index]
                logger.log(int(batch["cost_estimate"][index, 0] <= 0), outcome=index)
    log = read_log(tmp_path / "log")
    assert log.error is None
    assert [spec.name for spec in log.header.features] == [*(s.name for s in SCALARS), "inlining_decision"]
    assert log.header.action == DECISION
    assert [context.name for context in log.contexts] == ["f", "g"]
    for context in log.contexts:
        np.testing.assert_array_equal(context.features["cost_estimate"], batch["cost_estimate"][:15])
        np.testing.assert_array_equal(context.features["inlining_decision"], batch["cost_estimate"][:15] <= 0)
        assert context.outcomes is not None
        assert context.outcomes.ravel().tolist() == list(range(15))


@pytest.mark.spec("model-runner.logging")
@pytest.mark.parametrize("executor", ["interpreter", "litert"])
def test_extra_outputs_stand_before_the_decision(executor: str, tmp_path: Path) -> None:
    policy = sample_policies()["upstream_inliner"]
    save_policy(policy, tmp_path / "policy")
    runner = ModelUnderTrainingRunner(SCALARS, tmp_path / "policy", executor=executor)
    batch = observations(policy, 20)
    with (tmp_path / "log").open("wb") as stream:
        logger = RunnerLogger(stream, runner)
        logger.switch_context("")
        for index in range(20):
            for place, spec in enumerate(SCALARS):
                runner.get_tensor(place)[...] = batch[spec.name][index]
            logger.log(runner.evaluate())
    (context,) = read_log(tmp_path / "log").contexts
    assert list(context.features)[-2:] == ["logits", "inlining_decision"]
    expected = evaluate_batch(policy.graph, batch)
    np.testing.assert_array_equal(context.features["inlining_decision"], expected["inlining_decision"])
    np.testing.assert_allclose(context.features["logits"], expected["logits"], rtol=1e-4, atol=1e-5)


def test_the_logger_tells_the_runner_of_contexts() -> None:
    class Listens(NoInferenceModelRunner):
        heard: tuple[str, ...] = ()

        def switch_context(self, name: str) -> None:
            self.heard += (name,)

    runner = Listens(SCALARS)
    logger = RunnerLogger(io.BytesIO(), runner, decision=DECISION)
    logger.switch_context("f")
    logger.switch_context("g")
    assert runner.heard == ("f", "g")
