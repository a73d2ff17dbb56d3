"""Distillation: a small policy that decides as a large one does.

The large policy's scores are recorded while it decides about real modules, and a model of a smaller class is fitted to
them: numbers without noise, a decision each, where training has noisy labels of a few. What is lost is measured on
projects that the fit has not seen, by compiling them with both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from pymlgo.arrays import AnyArray, Float64Array, Int64Array
from pymlgo.corpus.description import Module, UnusableModule
from pymlgo.errors import ConfigError, CorpusError, PolicyError
from pymlgo.policy.directory import save_policy
from pymlgo.policy.interpreter import evaluate_batch
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import COST_ESTIMATE, INLINING_DEFAULT, InliningRule
from pymlgo.progress import Advance, progress
from pymlgo.rollout import (
    Backend,
    Executor,
    Job,
    Outcome,
    PlainBackend,
    RolloutFailure,
    RolloutResult,
    Sizes,
    Trajectory,
    change_percent,
    failures_by_reason,
    failures_of_unusable,
)
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.llvm import LLVM
from pymlgo.train.hold_out import hold_out
from pymlgo.train.labels import LARGEST_LABEL_BYTES
from pymlgo.train.mlp import MLPLearner
from pymlgo.train.models import Learner
from pymlgo.train.selection import decisions
from pymlgo.train.trees import TreeLearner

SHAPES = ("small-trees", "mlp")
"""What a policy may be distilled into."""

MLP_ROWS = 500_000
"""Decisions that each network is shown in all: a small corpus is shown more often."""

MARGINS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Departures from LLVM's default that need so much score; the one is taken under which most decisions are the same."""

MOST_ROWS = 60_000
"""Decisions that are fitted; more of them cost time."""

HELD_OUT_SHARE = 0.25

