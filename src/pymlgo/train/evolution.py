"""Evolution strategies: perturb the weights of a small policy, compile, and move to where objects got smaller.

```
record every training module once                       (features to standardise; sizes to compare with)
policy = what the run starts from                       (LLVM's default, exactly, if nothing else is named)
repeat for each round, a generation:
    draw a batch of modules, the same for the whole population
    compile the batch with each member of the population
    rank the members by the batch's .text, and tell the strategy
    now and then: compile the validation projects with the strategy's centre
```

One number comes of all decisions of a batch, so a generation says little; but it says it about decisions taken
together, which no single flip does.

Source: CMA-ES: Hansen, "The CMA Evolution Strategy: A Tutorial" (2016), by the library `cma`. OpenAI-ES: Salimans et
al., "Evolution Strategies as a Scalable Alternative to Reinforcement Learning" (2017); *departure*: one process asks
and tells, as compiles cost far more than sending weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from pymlgo.arrays import Float64Array
from pymlgo.errors import ConfigError
from pymlgo.optional import need
from pymlgo.rollout import Job, RolloutResult
from pymlgo.train.checkpoint import State
from pymlgo.train.network import Network, start_network
from pymlgo.train.plan import RoundsPlan
from pymlgo.train.workshop import Event, Workshop

FAILED_COUNTS_AS = 2.0
"""A module that does not compile counts as one of so many times its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What can be chosen.

    Attributes:
        strategy: "cma" (adapts the shape of its steps; needs the extra `cma`) or "openai" (a gradient from pairs).
        shape: "linear", a threshold that features shift, or "mlp", one hidden layer of 8.
        population: policies of one generation; an even number.
        batch: modules that each of them compiles.
        sigma: how much a first perturbation changes a score; LLVM's default is a score of deviation 1.
        without_features: features that the policy must not use.
    """

    strategy: Literal["cma", "openai"] = "cma"
    shape: Literal["linear", "mlp"] = "linear"
    population: int = 10
    batch: int = 8
    sigma: float = 0.3
    without_features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.population < 4 or self.population % 2:
            raise ConfigError(f"--population must be an even number from 4 on, found {self.population}")
        if not 0 < self.sigma < 10:
            raise ConfigError(f"--sigma must lie between 0 and 10, found {self.sigma}")


class Strategy(Protocol):
    """Proposes parameters, and learns from how they ranked."""

    @property
    def centre(self) -> Float64Array:
        """Its best guess, f64[n]."""

    def ask(self) -> Float64Array:
        """The next generation, f64[population, n]."""

    def tell(self, losses: Float64Array) -> None:
        """How the generation did, f64[population]; only the order counts."""


class Evolution:
    """The algorithm (see `Algorithm`). Its state is the losses of all generations: strategies repeat themselves."""

    labels = 0

    def __init__(self, *, plan: RoundsPlan, options: Options, seed: int, workshop: Workshop) -> None:
        self._plan = plan
        self._options = options
        self._seed = seed
        self._workshop = workshop
        self._losses: list[Float64Array] = []

    def run(self) -> Iterator[Event]:
        """See `Algorithm.run`."""
        workshop, options = self._workshop, self._options
        generator = np.random.default_rng(self._seed)
        bases = workshop.record(self._plan.train, workshop.start)
        network, agreement = start_network(
            list(bases.values()),
            hidden=8 if options.shape == "mlp" else 0,
            without=options.without_features,
            of_default=workshop.start is None,
            generator=generator,
        )
        yield {"event": "start", "parameters": len(network.parameters), "agreement": agreement}
        strategy = make_strategy(options, network, generator)
        for losses in self._losses:  # of the run that is resumed
            strategy.ask()
            strategy.tell(losses)
        judged = len(self._losses)
        while len(self._losses) < self._plan.rounds and not workshop.is_late(0.8, workshop.judging_s):
            number = len(self._losses)
            workshop.note(f"generation {number + 1} of {self._plan.rounds}")
            losses = self._compiled(network, strategy.ask(), bases)
            strategy.tell(losses)
            self._losses.append(losses)
            if number + 1 in self._plan.judged_after:
                judged = number + 1
                yield self._judged(network, strategy)
            facts = {"best_loss": float(losses.min()), "mean_loss": float(losses.mean())}
            yield {"event": "round", "number": number + 1, **facts}
        if judged < len(self._losses):
            yield self._judged(network, strategy)

    def state(self) -> State:
        """See `Algorithm.state`."""
        return State(facts={}, arrays={"losses": np.array(self._losses)})

    def restore(self, state: State) -> None:
        """See `Algorithm.restore`."""
        self._losses[:] = list(state.arrays["losses"])

    def _compiled(self, network: Network, points: Float64Array, bases: dict[int, RolloutResult]) -> Float64Array:
        """The .text of one batch with each point's policy, as a share of what the start made of it."""
        generator = np.random.default_rng([self._seed, len(self._losses)])
        known = list(bases)
        batch = [known[int(place)] for place in generator.permutation(len(known))[: self._plan.batch]]
        before = np.array([bases[number].sizes.text_bytes for number in batch], np.float64)
        after = np.tile(FAILED_COUNTS_AS * before, (len(points), 1))
        jobs = [
            Job(module=self._plan.train[number], policy=policy)
            for policy in (network.with_parameters(point).policy() for point in points)
            for number in batch
        ]
        for place, outcome in self._workshop.compile(jobs):
            if isinstance(outcome, RolloutResult):
                after[divmod(place, len(batch))] = outcome.sizes.text_bytes
        return np.asarray(after.sum(axis=1) / before.sum())

    def _judged(self, network: Network, strategy: Strategy) -> Event:
        policy = network.with_parameters(strategy.centre).policy()
        return self._workshop.judge(policy, round=len(self._losses) - 1)


