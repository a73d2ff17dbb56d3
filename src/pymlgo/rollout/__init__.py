"""One compile under a policy or overrides is a job; backends run it, executors run many."""

from __future__ import annotations

from pymlgo.rollout.backend import Backend
from pymlgo.rollout.baseline import BaselineCache, measure_baselines
from pymlgo.rollout.engine import Engine, open_engine
from pymlgo.rollout.executor import Executor, LocalExecutor, in_order
from pymlgo.rollout.fastest import fastest_backend
from pymlgo.rollout.job import (
    Job,
    Outcome,
    Overrides,
    RolloutFailure,
    RolloutResult,
    Sizes,
    Trajectory,
    change_percent,
    failures_by_reason,
    failures_of_unusable,
)
from pymlgo.rollout.keys import decision_key
from pymlgo.rollout.pipes import PipesBackend
from pymlgo.rollout.plain import PlainBackend
from pymlgo.rollout.plugin import PluginBackend
from pymlgo.rollout.ray_executor import RayExecutor

__all__ = [
    "Backend",
    "BaselineCache",
    "Engine",
    "Executor",
    "Job",
    "LocalExecutor",
    "Outcome",
    "Overrides",
    "PipesBackend",
    "PlainBackend",
    "PluginBackend",
    "RayExecutor",
    "RolloutFailure",
    "RolloutResult",
    "Sizes",
    "Trajectory",
    "change_percent",
    "decision_key",
    "failures_by_reason",
    "failures_of_unusable",
    "fastest_backend",
    "in_order",
    "measure_baselines",
    "open_engine",
]
