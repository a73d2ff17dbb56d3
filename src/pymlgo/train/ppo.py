"""Proximal policy optimization: sample decisions inside the compiler, and make those likelier that saved bytes.

```
record every training module once                       (features to standardise; sizes to compare with)
policy = what the run starts from                       (LLVM's default, exactly, if nothing else is named)
repeat for each round:
    compile a batch of modules under a policy that inlines with the network's probability
    the return of a decision: bytes saved in the functions that it can have changed
    several epochs of clipped steps on policy and value
    now and then: compile the validation projects with the policy that inlines where the probability is above a half
```

How a compiler samples: the probability is compared with a number in [0, 1) that the graph computes from the decision's
features and the round's random multipliers, the fractional part of their sum of products (Weyl's sequence). No random
generator is needed in any backend, a compile can be repeated, and two decisions with equal features agree.

The return is not the module's size but that of the functions whose code can depend on the decision: what others change
elsewhere would be noise. There is no discount and no bootstrap, as every return is known when a compile ends.

Source: Schulman et al., "Proximal Policy Optimization Algorithms" (2017). *Departures*: returns as above; the value
is a network of its own, for a shared one would disturb the start; Adam begins anew in each round, so that a checkpoint
is the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymlgo.arrays import Float32Array, Int64Array
from pymlgo.optional import need
from pymlgo.policy.builder import GraphBuilder
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import INLINING_ADVICE
from pymlgo.rollout import Job, RolloutResult
from pymlgo.train.checkpoint import State
from pymlgo.train.flips import affected_functions
from pymlgo.train.network import Network, start_network
from pymlgo.train.plan import RoundsPlan
from pymlgo.train.workshop import Event, Workshop

HIDDEN = 32
"""Units of the policy's one hidden layer, and of the value's."""

FIRST_SLOPE = 2.0
"""Log-odds for one unit of the start's score: decisions near the default's threshold are sampled both ways."""

RETURN_BYTES, LARGEST_RETURN_BYTES = 20.0, 60.0
"""A return of 1, and where returns are cut off; as the labels of flip regression."""

VALUE_SHARE = 0.5
"""Weight of the value's squared error in the loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What can be chosen.

    Attributes:
        batch: modules that each round compiles.
        epochs: passes over a round's decisions.
        minibatch: decisions of one step.
        rate: Adam's step size.
        clip: how far a step may change a probability, as a ratio.
        entropy: weight of the bonus for undecidedness.
        without_features: features that the policy must not use.
    """

    batch: int = 24
    epochs: int = 6
    minibatch: int = 128
    rate: float = 3e-3
    clip: float = 0.2
    entropy: float = 0.003
    without_features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """Sampled decisions: columns f32[n, c] as the network sees them, advice i64[n], returns f32[n]."""

    columns: Float32Array
    advice: Int64Array
    returns: Float32Array


class PPO:
    """The algorithm (see `Algorithm`)."""

    labels = 0

    def __init__(self, *, plan: RoundsPlan, options: Options, seed: int, workshop: Workshop) -> None:
        self._torch: Any = need("torch", extra="torch", purpose="train by PPO")
        self._torch.set_num_threads(1)  # sums depend on the number of threads, and the cores are the compilers'
        self._plan = plan
        self._options = options
        self._seed = seed
        self._workshop = workshop
        self._round = 0
        self._weights: dict[str, list[Any]] = {}

    def run(self) -> Iterator[Event]:
        """See `Algorithm.run`."""
        workshop = self._workshop
        generator = np.random.default_rng(self._seed)
        bases = workshop.record(self._plan.train, workshop.start, names=True)
        network, agreement = start_network(
            list(bases.values()),
            hidden=HIDDEN,
            without=self._options.without_features,
            of_default=workshop.start is None,
            generator=generator,
        )
        yield {"event": "start", "parameters": len(network.parameters), "agreement": agreement}
        if not self._weights:
            self._weights = self._first_weights(network, generator)
        judged = self._round
        while self._round < self._plan.rounds and not workshop.is_late(0.8, workshop.judging_s):
            generator = np.random.default_rng([self._seed, self._round])
            workshop.note(f"round {self._round + 1} of {self._plan.rounds}")
            samples = self._sampled(self._network(network), bases, generator)
            facts = self._learn(samples, generator) if len(samples.advice) else {}
            self._round += 1
            if self._round in self._plan.judged_after:
                judged = self._round
                yield workshop.judge(self._network(network).policy(), round=self._round - 1)
            yield {"event": "round", "number": self._round, "decisions": len(samples.advice), **facts}
        if judged < self._round:
            yield workshop.judge(self._network(network).policy(), round=self._round - 1)

    def state(self) -> State:
        """See `Algorithm.state`."""
        arrays = {
            f"{name}_{number}": tensor.detach().numpy()
            for name, tensors in self._weights.items()
            for number, tensor in enumerate(tensors)
        }
        return State(facts={"round": self._round}, arrays=arrays)

    def restore(self, state: State) -> None:
        """See `Algorithm.restore`."""
        self._round = state.facts["round"]
        for name in ("policy", "value"):
            count = sum(key.startswith(name) for key in state.arrays)
            self._weights[name] = self._tensors([state.arrays[f"{name}_{number}"] for number in range(count)])

    def _first_weights(self, network: Network, generator: np.random.Generator) -> dict[str, list[Any]]:
        """Weights and biases in turn, of the policy and of the value; the value begins as 0."""
        first, last = network.layers
        columns = len(first.weights)
        value = [generator.normal(0, 1 / np.sqrt(columns), (columns, HIDDEN)), np.zeros(HIDDEN), np.zeros((HIDDEN, 1))]
        policy = [first.weights, first.bias, FIRST_SLOPE * last.weights, FIRST_SLOPE * last.bias]
        return {"policy": self._tensors(policy), "value": self._tensors([*value, np.zeros(1)])}

    def _tensors(self, arrays: Sequence[Any]) -> list[Any]:
        return [self._torch.tensor(np.asarray(each, np.float32), requires_grad=True) for each in arrays]

    def _network(self, network: Network) -> Network:
        """`network` with the policy's weights."""
        flat = [tensor.detach().numpy().ravel() for tensor in self._weights["policy"]]
        return network.with_parameters(np.concatenate(flat).astype(np.float64))

    def _sampled(self, network: Network, bases: Mapping[int, RolloutResult], generator: np.random.Generator) -> Samples:
        """Compile a batch under the sampling policy."""
        known = list(bases)
        batch = sorted(known[int(place)] for place in generator.permutation(len(known))[: self._plan.batch])
        policy = sampling_policy(network, generator)
        jobs = [Job(module=self._plan.train[number], policy=policy, record=True, names=True) for number in batch]
        found: dict[int, RolloutResult] = {}
        for place, outcome in self._workshop.compile(jobs):
            if isinstance(outcome, RolloutResult) and outcome.decisions:
                found[batch[place]] = outcome
        columns, advice, returns = [np.zeros((0, len(network.features)), np.float32)], [np.zeros(0, np.int64)], []
        for number, result in sorted(found.items()):
            if result.trajectory is not None:
                columns.append(network.columns(result.trajectory))
                advice.append(result.trajectory.advice)
                returns.append(returns_of(result, bases[number]))
        return Samples(
            columns=np.concatenate(columns),
            advice=np.concatenate(advice),
            returns=np.concatenate([np.zeros(0, np.float32), *returns]),
        )

    def _learn(self, samples: Samples, generator: np.random.Generator) -> Event:
        """Several epochs of clipped steps; facts about them."""
        torch, options = self._torch, self._options
        rows, returns = torch.from_numpy(samples.columns), torch.from_numpy(samples.returns)
        inlined = torch.from_numpy(samples.advice.astype(np.float32))
        with torch.no_grad():
            before = self._log_probability(rows, inlined)
            advantage = returns - self._forward("value", rows)
            advantage = (advantage - advantage.mean()) / (advantage.std(unbiased=False) + 1e-6)
        adam = torch.optim.Adam([*self._weights["policy"], *self._weights["value"]], lr=options.rate)
        for _ in range(options.epochs):
            order = generator.permutation(len(rows))
            for start in range(0, len(rows), options.minibatch):
                chosen = torch.from_numpy(order[start : start + options.minibatch])
                ratio = torch.exp(self._log_probability(rows[chosen], inlined[chosen]) - before[chosen])
                clipped = ratio.clamp(1 - options.clip, 1 + options.clip)
                gain = torch.minimum(ratio * advantage[chosen], clipped * advantage[chosen]).mean()
                error = ((self._forward("value", rows[chosen]) - returns[chosen]) ** 2).mean()
                loss = VALUE_SHARE * error - gain - options.entropy * self._entropy(rows[chosen])
                adam.zero_grad()
                loss.backward()
                adam.step()
        with torch.no_grad():
            moved = (before - self._log_probability(rows, inlined)).mean()
            undecided = self._entropy(rows)
        return {"return": float(returns.mean()), "entropy": float(undecided), "divergence": float(moved)}

    def _forward(self, name: str, rows: Any) -> Any:
        """The log-odds of inlining, or the value: a number for each row."""
        weights, bias, last_weights, last_bias = self._weights[name]
        return ((rows @ weights + bias).relu() @ last_weights + last_bias)[:, 0]

    def _log_probability(self, rows: Any, inlined: Any) -> Any:
        odds = self._forward("policy", rows)
        return -self._torch.nn.functional.binary_cross_entropy_with_logits(odds, inlined, reduction="none")

    def _entropy(self, rows: Any) -> Any:
        odds = self._forward("policy", rows)
        probability = odds.sigmoid()
        return self._torch.nn.functional.binary_cross_entropy_with_logits(odds, probability)


