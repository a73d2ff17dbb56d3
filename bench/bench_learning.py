"""What a training run's labels say: worth of feature groups, learners, and number of programs.

    bench/bench_learning.py runs/ID

The run is one of flip regression; its checkpoint holds the labels, and its corpora must still be there to tell whose
they are. Nothing is compiled: each model is fitted on the labels of some programs and decides about labels of others.
What it gains there is printed as bytes, and as a share of what knowing every label would gain; labels are clipped as in
training. The exit code is 1 if learning from shuffled labels gains as much as learning from the true ones.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from pymlgo.arrays import Float64Array
from pymlgo.corpus.names import project_of
from pymlgo.train.checkpoint import load_state
from pymlgo.train.flip_regression import Options, make_plan
from pymlgo.train.hold_out import hold_out
from pymlgo.train.labels import Labels
from pymlgo.train.lightgbm import LightGBMLearner
from pymlgo.train.mlp import MLPLearner
from pymlgo.train.models import Learner, Model
from pymlgo.train.run_directory import RunDirectory
from pymlgo.train.selection import decisions
from pymlgo.train.train import read_modules
from pymlgo.train.trees import TreeLearner

FOLDS = 5
DRAWS = 3
MARGIN = 1.0

EXTENSIONS = {
    "size": "callee_instruction_count caller_instruction_count callee_code_size",
    "linkage": "callee_is_local callee_is_discardable caller_is_local caller_is_discardable callee_has_one_use "
    "callee_is_removable is_last_call_to_removable group_inlining_cost",
    "call": "argument_count result_is_used",
    "uses": "callee_call_sites callee_call_sites_in_caller callee_other_uses callee_distinct_callers",
    "attributes": "callee_has_inline_hint call_is_cold callee_is_nounwind callee_memory_effects callee_is_vararg "
    "callee_in_comdat caller_in_comdat callee_is_noreturn",
    "history": "callee_times_inlined callee_times_rejected inlines_into_caller inlines_into_callee",
}
"""The features that only the plugin computes, in groups."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """Labels, their features' names, and the program of each."""

    labels: Labels
    names: tuple[str, ...]
    program: np.ndarray[tuple[int], np.dtype[np.str_]]

    def gain(self, scores: Float64Array) -> float:
        """Bytes that decisions by `scores` save."""
        changed = decisions(scores, self.labels.default, MARGIN) - self.labels.default
        return float((self.labels.target * changed).sum())

    def columns(self, excluded: Sequence[str] = ()) -> list[int]:
        """The columns of all features but `excluded`."""
        return [number for number, name in enumerate(self.names) if name not in excluded]


@dataclass(frozen=True, slots=True)
class Shuffling:
    """A learner that is told other decisions' labels."""

    learner: Learner
    name: str = "shuffling"

    @property
    def for_selection(self) -> Shuffling:
        """Itself."""
        return self

    def fit(self, features: Float64Array, target: Float64Array, generator: np.random.Generator) -> Model:
        """As the inner learner."""
        return self.learner.fit(features, generator.permutation(target), generator)


def main() -> int:
    """Print the tables."""
    if len(sys.argv) != 2:
        print("usage: bench_learning.py RUN, the folder of a run of flip regression; nothing to measure without one")
        return 0
    known = labels_of(RunDirectory.open(Path(sys.argv[1])))
    best = float(np.maximum(known.labels.target * (1 - 2 * known.labels.default), 0).sum())
    programs = len(set(known.program))
    print(f"{len(known.labels):,} labels of {programs} programs; knowing them all would save {best:,.0f} bytes")
    learner = LightGBMLearner().for_selection

    def row(name: str, gained: float) -> None:
        print(f"  {name:<44}{gained:>10,.0f} bytes {100 * gained / best:6.1f} %", flush=True)

    print("features (boosted trees, programs not learned from):")
    groups = {group: names.split() for group, names in EXTENSIONS.items()}
    extensions = [name for names in groups.values() for name in names]
    gained = known.gain(unseen(known, known.columns(), learner))
    by_chance = known.gain(unseen(known, known.columns(), Shuffling(learner)))
    row("all", gained)
    row("all, labels shuffled", by_chance)
    row("what stock clang sends", known.gain(unseen(known, known.columns(extensions), learner)))
    for group, names in groups.items():
        others = [name for name in extensions if name not in names]
        row(f"stock and {group}", known.gain(unseen(known, known.columns(others), learner)))
    for group, names in groups.items():
        row(f"all but {group}", known.gain(unseen(known, known.columns(names), learner)))
    print("learners (all features):")
    classes: tuple[Learner, ...] = (LightGBMLearner(), TreeLearner(), MLPLearner())
    for each in classes:
        row(each.name, known.gain(unseen(known, known.columns(), each)))
    print(f"programs learned from (mean and range of {DRAWS} draws):")
    for count in (4, 8, 16, 32, 64):
        if count <= programs * (FOLDS - 1) // FOLDS:
            gains = [known.gain(unseen(known, known.columns(), learner, count, draw)) for draw in range(DRAWS)]
            row(f"{count} ({min(gains):,.0f} … {max(gains):,.0f})", float(np.mean(gains)))
    return int(gained <= by_chance)


def labels_of(run: RunDirectory) -> Known:
    """The labels in a run's checkpoint."""
    settings, state = run.settings(), load_state(run.checkpoint)
    modules = read_modules([Path(each) for each in settings["corpora"]])  # type: ignore[attr-defined]
    options = Options(rounds=int(str(settings["rounds"])), sweeps=int(str(settings["sweeps"])))
    seed, compiles = int(str(settings["seed"])), int(str(settings["max_compiles"]))
    split = hold_out(modules, float(str(settings["validation_share"])), seed)
    plan = make_plan(split.train, split.validation, compiles, options, seed)
    labels = Labels(**{each.name: state.arrays[each.name] for each in fields(Labels)}).without_overruled()
    projects = np.array([project_of(each.name) for each in plan.train])
    return Known(labels=labels, names=tuple(state.facts["algorithm"]["features"]), program=projects[labels.module])


def unseen(
    known: Known, columns: Sequence[int], learner: Learner, programs: int | None = None, draw: int = 0
) -> Float64Array:
    """Scores of each label by a model that learned from other programs; of at most `programs` of them, drawn."""
    generator = np.random.default_rng(draw)
    order = generator.permutation(sorted(set(known.program)))
    scores = np.zeros(len(known.labels))
    for fold in range(FOLDS):
        judged = np.isin(known.program, order[fold::FOLDS])
        others = [name for place, name in enumerate(order) if place % FOLDS != fold]
        learned = known.labels.of(np.isin(known.program, others[:programs]))
        model = learner.fit(learned.features[:, columns], learned.target, np.random.default_rng(draw))
        scores[judged] = model.scores(known.labels.features[judged][:, columns])
    return scores


if __name__ == "__main__":
    sys.exit(main())
