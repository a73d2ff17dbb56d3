"""Writes what a runner saw and what was decided to a training log."""

from __future__ import annotations

from typing import BinaryIO

from pymlgo.arrays import AnyArray
from pymlgo.runner.model_runner import MLModelRunner
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log import Header, LogWriter


class RunnerLogger:
    """A training log of one runner's decisions: its features, the extra outputs of its model, then the decision.

    Because `evaluate` leaves the buffers as they are, `log` may be called after it; with a `NoInferenceModelRunner` it
    captures what a heuristic decides.

    Source: DevelopmentModeMLInlineAdvisor's TrainingLogger in llvm/lib/Analysis/DevelopmentModeInlineAdvisor.cpp (LLVM
    22) for the order of the features.

    Args:
        stream: binary, stays the caller's to close.
        runner: whose features are logged.
        decision: the decision's tensor; by default the runner's advice.
        score: what outcomes are, if there are any.
    """

    def __init__(
        self,
        stream: BinaryIO,
        runner: MLModelRunner,
        *,
        decision: TensorSpec | None = None,
        score: TensorSpec | None = None,
    ) -> None:
        self._runner = runner
        self._decision = decision or runner.advice
        features = (*runner.inputs, *runner.extra_outputs, self._decision)
        self._writer = LogWriter(stream, Header(features=features, score=score))

    def switch_context(self, name: str) -> None:
        """The next decisions belong to `name`; tells the runner too."""
        self._runner.switch_context(name)
        self._writer.context(name)

    def log(self, decision: int | float | AnyArray, outcome: object = None) -> None:
        """Write one decision with the features that the runner's buffers hold now.

        Args:
            decision: what was decided.
            outcome: the score, where the log has one.
        """
        runner = self._runner
        values: dict[str, object] = {spec.name: runner.get_tensor(index) for index, spec in enumerate(runner.inputs)}
        for index, spec in enumerate(runner.extra_outputs):
            values[spec.name] = runner.extra_output(index)
        values[self._decision.name] = decision
        self._writer.observation(values)
        if outcome is not None:
            self._writer.outcome(outcome)
