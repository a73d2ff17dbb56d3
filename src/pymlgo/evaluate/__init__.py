"""Measures of a policy: totals, intervals, languages, programs, linked sizes; always against LLVM's default."""

from __future__ import annotations

from pymlgo.evaluate.evaluate import evaluate
from pymlgo.evaluate.evaluation import Evaluation, GroupChange, LinkedEvaluation

__all__ = ["Evaluation", "GroupChange", "LinkedEvaluation", "evaluate"]
