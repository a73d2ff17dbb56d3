"""Choosing features and margin on labels of unseen projects; holding projects out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pymlgo.corpus.description import Module
from pymlgo.corpus.names import project_of
from pymlgo.errors import CorpusError
from pymlgo.train.hold_out import hold_out
from pymlgo.train.labels import Labels
from pymlgo.train.selection import (
    ModuleFacts,
    between_module_share,
    compare,
    decisions,
    estimated_percent,
    project_folds,
    rows_of,
)
from pymlgo.train.trees import TreeLearner


def made_up(projects: int = 6, modules: int = 4, rows: int = 120, seed: int = 0) -> tuple[Labels, ModuleFacts]:
    """A feature that tells what inlining saves, and one that only tells the modules apart."""
    generator = np.random.default_rng(seed)
    count = projects * modules
    module = np.repeat(np.arange(count), rows)
    useful = generator.integers(-30, 30, len(module))
    identity = module * 1000 + 17
    saved = -useful + generator.normal(0, 3, len(module)) + generator.normal(0, 8, count)[module]
    labels = Labels(
        features=np.column_stack([useful, identity]).astype(np.float64),
        saved_bytes=saved,
        default=np.zeros(len(module), np.int64),
        module=module,
        group=np.ones(len(module), np.int64),
    )
    facts = ModuleFacts(
        project=tuple(f"p{number // modules}" for number in range(count)),
        decisions=np.full(count, rows),
        text_bytes=np.full(count, 10_000),
    )
    return labels, facts


def test_a_feature_that_tells_modules_apart_is_found() -> None:
    labels, _ = made_up()
    shares = between_module_share(labels)
    assert shares[0] < 0.1
    assert shares[1] > 0.99


def test_the_best_trial_drops_what_does_not_carry_over() -> None:
    labels, facts = made_up()
    trials = compare(labels, ("useful", "identity"), facts, TreeLearner(bags=1, trees=30), seed=1)
    assert trials[0].estimated_percent < -5
    assert trials == sorted(trials, key=lambda trial: trial.estimated_percent)
    assert {trial.dropped for trial in trials} == {(), ("identity",)}
    best = {
        dropped: min(t.estimated_percent for t in trials if t.dropped == dropped) for dropped in ((), ("identity",))
    }
    assert best["identity",] <= best[()] + 0.2


def test_the_estimate_counts_what_the_decisions_would_save() -> None:
    labels, facts = made_up(projects=1, modules=1, rows=4)
    labels = Labels(
        features=labels.features,
        saved_bytes=np.array([10.0, -10.0, 5.0, 100.0]),
        default=np.array([0, 0, 1, 0]),
        module=labels.module,
        group=labels.group,
    )
    facts = ModuleFacts(project=("p",), decisions=np.array([8]), text_bytes=np.array([1000]))
    assert estimated_percent(labels, labels.default, facts) == 0
    assert estimated_percent(labels, np.array([1, 0, 1, 0]), facts) == pytest.approx(-100 * (10 / 4 * 8) / 1000)
    assert estimated_percent(labels, np.array([0, 1, 0, 0]), facts) == pytest.approx(100 * (15 / 4 * 8) / 1000)


def test_folds_keep_projects_together() -> None:
    labels, facts = made_up(projects=8)
    found = project_folds(facts, labels, 3)
    assert len(found) == 3
    assert sorted(name for fold in found for name in fold) == sorted(set(facts.project))
    rows = [rows_of(fold, facts, labels) for fold in found]
    assert sum(each.astype(int) for each in rows).tolist() == [1] * len(labels)
    for fold, each in zip(found, rows, strict=True):
        assert {facts.project[number] for number in labels.module[each]} <= fold


def test_scores_inside_the_margin_leave_the_default() -> None:
    scores = np.array([-3.0, -1.0, 0.0, 1.0, 3.0])
    assert decisions(scores, np.ones(5, np.int64), 2.0).tolist() == [0, 1, 1, 1, 1]
    assert decisions(scores, np.zeros(5, np.int64), 2.0).tolist() == [0, 0, 0, 0, 1]


def modules(*names: str) -> list[Module]:
    return [Module(name=name, bitcode=Path(name), command=(), size_bytes=1000) for name in names]


def test_a_share_of_nothing_leaves_judging_to_cross_validation() -> None:
    split = hold_out(modules("a/1", "a/2", "b/1"), 0.0, 1)
    assert len(split.train) == 3
    assert not split.validation
    with pytest.raises(CorpusError, match="one project"):
        hold_out(modules("a/1", "a/2"), 0.0, 1)


@pytest.mark.parametrize("seed", range(5))
def test_projects_are_held_out_whole(seed: int) -> None:
    split = hold_out(modules(*(f"p{p}/m{m}" for p in range(8) for m in range(5))), 0.25, seed)
    assert split.by_project
    assert len(split.train) + len(split.validation) == 40
    assert len(split.validation_projects) == 2
    assert {project_of(each.name) for each in split.train}.isdisjoint(split.validation_projects)


def test_two_projects_are_one_to_learn_from_and_one_to_judge_by() -> None:
    split = hold_out(modules("big/1", "big/2", "big/3", "small/1"), 0.25, 1)
    assert [each.name for each in split.validation] == ["small/1"]


def test_one_project_is_split_by_modules_and_says_so() -> None:
    split = hold_out(modules("p/1", "p/2", "p/3", "p/4"), 0.25, 1)
    assert not split.by_project
    assert len(split.validation) == 1


def test_one_module_is_not_enough() -> None:
    with pytest.raises(CorpusError, match="training needs two"):
        hold_out(modules("p/1"), 0.25, 1)
