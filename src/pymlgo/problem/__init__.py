"""What LLVM asks about: inlining, register eviction and register priority, as data."""

from __future__ import annotations

from pymlgo.problem.default import default_advice, default_flags, require_default
from pymlgo.problem.problems import EVICTION, INLINING, PRIORITY, PROBLEMS, Problem, problem_named

__all__ = [
    "EVICTION",
    "INLINING",
    "PRIORITY",
    "PROBLEMS",
    "Problem",
    "default_advice",
    "default_flags",
    "problem_named",
    "require_default",
]
