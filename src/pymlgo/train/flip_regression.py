"""Flip regression: turn decisions around, see what each was worth, and learn to tell the profitable ones.

```
hold projects out for validation, or none: then each project is judged by a model that learned from the others only
repeat for each round:                                   base = LLVM's default, later the best policy so far
    compile each module under the base                   (base sweep: decisions, names, size of each function)
    repeat for each sweep:                               (group flips and single flips by turns)
        flip many disjoint decisions of each module in one compile
        label each flip with the change of the functions that it can have changed
    choose features and margin on labels of unseen projects
    fit; compile projects that the fit has not seen with the result; keep it if it is the best so far
```

A flip changes a known set of functions, so one compile gives a label for each of several disjoint flips; one number for
a whole module, as reinforcement learning uses, gives one. A model learns the bytes that inlining saves, and its policy
leaves LLVM's decision alone unless the promise is larger than a margin.

Source: our own study, on 35 programs; there it beat evolution strategies and imitation at equal compiles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from pymlgo.corpus.description import Module
from pymlgo.corpus.names import project_of
from pymlgo.errors import CorpusError
from pymlgo.policy.policy import Policy
from pymlgo.rollout import Job, RolloutResult, Trajectory
from pymlgo.tensor_spec import TensorSpec
from pymlgo.train.attribution import attribute
from pymlgo.train.checkpoint import State
from pymlgo.train.flips import Flip, FlipPlanner
from pymlgo.train.labels import LabelCollector, Labels
from pymlgo.train.models import learnable, learner_named
from pymlgo.train.plan import drawn
from pymlgo.train.selection import MARGINS, ModuleFacts, Trial, compare, project_folds, rows_of
from pymlgo.train.workshop import Event, Workshop

CANDIDATES = 2
"""Policies that each round compiles the validation projects with; one in cross-validation, which compiles them all."""

LEAST_LABELS = 50
"""Below this, a fit says nothing."""

BASE_SHARE, VALIDATION_SHARE, CROSS_SHARE = 0.25, 0.3, 0.4
"""Parts of the compiles that base sweeps, validation, and both with cross-validation may take; the rest flips."""

CROSS_FOLDS = 9
"""Groups of projects in cross-validation."""

COLLECTING_SHARE = 0.85
"""Part of a time budget after which nothing more is flipped; the rest is for fitting. Judging is reserved apart."""

USUAL_MODULE_BYTES = 60_000
"""Bitcode of a module that takes part in every sweep; larger ones take part less often, as their compiles cost more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What can be chosen; the defaults are the study's.

    Attributes:
        rounds: the first flips around LLVM's default, later ones around the best policy.
        sweeps: flips of every module, in each round.
        learner: "trees", "mlp" or "lightgbm".
        without_features: features that the policy must not use.
    """

    rounds: int = 2
    sweeps: int = 6
    learner: str = "trees"
    without_features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many compiles each part of the run gets.

    Attributes:
        train, validation: modules, drawn from what there is.
        flips: compiles of all sweeps of each round.
        cross: nothing is held out for good; `validation` is `train`, judged by folds of projects.
    """

    train: tuple[Module, ...]
    validation: tuple[Module, ...]
    flips: tuple[int, ...]
    cross: bool = False

    @property
    def compiles(self) -> int:
        """In all."""
        rounds = len(self.flips)
        return rounds * len(self.train) + sum(self.flips) + (1 + self.candidates * rounds) * len(self.validation)

    @property
    def candidates(self) -> int:
        """Policies that are judged in each round."""
        return 1 if self.cross else CANDIDATES


