"""Choosing features and margin without a compile: what labels of other projects say about a model's decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymlgo.arrays import BoolArray, Float64Array, Int64Array
from pymlgo.train.labels import Labels
from pymlgo.train.models import Learner

MARGINS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Bytes that a model must promise before it departs from LLVM's default."""

IDENTITY_SHARES = (1.01, 0.8, 0.5)
"""Features of which more than this share of variance lies between modules are left out; the first keeps all."""

MOST_FOLDS = 5
MOST_ROWS = 40_000
"""Rows that cross-validation looks at; more of them cost time and were not measured to change a choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleFacts:
    """What the estimate needs of the modules, by number: project, decisions under the default, .text bytes."""

    project: tuple[str, ...]
    decisions: Int64Array
    text_bytes: Int64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One set of features and one margin, and the change of .text that labels of unseen projects promise for it."""

    features: tuple[str, ...]
    dropped: tuple[str, ...]
    margin: float
    estimated_percent: float


def compare(
    labels: Labels,
    names: Sequence[str],
    modules: ModuleFacts,
    learner: Learner,
    *,
    seed: int,
) -> list[Trial]:
    """Every trial, the best estimate first.

    Each feature set is fitted on all projects but a fold's and judged on the fold's labels. Which features tell modules
    apart rather than calls is measured: node counts and the like let a model remember modules instead of learning, and
    that shows only on projects it has not seen.
    """
    used = _sample(labels, seed)
    identity = between_module_share(used)
    trials = []
    known: set[tuple[str, ...]] = set()
    for share in IDENTITY_SHARES:
        columns = np.flatnonzero(identity <= share)
        kept = tuple(names[int(column)] for column in columns)
        if not kept or kept in known:
            continue
        known.add(kept)
        scores = _scores_of_unseen(used, columns, modules, learner.for_selection, seed)
        dropped = tuple(name for name in names if name not in kept)
        for margin in MARGINS:
            estimate = estimated_percent(used, decisions(scores, used.default, margin), modules)
            trials.append(Trial(features=kept, dropped=dropped, margin=margin, estimated_percent=estimate))
    return sorted(trials, key=lambda trial: (trial.estimated_percent, -trial.margin, len(trial.features)))


def decisions(scores: Float64Array, default: Int64Array, margin: float) -> Int64Array:
    """What a policy with these scores decides: i64[n]."""
    return np.where(scores > margin, 1, np.where(scores < -margin, 0, default))


def estimated_percent(labels: Labels, decided: Int64Array, modules: ModuleFacts) -> float:
    """The change of .text, to first order: each module's mean effect of a label times its decisions."""
    effect = -labels.target * (decided - labels.default)
    count = len(modules.project)
    total = np.bincount(labels.module, effect, minlength=count)
    rows = np.bincount(labels.module, minlength=count)
    seen = rows > 0
    text = modules.text_bytes[seen].sum()
    return float(100.0 * (total[seen] / rows[seen] * modules.decisions[seen]).sum() / text) if text else 0.0


def between_module_share(labels: Labels) -> Float64Array:
    """For each feature, the share (0 … 1) of its variance that lies between modules, on a logarithmic scale."""
    values = np.sign(labels.features) * np.log1p(np.abs(labels.features))
    _, number = np.unique(labels.module, return_inverse=True)
    rows = np.bincount(number).astype(np.float64)
    means = np.stack([np.bincount(number, column) / rows for column in values.T], axis=1)
    between = ((means - values.mean(axis=0)) ** 2 * rows[:, np.newaxis]).sum(axis=0)
    whole = ((values - values.mean(axis=0)) ** 2).sum(axis=0)
    return np.where(whole > 0, between / np.maximum(whole, 1e-12), 0.0)


def project_folds(modules: ModuleFacts, labels: Labels, most: int) -> list[frozenset[str]]:
    """All projects in at most `most` folds, shared out so that folds have about as many labels."""
    rows = Counter(np.array(modules.project)[labels.module].tolist())
    projects = sorted(set(modules.project), key=lambda name: (-rows[name], name))
    members: list[set[str]] = [set() for _ in range(min(most, len(projects)))]
    load = [0] * len(members)
    for name in projects:
        lightest = load.index(min(load))
        members[lightest].add(name)
        load[lightest] += rows[name]
    return [frozenset(each) for each in members]


def rows_of(fold: frozenset[str], modules: ModuleFacts, labels: Labels) -> BoolArray:
    """The labels of a fold's projects: bool[n]."""
    return np.isin(np.array(modules.project)[labels.module], sorted(fold))


def _scores_of_unseen(
    labels: Labels, columns: Int64Array, modules: ModuleFacts, learner: Learner, seed: int
) -> Float64Array:
    scores = np.zeros(len(labels))
    for fold in project_folds(modules, labels, MOST_FOLDS):
        unseen = rows_of(fold, modules, labels)
        if unseen.all():
            continue  # one project only: nothing to learn from for it
        train = labels.of(~unseen)
        model = learner.fit(train.features[:, columns], train.target, np.random.default_rng(seed))
        scores[unseen] = model.scores(labels.features[unseen][:, columns])
    return scores


def _sample(labels: Labels, seed: int) -> Labels:
    if len(labels) <= MOST_ROWS:
        return labels
    chosen = np.zeros(len(labels), np.bool_)
    chosen[np.random.default_rng(seed).choice(len(labels), MOST_ROWS, replace=False)] = True
    return labels.of(chosen)