def sampling_policy(network: Network, generator: np.random.Generator) -> Policy:
    """Inlines with the probability sigmoid(score of `network`); the generator draws this policy's multipliers."""
    make = GraphBuilder()
    inputs = [make.input(spec) for spec in network.features]
    columns = make.concatenate([each.cast("float").reshape(1, 1) for each in inputs], axis=1)
    rows = network.standard.scaling.apply(make, columns)
    for layer in network.layers:
        rows = make.dense(rows, layer.weights, layer.bias, activation=layer.activation)
    multipliers = generator.uniform(0, 1, (1, len(inputs))).astype(np.float32)
    turns = columns * make.constant(multipliers)
    turns = turns - turns.cast("int64_t").cast("float")  # each column alone first: large ones would drown small ones
    turn = make.apply("SUM", turns, axes=(1,), keep_dims=True)
    turn = turn - turn.cast("int64_t").cast("float")
    drawn = make.select(turn < 0, turn + 1, turn)
    likely = make.apply("LOGISTIC", rows) > drawn
    make.output(INLINING_ADVICE.name, likely.cast("int64_t").reshape(1))
    return Policy(problem="inlining", graph=make.build(), advice=INLINING_ADVICE.name)


def returns_of(result: RolloutResult, base: RolloutResult) -> Float32Array:
    """The return of each decision: bytes saved in the functions that it can have changed, f32[n]."""
    if result.trajectory is None:
        return np.zeros(0, np.float32)
    before, after = base.function_bytes, result.function_bytes
    saved = {name: before.get(name, 0) - after.get(name, 0) for name in before.keys() | after.keys()}
    sums = [sum(saved.get(name, 0) for name in names) for names in affected_functions(result.trajectory)]
    bytes_saved = np.clip(np.array(sums, np.float32), -LARGEST_RETURN_BYTES, LARGEST_RETURN_BYTES)
    return np.asarray(bytes_saved / RETURN_BYTES, np.float32)