def make_plan(
    train: Sequence[Module], validation: Sequence[Module], max_compiles: int, options: Options, seed: int
) -> Plan:
    """A plan that stays within `max_compiles`; it depends on nothing but its arguments.

    Without modules for validation, it is one with cross-validation.
    """
    generator = np.random.default_rng([seed, max_compiles])
    cross = not validation
    judgements = 1 + options.rounds * (1 if cross else CANDIDATES)
    if cross:
        based = judged = max(1, min(len(train), int(CROSS_SHARE * max_compiles) // (judgements + options.rounds)))
    else:
        judged = max(1, min(len(validation), int(VALIDATION_SHARE * max_compiles) // judgements))
        based = max(1, min(len(train), int(BASE_SHARE * max_compiles) // options.rounds))
    left = max(0, max_compiles - judgements * judged - options.rounds * based)
    most = options.sweeps * based
    flips = [min(most, left // options.rounds) for _ in range(options.rounds)]
    learned_from = drawn(train, based, generator)
    judges = learned_from if cross else drawn(validation, judged, generator)
    return Plan(train=learned_from, validation=judges, flips=tuple(flips), cross=cross)


@dataclass(slots=True, kw_only=True, eq=False)
class Progress:
    """Where the run is; what a checkpoint keeps.

    Attributes:
        round, sweep: of the next piece of work.
        labels: all so far.
        tried: flips of each training module.
    """

    labels: LabelCollector
    tried: list[Counter[int]]
    round: int = 0
    sweep: int = 0
    flips_of_round: int = 0


class FlipRegression:
    """The algorithm (see `Algorithm`); `progress` is what a checkpoint keeps."""

    def __init__(self, *, plan: Plan, options: Options, seed: int, workshop: Workshop) -> None:
        self._plan = plan
        self._options = options
        self._learner = learner_named(options.learner)
        self._seed = seed
        self._workshop = workshop
        self._bases: dict[int, RolloutResult] = {}
        self._planners: dict[int, FlipPlanner] = {}
        self._specs: tuple[TensorSpec, ...] = ()
        self.progress = Progress(labels=LabelCollector(()), tried=[Counter() for _ in plan.train])

    @property
    def labels(self) -> int:
        """Labelled decisions so far."""
        return len(self.progress.labels)

    def run(self) -> Iterator[Event]:
        """Do the work; what is yielded are facts for the log of events.

        Raises:
            CorpusError: no compile gave a decision.
        """
        while self.progress.round < self._options.rounds:
            yield from self._round()
            self.progress.round, self.progress.sweep, self.progress.flips_of_round = self.progress.round + 1, 0, 0
            yield {"event": "round", "number": self.progress.round}
            if self.progress.round < self._options.rounds and self._workshop.is_late(1.0):
                return

    def _round(self) -> Iterator[Event]:
        progress = self.progress
        best = self._workshop.best
        self._base_sweep(best)
        yield {"event": "base", "modules": len(self._bases), "under": "best policy" if best else "default"}
        collecting_ends = COLLECTING_SHARE * (progress.round + 1) / self._options.rounds
        while (
            progress.sweep < self._options.sweeps
            and progress.flips_of_round < self._plan.flips[progress.round]
            and not self._workshop.is_late(collecting_ends, self._reserve_s)
        ):
            facts = self._sweep(collecting_ends)
            progress.sweep += 1
            yield {"event": "sweep", "round": progress.round, "labels": len(progress.labels), **facts}
        if len(progress.labels) < LEAST_LABELS:
            yield {"event": "too few labels", "labels": len(progress.labels)}
            return
        yield from self._candidates()

    @property
    def _reserve_s(self) -> float:
        """Wall seconds that the judgements still to come will take, as the first one did."""
        rounds_left = self._options.rounds - self.progress.round
        return 1.5 * self._plan.candidates * rounds_left * self._workshop.judging_s

    def _base_sweep(self, policy: Policy | None) -> None:
        """Compile every training module under `policy` and keep what happened."""
        self._workshop.note("compiling under the base policy")
        self._bases = self._workshop.record(self._plan.train, policy, names=True)
        tried = self.progress.tried
        self._planners = {number: FlipPlanner(_trajectory(base), tried[number]) for number, base in self._bases.items()}
        self._learn_features()

    def _learn_features(self) -> None:
        """The features to learn from are those that this compiler sends, one number each; its default is none."""
        first = _trajectory(next(iter(self._bases.values())))
        self._specs = learnable(first.specs, self._options.without_features)
        if not len(self.progress.labels):
            self.progress.labels.features = tuple(spec.name for spec in self._specs)

    def _sweep(self, collecting_ends: float) -> dict[str, object]:
        """Flip decisions of every module once; group flips in even sweeps, single ones in odd sweeps."""
        progress = self.progress
        generator = np.random.default_rng([self._seed, progress.round, progress.sweep])
        planned = self._planned_flips(generator)[: self._plan.flips[progress.round] - progress.flips_of_round]
        jobs = [
            Job(
                module=self._plan.train[number],
                policy=self._workshop.best,
                overrides=planner.overrides(flips),
                record=True,
                names=True,
            )
            for number, planner, flips in planned
        ]
        progress.flips_of_round += len(jobs)
        self._workshop.note(f"round {progress.round + 1}, sweep {progress.sweep + 1}: {len(progress.labels)} labels")
        labelled = {}
        lost, unexplained = 0, 0.0
        for place, outcome in self._workshop.compile(jobs):
            number, _, flips = planned[place]
            if isinstance(outcome, RolloutResult):
                found = attribute(self._bases[number], outcome, flips)
                labelled[place] = (number, outcome, found.labels)
                lost, unexplained = lost + found.lost, unexplained + abs(found.unexplained_bytes)
            if self._workshop.is_late(collecting_ends, self._reserve_s):
                break
        for _, (number, outcome, labels) in sorted(labelled.items()):
            progress.labels.add(number, self._bases[number], outcome, labels)
        return {"flipped": len(labelled), "lost_flips": lost, "unexplained_bytes": unexplained}

    def _planned_flips(self, generator: np.random.Generator) -> list[tuple[int, FlipPlanner, list[Flip]]]:
        progress = self.progress
        # Fewer flips at a time disturb each other less, more are cheaper: every other pair of sweeps halves them.
        share = 1.0 if progress.sweep // 2 % 2 == 0 else 0.5
        planned = []
        for number, planner in self._planners.items():
            size = self._plan.train[number].size_bytes
            if generator.random() > USUAL_MODULE_BYTES / max(size, 1) + 0.15:
                continue
            flips = planner.groups(generator, share) if progress.sweep % 2 == 0 else planner.singles(generator, share)
            if flips:
                planned.append((number, planner, flips))
        # What a small budget cuts off must not always be the same modules.
        return [planned[int(place)] for place in generator.permutation(len(planned))]

    def _candidates(self) -> Iterator[Event]:
        """Fit the most promising trials, and judge each by compiling the validation projects."""
        self._workshop.note("choosing features and margin")
        labels = self.progress.labels.labels().without_overruled()
        names = self.progress.labels.features
        trials = compare(labels, names, self._facts(), self._learner, seed=self._seed)
        if self._workshop.start is None:
            # Where labels of unseen projects promise nothing, compiles would not find anything either.
            trials = [trial for trial in trials if trial.estimated_percent < 0]
        else:
            trials = [trial for trial in trials if trial.margin == min(MARGINS)]
        for trial in _differing(trials, self._plan.candidates):
            if self._workshop.is_late(1.0):
                return
            yield self._workshop.judge(
                self._fitted(labels, trial),
                round=self.progress.round,
                of_projects=self._policies_of_folds(labels, trial) if self._plan.cross else None,
                margin=trial.margin,
                estimated_percent=trial.estimated_percent,
                dropped_features=list(trial.dropped),
            )

    def _fitted(self, labels: Labels, trial: Trial) -> Policy:
        names = self.progress.labels.features
        columns = [names.index(name) for name in trial.features]
        model = self._learner.fit(labels.features[:, columns], labels.target, np.random.default_rng(self._seed))
        specs = [spec for spec in self._specs if spec.name in trial.features]
        return model.policy(specs, self._workshop.rule(trial.margin), {})

    def _policies_of_folds(self, labels: Labels, trial: Trial) -> dict[str, Policy]:
        """For each project, the policy that learned from the projects outside its fold."""
        facts = self._facts()
        policies: dict[str, Policy] = {}
        for fold in project_folds(facts, labels, CROSS_FOLDS):
            policy = self._fitted(labels.of(~rows_of(fold, facts, labels)), trial)
            policies |= dict.fromkeys(fold, policy)
        return policies

    def _facts(self) -> ModuleFacts:
        counts = np.zeros(len(self._plan.train), np.int64)
        text = np.zeros(len(self._plan.train), np.int64)
        for number, base in self._bases.items():
            counts[number], text[number] = base.decisions, base.sizes.text_bytes
        return ModuleFacts(
            project=tuple(project_of(module.name) for module in self._plan.train), decisions=counts, text_bytes=text
        )

    def state(self) -> State:
        """See `Algorithm.state`."""
        progress, labels = self.progress, self.progress.labels.labels()
        rows = [(module, key, count) for module, counts in enumerate(progress.tried) for key, count in counts.items()]
        return State(
            facts={
                "round": progress.round,
                "sweep": progress.sweep,
                "flips_of_round": progress.flips_of_round,
                "features": list(progress.labels.features),
            },
            arrays={each.name: getattr(labels, each.name) for each in fields(Labels)}
            | {"tried": np.array(rows, np.uint64).reshape(-1, 3)},
        )

    def restore(self, state: State) -> None:
        """See `Algorithm.restore`."""
        progress, facts = self.progress, state.facts
        progress.round, progress.sweep = facts["round"], facts["sweep"]
        progress.flips_of_round = facts["flips_of_round"]
        progress.labels.features = tuple(facts["features"])
        progress.labels.add_all(Labels(**{each.name: state.arrays[each.name] for each in fields(Labels)}))
        for module, key, count in state.arrays["tried"].tolist():
            progress.tried[module][key] = count


def _differing(trials: Sequence[Trial], count: int) -> list[Trial]:
    """The best trial, then ever more careful ones: the largest margins that still promise half as much."""
    chosen = list(trials[:1])
    for trial in sorted(trials, key=lambda each: -each.margin):
        best = trials[0]
        promises_enough = trial.estimated_percent <= 0.5 * best.estimated_percent
        if promises_enough and all(trial.margin != each.margin for each in chosen) and len(chosen) < count:
            chosen.append(trial)
    return chosen


def _trajectory(result: RolloutResult) -> Trajectory:
    if result.trajectory is None:
        raise CorpusError(f"{result.module}: the backend recorded nothing")
    return result.trajectory
