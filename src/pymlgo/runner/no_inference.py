"""A store for feature values without a model behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from pymlgo.errors import PolicyError
from pymlgo.runner.model_runner import MLModelRunner
from pymlgo.tensor_spec import TensorSpec

NO_ADVICE = TensorSpec("no_advice", "int64_t", (1,))


class NoInferenceModelRunner(MLModelRunner):
    """Holds the features of a decision that somebody else makes, so that a log can take them: `evaluate` raises.

    Source: llvm/Analysis/NoInferenceModelRunner.h (LLVM 22), where evaluating is unreachable.
    """

    def __init__(self, inputs: Sequence[TensorSpec], advice: TensorSpec = NO_ADVICE) -> None:
        super().__init__(inputs, advice)
        for index, spec in enumerate(inputs):
            self.set_up_buffer_for_tensor(index, spec, None)

    def evaluate_untyped(self) -> NoReturn:
        """Raise.

        Raises:
            PolicyError: always.
        """
        raise PolicyError(
            "a NoInferenceModelRunner holds features and has no model to evaluate",
            hint="use it to log what a heuristic decides; for a model, use one of the other runners",
        )