def make_strategy(options: Options, network: Network, generator: np.random.Generator) -> Strategy:
    """The strategy that `options` name, centred on `network`."""
    kind = CMA if options.strategy == "cma" else OpenAI
    # A score is a sum over columns of deviation 1.
    sigma = options.sigma / np.sqrt(len(network.features))
    return kind(network.parameters, sigma, options.population, generator)


class CMA:
    """CMA-ES of the library `cma`, whose randomness is the generator's."""

    def __init__(self, start: Float64Array, sigma: float, population: int, generator: np.random.Generator) -> None:
        cma = need("cma", extra="cma", purpose="train by CMA-ES")
        settings = {
            "popsize": population,
            "randn": lambda *shape: generator.standard_normal(shape),
            "seed": np.nan,  # it would seed numpy's global generator
            "verbose": -9,
        }
        self._library: Any = cma.CMAEvolutionStrategy(start, sigma, settings)
        self._points: list[Float64Array] = []

    @property
    def centre(self) -> Float64Array:
        """The distribution's mean."""
        return np.asarray(self._library.mean, np.float64)

    def ask(self) -> Float64Array:
        """See `Strategy.ask`."""
        self._points = self._library.ask()
        return np.array(self._points)

    def tell(self, losses: Float64Array) -> None:
        """See `Strategy.tell`."""
        self._library.tell(self._points, losses.tolist())


class OpenAI:
    """A gradient estimated from pairs of opposite perturbations, weighted by rank, and Adam steps along it."""

    def __init__(self, start: Float64Array, sigma: float, population: int, generator: np.random.Generator) -> None:
        self.centre = start.copy()
        self._sigma = sigma
        self._pairs = population // 2
        self._generator = generator
        self._noise = np.zeros((population, len(start)))
        self._first, self._second, self._steps = np.zeros_like(start), np.zeros_like(start), 0

    def ask(self) -> Float64Array:
        """See `Strategy.ask`."""
        noise = self._generator.standard_normal((self._pairs, len(self.centre)))
        self._noise = np.concatenate([noise, -noise])
        return self.centre + self._sigma * self._noise

    def tell(self, losses: Float64Array) -> None:
        """See `Strategy.tell`."""
        gradient = centred_ranks(losses) @ self._noise / len(self._noise)
        self._steps += 1
        self._first += 0.1 * (gradient - self._first)
        self._second += 0.01 * (gradient**2 - self._second)
        first, second = self._first / (1 - 0.9**self._steps), self._second / (1 - 0.99**self._steps)
        self.centre = self.centre - self._sigma * first / (np.sqrt(second) + 1e-8)


def centred_ranks(losses: Float64Array) -> Float64Array:
    """-0.5 for the smallest … 0.5 for the largest; equals share their ranks' mean, so a plateau gives no direction."""
    below = (losses[np.newaxis, :] < losses[:, np.newaxis]).sum(axis=1)
    equal = (losses[np.newaxis, :] == losses[:, np.newaxis]).sum(axis=1)
    return np.asarray((below + (equal - 1) / 2) / (len(losses) - 1) - 0.5)
