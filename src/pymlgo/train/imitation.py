"""Imitation of the best that was seen (BC-Max): search each module a little, and copy its smallest object's decisions.

```
repeat for each round:                                   base = what the run starts from, later the best policy so far
    compile each module under the base                   (recorded)
    repeat for each sweep:
        turn decisions of the module's best compile around; keep the result if the object is smaller,
        else try those flips alone next time whose functions shrank
    fit the decisions of each module's best compile, weighted by what it saved
    compile the validation projects with the result; keep it if it is the best so far
```

The label of a decision is what the best compile did, not what it was worth: a module's best compile holds many
decisions that made no difference, and imitation cannot tell them from those that did.

Source: "Offline Imitation Learning from Multiple Baselines with Applications to Compiler Optimization" (Brantley et
al., 2024). *Departures*: the trajectories come from a search around one policy, not from several policies; modules
weigh by what was saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from pymlgo.arrays import Float64Array, Int64Array
from pymlgo.errors import CorpusError
from pymlgo.policy.policy import Policy
from pymlgo.rollout import Job, Overrides, RolloutResult, Trajectory, change_percent
from pymlgo.tensor_spec import TensorSpec
from pymlgo.train.attribution import attribute
from pymlgo.train.checkpoint import State
from pymlgo.train.flip_regression import Plan
from pymlgo.train.flips import Flip, FlipPlanner
from pymlgo.train.models import learnable, learner_named
from pymlgo.train.workshop import Event, Workshop

SURE = 20.0
"""The score that stands for a decision to inline; its negative for one not to. Learners expect bytes of that size."""

MARGINS = (0.0, 0.4 * SURE)
"""Scores beyond which a candidate departs from LLVM's default: by majority, or by at least 70 to 30."""

LEAST_WEIGHT = 0.1
LARGEST_WEIGHT = 10.0
"""Weights of a module's decisions: the per cent of .text that its best compile saved, between these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What can be chosen.

    Attributes:
        rounds: the first searches around LLVM's default, later ones around the best policy.
        sweeps: compiles that search each module, in each round.
        learner: "trees", "mlp" or "lightgbm".
        without_features: features that the policy must not use.
    """

    rounds: int = 2
    sweeps: int = 6
    learner: str = "trees"
    without_features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Example:
    """The best compile of one module: features f64[n, f] and advice i64[n] of its decisions, and its size."""

    features: Float64Array
    advice: Int64Array
    text_bytes: int


