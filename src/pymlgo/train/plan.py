"""How an algorithm that works in many equal rounds shares out its compiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymlgo.corpus.description import Module
from pymlgo.errors import ConfigError
from pymlgo.train.hold_out import HoldOut

BASE_SHARE, VALIDATION_SHARE = 0.15, 0.3
"""Parts of the compiles that the recorded start and the judgements may take."""

JUDGEMENTS = 4
"""Policies that are judged, spread over the rounds; the last round's is one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsPlan:
    """Equal rounds.

    Attributes:
        train, validation: modules, drawn from what there is.
        rounds: how many.
        batch: modules that a round compiles, each `population` times.
        judged_after: numbers of rounds, from 1, after which the policy is judged.
    """

    train: tuple[Module, ...]
    validation: tuple[Module, ...]
    rounds: int
    batch: int
    population: int
    judged_after: frozenset[int]

    @property
    def compiles(self) -> int:
        """In all."""
        judged = (1 + len(self.judged_after)) * len(self.validation)
        return judged + len(self.train) + self.rounds * self.batch * self.population


def plan_rounds(split: HoldOut, max_compiles: int, *, batch: int, population: int, seed: int) -> RoundsPlan:
    """A plan that stays within `max_compiles`; it depends on nothing but its arguments.

    Raises:
        ConfigError: nothing is held out, or the compiles are not enough for one round.
    """
    if not split.validation:
        raise ConfigError(
            "cross-validation is for flip regression only", hint="hold projects out: --validation-share 0.25"
        )
    generator = np.random.default_rng([seed, max_compiles])
    judged = max(1, min(len(split.validation), int(VALIDATION_SHARE * max_compiles) // (1 + JUDGEMENTS)))
    based = max(1, min(len(split.train), int(BASE_SHARE * max_compiles)))
    left = max_compiles - (1 + JUDGEMENTS) * judged - based
    if left < population:
        raise ConfigError(
            f"{max_compiles} compiles are too few for a round that compiles each module {population} times",
            hint="give more --max-compiles, or a smaller --population",
        )
    batch = min(batch, based, left // population)
    rounds = left // (batch * population)
    return RoundsPlan(
        train=drawn(split.train, based, generator),
        validation=drawn(split.validation, judged, generator),
        rounds=rounds,
        batch=batch,
        population=population,
        judged_after=frozenset(-(-rounds * number // JUDGEMENTS) for number in range(1, JUDGEMENTS + 1)),
    )


def drawn(modules: Sequence[Module], count: int, generator: np.random.Generator) -> tuple[Module, ...]:
    """`count` of the modules, the large ones first, so that no core waits for the last."""
    chosen = sorted(generator.permutation(len(modules))[:count])
    return tuple(sorted((modules[int(place)] for place in chosen), key=lambda each: (-each.size_bytes, each.name)))
