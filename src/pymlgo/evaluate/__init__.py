"""Measures of a policy: totals, intervals, programs, worst modules; always against LLVM's default."""

from __future__ import annotations

from pymlgo.evaluate.evaluate import evaluate
from pymlgo.evaluate.evaluation import Evaluation, ProgramChange

__all__ = ["Evaluation", "ProgramChange", "evaluate"]