class Imitation:
    """The algorithm (see `Algorithm`); it can be resumed between rounds."""

    def __init__(self, *, plan: Plan, options: Options, seed: int, workshop: Workshop) -> None:
        self._plan = plan
        self._options = options
        self._learner = learner_named(options.learner)
        self._seed = seed
        self._workshop = workshop
        self._specs: tuple[TensorSpec, ...] = ()
        self._round = 0
        self._start_text: dict[int, int] = {}
        self._examples: dict[int, Example] = {}

    @property
    def labels(self) -> int:
        """Decisions that are imitated."""
        return sum(len(each.advice) for each in self._examples.values())

    def run(self) -> Iterator[Event]:
        """See `Algorithm.run`."""
        workshop = self._workshop
        while self._round < self._options.rounds:
            base = workshop.best
            bases = workshop.record(self._plan.train, base, names=True)
            self._learn_features(bases)
            for number, result in bases.items():
                self._start_text.setdefault(number, result.sizes.text_bytes)
            searches = [Search(number=number, base=result, best=result) for number, result in bases.items()]
            yield {"event": "base", "modules": len(bases), "under": "best policy" if base else "default"}
            yield self._search(searches, base)
            for search in searches:
                self._keep(search.number, search.best)
            yield from self._candidates()
            self._round += 1
            yield {"event": "round", "number": self._round, "labels": self.labels}
            if workshop.is_late(0.7):
                return

    def state(self) -> State:
        """See `Algorithm.state`."""
        examples = sorted(self._examples.items())
        features = [each.features for _, each in examples]
        return State(
            facts={"round": self._round, "start_text": sorted(self._start_text.items())},
            arrays={
                "features": np.concatenate(features) if features else np.zeros((0, 0)),
                "advice": np.concatenate([each.advice for _, each in examples] or [np.zeros(0, np.int64)]),
                "modules": np.array([[n, len(e.advice), e.text_bytes] for n, e in examples], np.int64).reshape(-1, 3),
            },
        )

    def restore(self, state: State) -> None:
        """See `Algorithm.restore`."""
        self._round = state.facts["round"]
        self._start_text = dict(state.facts["start_text"])
        place = 0
        for number, rows, text in state.arrays["modules"].tolist():
            taken = slice(place, place + rows)
            features, advice = state.arrays["features"][taken], state.arrays["advice"][taken]
            self._examples[number] = Example(features=features, advice=advice, text_bytes=text)
            place += rows

    def _learn_features(self, bases: dict[int, RolloutResult]) -> None:
        recorded = next(each.trajectory for each in bases.values() if each.trajectory is not None)
        self._specs = learnable(recorded.specs, self._options.without_features)

    def _search(self, searches: Sequence[Search], base: Policy | None) -> Event:
        """Sweep over all modules as often as the plan says."""
        left = self._plan.flips[self._round]
        generator = np.random.default_rng([self._seed, self._round])
        for sweep in range(self._options.sweeps):
            self._workshop.note(f"round {self._round + 1}, search {sweep + 1}")
            # What a small budget cuts off must not always be the same modules.
            order = [searches[int(place)] for place in generator.permutation(len(searches))][: max(0, left)]
            planned = [search for search in order if search.plan(sweep, generator)]
            left -= len(planned)
            jobs = [self._job(search, base) for search in planned]
            for place, outcome in self._workshop.compile(jobs):
                if isinstance(outcome, RolloutResult):
                    planned[place].take(outcome)
            if self._workshop.is_late(0.7 * (self._round + 1) / self._options.rounds):
                break
        start = sum(self._start_text[search.number] for search in searches)
        best = sum(search.best.sizes.text_bytes for search in searches)
        return {"event": "search", "round": self._round, "best_change_percent": change_percent(start, best)}

    def _job(self, search: Search, base: Policy | None) -> Job:
        module = self._plan.train[search.number]
        return Job(module=module, policy=base, overrides=search.overrides(), record=True, names=True)

    def _keep(self, number: int, result: RolloutResult) -> None:
        """Imitate `result` unless an earlier round found a smaller object."""
        recorded, text = result.trajectory, result.sizes.text_bytes
        known = self._examples.get(number)
        if recorded is not None and (known is None or text < known.text_bytes):
            features = recorded.matrix([spec.name for spec in self._specs])
            self._examples[number] = Example(features=features, advice=recorded.advice, text_bytes=text)

    def _candidates(self) -> Iterator[Event]:
        features, target = self._weighted()
        self._workshop.note(f"fitting {len(target)} decisions")
        model = self._learner.fit(features, target, np.random.default_rng(self._seed))
        for margin in MARGINS if self._workshop.start is None else MARGINS[:1]:
            if self._workshop.is_late(1.0):
                return
            policy = model.policy(self._specs, self._workshop.rule(margin), {})
            yield self._workshop.judge(policy, round=self._round, margin=margin)

    def _weighted(self) -> tuple[Float64Array, Float64Array]:
        """Decisions drawn as often as they weigh, as many as there are: features f64[n, f] and target f64[n]."""
        examples = sorted(self._examples.items())
        weights = np.concatenate([np.full(len(each.advice), self._weight(number)) for number, each in examples])
        features = np.concatenate([each.features for _, each in examples])
        advice = np.concatenate([each.advice for _, each in examples])
        generator = np.random.default_rng([self._seed, self._round, len(advice)])
        drawn = generator.choice(len(advice), len(advice), p=weights / weights.sum())
        return features[drawn], SURE * (2.0 * advice[drawn] - 1.0)

    def _weight(self, number: int) -> float:
        saved_percent = -change_percent(self._start_text[number], self._examples[number].text_bytes)
        return min(max(saved_percent, LEAST_WEIGHT), LARGEST_WEIGHT)


@dataclass(slots=True, kw_only=True, eq=False)
class Search:
    """The search of one module for a smaller object.

    Attributes:
        number: of the module.
        base: the compile whose decisions are turned around.
        best: the smallest so far.
        flips: of the compile that is planned.
        again: those of the last compile's flips that shrank their functions, to be tried alone.
    """

    number: int
    base: RolloutResult
    best: RolloutResult
    flips: list[Flip] = field(default_factory=list)
    again: list[Flip] = field(default_factory=list)
    tried: Counter[int] = field(default_factory=Counter)

    def plan(self, sweep: int, generator: np.random.Generator) -> bool:
        """Choose `flips`: groups and single ones by turns; False if there are none."""
        if self.again:
            self.flips = self.again
            return True
        planner = FlipPlanner(self._recorded, self.tried)
        self.flips = planner.groups(generator, 0.5) if sweep % 2 == 0 else planner.singles(generator, 0.5)
        return bool(self.flips)

    def overrides(self) -> Overrides:
        """What the planned compile needs: the base's own overrides, and the flips."""
        recorded = self._recorded
        kept = {int(recorded.keys[place]): int(recorded.advice[place]) for place in np.flatnonzero(recorded.overridden)}
        planned = FlipPlanner(recorded, self.tried).overrides(self.flips)
        return Overrides(advice=kept | dict(planned.advice), recorded=recorded)

    def take(self, outcome: RolloutResult) -> None:
        """Learn from the planned compile."""
        good = [label.flip for label in attribute(self.base, outcome, self.flips).labels if label.change_bytes < 0]
        if outcome.sizes.text_bytes < self.best.sizes.text_bytes:
            self.best = outcome
        if not self.again and 0 < len(good) < len(self.flips):
            self.again = good
        else:
            self.base, self.again = self.best, []

    @property
    def _recorded(self) -> Trajectory:
        if self.base.trajectory is None or not self.base.trajectory.has_names:
            raise CorpusError(f"{self.base.module}: a search needs decisions with names")
        return self.base.trajectory
