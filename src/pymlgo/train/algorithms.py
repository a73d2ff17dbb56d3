"""The algorithms by the class of their options: how each plans its compiles, and how it is made."""

from __future__ import annotations

from typing import TypeAlias

from pymlgo.errors import ConfigError
from pymlgo.train import evolution, flip_regression, imitation, ppo
from pymlgo.train.algorithm import Algorithm
from pymlgo.train.flip_regression import Plan, make_plan
from pymlgo.train.hold_out import HoldOut
from pymlgo.train.plan import RoundsPlan, plan_rounds
from pymlgo.train.workshop import Workshop

AlgorithmOptions: TypeAlias = flip_regression.Options | evolution.Options | imitation.Options | ppo.Options

OPTIONS: dict[str, type[AlgorithmOptions]] = {
    "flip-regression": flip_regression.Options,
    "es": evolution.Options,
    "bc-max": imitation.Options,
    "ppo": ppo.Options,
}
"""The class of each algorithm's options, by what the command line calls the algorithm."""


def algorithm_name(options: AlgorithmOptions) -> str:
    """What the command line calls the algorithm of these options."""
    return next(name for name, kind in OPTIONS.items() if isinstance(options, kind))


def plan_for(options: AlgorithmOptions, split: HoldOut, max_compiles: int, seed: int) -> Plan | RoundsPlan:
    """How the compiles are shared out.

    Raises:
        ConfigError: the compiles do not suffice, or the algorithm cannot do without held-out projects.
    """
    match options:
        case flip_regression.Options():
            return make_plan(split.train, split.validation, max_compiles, options, seed)
        case imitation.Options():
            if not split.validation:
                raise ConfigError(
                    "cross-validation is for flip regression only", hint="hold projects out: --validation-share 0.25"
                )
            sweeps = flip_regression.Options(rounds=options.rounds, sweeps=options.sweeps)
            return make_plan(split.train, split.validation, max_compiles, sweeps, seed)
        case evolution.Options():
            batch, population = options.batch, options.population
            return plan_rounds(split, max_compiles, batch=batch, population=population, seed=seed)
        case ppo.Options():
            return plan_rounds(split, max_compiles, batch=options.batch, population=1, seed=seed)


def make_algorithm(options: AlgorithmOptions, plan: Plan | RoundsPlan, seed: int, workshop: Workshop) -> Algorithm:
    """The algorithm that `options` belong to, with its plan from `plan_for`.

    Raises:
        MissingDependency: it needs an extra.
    """
    match options, plan:
        case flip_regression.Options(), Plan():
            return flip_regression.FlipRegression(plan=plan, options=options, seed=seed, workshop=workshop)
        case imitation.Options(), Plan():
            return imitation.Imitation(plan=plan, options=options, seed=seed, workshop=workshop)
        case evolution.Options(), RoundsPlan():
            return evolution.Evolution(plan=plan, options=options, seed=seed, workshop=workshop)
        case ppo.Options(), RoundsPlan():
            return ppo.PPO(plan=plan, options=options, seed=seed, workshop=workshop)
        case _:
            raise ConfigError(f"the plan is not one for {algorithm_name(options)}")
