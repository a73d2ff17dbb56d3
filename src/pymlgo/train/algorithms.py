"""The algorithms by the class of their options: how each plans its compiles, and how it is made."""

from __future__ import annotations

from typing import TypeAlias

from pymlgo.train.algorithm import Algorithm
from pymlgo.train.flip_regression import FlipRegression, Options, Plan, make_plan
from pymlgo.train.hold_out import HoldOut
from pymlgo.train.workshop import Workshop

AlgorithmOptions: TypeAlias = Options


def algorithm_name(options: AlgorithmOptions) -> str:
    """What the command line calls the algorithm."""
    return "flip-regression"


def plan_for(options: AlgorithmOptions, split: HoldOut, max_compiles: int, seed: int) -> Plan:
    """How the compiles are shared out."""
    return make_plan(split.train, split.validation, max_compiles, options, seed)


def make_algorithm(options: AlgorithmOptions, plan: Plan, seed: int, workshop: Workshop) -> Algorithm:
    """The algorithm that `options` belong to."""
    return FlipRegression(plan=plan, options=options, seed=seed, workshop=workshop)