Default: TypeAlias = Literal["cost_estimate", "inlining_default"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Distillation:
    """What came of a distillation.

    Attributes:
        decisions: that were fitted.
        margin: of the small policy's scores, in the large one's unit.
        held_out: modules that were judged by; they compiled by default and with both policies.
        by_project: False where the corpus has one project only, and modules of it had to judge.
        agreement_percent: decisions about the held-out modules on which both agree.
        departures_agreement_percent: the same among those where the large policy departs from LLVM's default; None
            where it never does.
        teacher_parameters, student_parameters: floating-point constants of the large and of the small policy.
        teacher_change_percent, student_change_percent: of .text of the held-out modules, against LLVM's default; so
            the Berkeley ones.
        failures: compiles that failed, by reason.
    """

    output: Path
    shape: str
    decisions: int
    margin: float
    held_out: int
    held_out_projects: tuple[str, ...]
    by_project: bool
    agreement_percent: float
    departures_agreement_percent: float | None
    teacher_parameters: int
    student_parameters: int
    default_text_bytes: int
    teacher_text_bytes: int
    student_text_bytes: int
    teacher_change_percent: float
    student_change_percent: float
    teacher_berkeley_change_percent: float
    student_berkeley_change_percent: float
    failures: Mapping[str, int]
    compiles: int
    cpu_s: float


def distil(
    teacher: Policy,
    modules: Sequence[Module],
    output: Path,
    *,
    shape: str,
    llvm: LLVM,
    backend: Backend,
    executor: Executor,
    seed: int,
    unusable: Sequence[UnusableModule] = (),
) -> Distillation:
    """Fit a policy of a small class to the scores of `teacher`, measure what is lost, and save it to `output`.

    Args:
        teacher: an inlining policy with scores, or with logits of no and yes.
        modules: whole projects of them are held out to judge by.
        output: the policy directory.
        shape: one of `SHAPES`.
        llvm: the compiler of the default objects; the backend's own.
        backend: who compiles with the policies.
        executor: where.
        seed: of the projects held out, and of the fit.
        unusable: modules of the corpus that are not there; they count as failed.

    Raises:
        ConfigError: there is no such shape.
        PolicyError: the teacher has no scores, or takes features that are not single numbers.
        CorpusError: there are too few modules, or the teacher decides nothing about them.
    """
    if shape not in SHAPES:
        raise ConfigError(f"unknown shape {shape!r}", hint=f"known are {', '.join(SHAPES)}")
    features = _columns(teacher)
    split = hold_out(modules, HELD_OUT_SHARE, seed)
    with progress("distilling", len(split.train) + 3 * len(split.validation)) as (advance, note):
        compiles = _Compiles(executor=executor, advance=advance)
        note("recording the large policy")
        recording = [Job(module=module, policy=teacher, record=True) for module in (*split.train, *split.validation)]
        recorded = compiles.run(backend, recording)
        lessons = [recorded[each.name] for each in split.train if each.name in recorded]
        if not lessons:
            raise CorpusError(f"no module compiled with the policy: {_first_failure(compiles.outcomes)}")
        student, fitted, margin = _fit(teacher, features, lessons, shape, seed)
        note("compiling with the small policy")
        given = compiles.run(backend, [Job(module=module, policy=student) for module in split.validation])
        defaults = compiles.run(PlainBackend(llvm=llvm), [Job(module=module) for module in split.validation])
    save_policy(student, output)
    judged = [name for name in given if name in defaults and name in recorded]
    default, taught, small = (
        _total([results[name].sizes for name in judged]) for results in (defaults, recorded, given)
    )
    agreement, departures = _agreement(student, [recorded[name] for name in judged])
    return Distillation(
        output=output,
        shape=shape,
        decisions=fitted,
        margin=margin,
        held_out=len(judged),
        held_out_projects=split.validation_projects,
        by_project=split.by_project,
        agreement_percent=agreement,
        departures_agreement_percent=departures,
        teacher_parameters=teacher.graph.parameter_count,
        student_parameters=student.graph.parameter_count,
        default_text_bytes=default.text_bytes,
        teacher_text_bytes=taught.text_bytes,
        student_text_bytes=small.text_bytes,
        teacher_change_percent=change_percent(default.text_bytes, taught.text_bytes),
        student_change_percent=change_percent(default.text_bytes, small.text_bytes),
        teacher_berkeley_change_percent=change_percent(default.berkeley_bytes, taught.berkeley_bytes),
        student_berkeley_change_percent=change_percent(default.berkeley_bytes, small.berkeley_bytes),
        failures=failures_by_reason([*compiles.outcomes, *failures_of_unusable(unusable)]),
        compiles=len(compiles.outcomes),
        cpu_s=sum(each.cpu_s for each in compiles.outcomes),
    )


class _Compiles:
    """Runs jobs and remembers all outcomes."""

    def __init__(self, *, executor: Executor, advance: Advance) -> None:
        self._executor = executor
        self._advance = advance
        self.outcomes: list[Outcome] = []

    def run(self, backend: Backend, jobs: Sequence[Job]) -> dict[str, RolloutResult]:
        """The results by module, of those that compiled."""
        results: dict[str, RolloutResult] = {}
        for _, outcome in self._executor.run(backend, jobs):
            self._advance(1)
            self.outcomes.append(outcome)
            if isinstance(outcome, RolloutResult):
                results[outcome.module] = outcome
        return results


def _first_failure(outcomes: Sequence[Outcome]) -> str:
    return next(f"{each.reason}: {each.detail}" for each in outcomes if isinstance(each, RolloutFailure))


def _columns(teacher: Policy) -> tuple[TensorSpec, ...]:
    """The features that a small policy of `teacher` takes."""
    if teacher.problem != "inlining":
        raise PolicyError(f"only inlining policies are distilled, this one is for {teacher.problem}")
    features = tuple(spec for spec in teacher.graph.inputs if spec.name != INLINING_DEFAULT.name)
    vectors = [spec.name for spec in features if spec.element_count != 1]
    if vectors:
        raise PolicyError(f"features must be single numbers, not {', '.join(vectors)}")
    _score_output(teacher)
    return features


def _score_output(policy: Policy) -> str:
    """The output that says how much inlining gains: a score, or the logits of no and yes.

    Raises:
        PolicyError: there is none.
    """
    counts = {spec.name: spec.element_count for spec in policy.graph.output_specs}
    for name, count in (("score", 1), ("logits", 2)):
        if counts.get(name) == count:
            return name
    raise PolicyError("the policy has no scores to learn from, only decisions")


def _scores(policy: Policy, trajectory: Trajectory) -> Float64Array:
    """The gain of inlining in each recorded decision, f64[n]."""
    name = _score_output(policy)
    made = evaluate_batch(policy.graph, _inputs(policy, trajectory))[name].astype(np.float64)
    return made.reshape(-1) if name == "score" else np.diff(made.reshape(-1, 2), axis=1).reshape(-1)


def _inputs(policy: Policy, trajectory: Trajectory) -> dict[str, AnyArray]:
    """What the policy was, or would have been, asked in each recorded decision."""
    features = {**trajectory.features, INLINING_DEFAULT.name: _default(trajectory).reshape(-1, 1)}
    missing = policy.missing(trajectory.specs)
    values = policy.default_inputs()
    count = len(trajectory)
    return {
        spec.name: np.broadcast_to(values[spec.name], (count, *spec.shape))
        if spec.name in missing and spec.name in values
        else features[spec.name].astype(spec.dtype)
        for spec in policy.graph.inputs
    }


def _default(trajectory: Trajectory) -> Int64Array:
    if trajectory.default is None:
        raise PolicyError("distilling needs a compiler that says what its default is")
    return trajectory.default


def _learner(shape: str, rows: int) -> Learner:
    if shape == "mlp":
        return MLPLearner(epochs=max(1, MLP_ROWS // rows), decay=0.005)
    # Scores have no noise, so leaves may be small.
    return TreeLearner(bags=1, trees=50, leaves=15, rate=0.15, leaf_share=0.001, l2=1.0)


def _fit(
    teacher: Policy, features: Sequence[TensorSpec], recorded: Sequence[RolloutResult], shape: str, seed: int
) -> tuple[Policy, int, float]:
    """The small policy, on how many decisions it was fitted, and its margin."""
    names = [spec.name for spec in features]
    generator = np.random.default_rng(seed)
    lessons = [_lesson(teacher, names, each) for each in _trajectories(recorded)]
    if not lessons:
        raise CorpusError("the policy decides nothing about these modules", hint="take a corpus with calls")
    lesson = _Lesson.joined(lessons).sample(MOST_ROWS, generator)
    learner = _learner(shape, len(lesson.scores))
    model = learner.fit(lesson.features, np.clip(lesson.scores, -LARGEST_LABEL_BYTES, LARGEST_LABEL_BYTES), generator)
    rule = _best_rule(model.scores(lesson.features), lesson, names, teacher)
    provenance = {
        "made_by": "mlgo policy distil",
        "learner": learner.name,
        "seed": seed,
        "decisions": len(lesson.scores),
        "margin": rule.margin,
        "teacher": {"fingerprint": teacher.graph.fingerprint(), "provenance": dict(teacher.provenance)},
    }
    return model.policy(features, rule, provenance), len(lesson.scores), rule.margin


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Lesson:
    """n decisions: features f64[n, f], the teacher's scores f64[n] and advice i64[n], LLVM's default i64[n]."""

    features: Float64Array
    scores: Float64Array
    advice: Int64Array
    default: Int64Array

    @classmethod
    def joined(cls, parts: Sequence[_Lesson]) -> _Lesson:
        """All decisions of `parts`."""
        return cls(**{name: np.concatenate([getattr(each, name) for each in parts]) for name in cls.__slots__})

    def sample(self, most: int, generator: np.random.Generator) -> _Lesson:
        """At most so many of them."""
        if len(self.scores) <= most:
            return self
        rows = np.sort(generator.permutation(len(self.scores))[:most])
        return _Lesson(**{name: getattr(self, name)[rows] for name in self.__slots__})


def _lesson(teacher: Policy, names: Sequence[str], trajectory: Trajectory) -> _Lesson:
    return _Lesson(
        features=trajectory.matrix(names),
        scores=_scores(teacher, trajectory),
        advice=trajectory.advice,
        default=_default(trajectory),
    )


def _best_rule(scores: Float64Array, lesson: _Lesson, names: Sequence[str], teacher: Policy) -> InliningRule:
    """The rule under which the small policy agrees with the large one most often; of equal ones the boldest."""
    usual: dict[Default, Int64Array] = {None: (scores > 0).astype(np.int64)}
    if INLINING_DEFAULT.name in {spec.name for spec in teacher.graph.inputs}:
        usual["inlining_default"] = lesson.default
    elif COST_ESTIMATE.name in names:
        usual["cost_estimate"] = (lesson.features[:, names.index(COST_ESTIMATE.name)] <= 0).astype(np.int64)
    rules = [
        InliningRule(margin=margin, default=default)
        for default in usual
        for margin in (MARGINS if default is not None else (0.0,))
    ]
    return max(
        rules, key=lambda rule: float((decisions(scores, usual[rule.default], rule.margin) == lesson.advice).mean())
    )


def _agreement(student: Policy, recorded: Sequence[RolloutResult]) -> tuple[float, float | None]:
    """Shares of the recorded decisions, and of those unlike LLVM's default, that `student` makes as recorded."""
    agrees, departs = [np.zeros(0, np.bool_)], [np.zeros(0, np.bool_)]
    for trajectory in _trajectories(recorded):
        decided = evaluate_batch(student.graph, _inputs(student, trajectory))[student.advice].reshape(-1)
        agrees.append(decided == trajectory.advice)
        departs.append(trajectory.advice != _default(trajectory))
    all_agree, all_depart = np.concatenate(agrees), np.concatenate(departs)
    return (
        float(100.0 * all_agree.mean()) if len(all_agree) else 100.0,
        float(100.0 * all_agree[all_depart].mean()) if all_depart.any() else None,
    )


def _trajectories(recorded: Sequence[RolloutResult]) -> list[Trajectory]:
    """Of the compiles that asked anything."""
    return [each.trajectory for each in recorded if each.trajectory is not None and len(each.trajectory)]


def _total(sizes: Sequence[Sizes]) -> Sizes:
    return Sizes(
        text_bytes=sum(each.text_bytes for each in sizes), berkeley_bytes=sum(each.berkeley_bytes for each in sizes)
    )
