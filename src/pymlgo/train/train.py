"""`train`: from corpora to a policy directory, in a run that can be stopped and resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pymlgo.corpus.description import Corpus, Module, read_corpus
from pymlgo.errors import ConfigError, CorpusError
from pymlgo.policy.builder import GraphBuilder
from pymlgo.policy.directory import load_policy, save_policy
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import INLINING_ADVICE, INLINING_DEFAULT
from pymlgo.progress import progress
from pymlgo.rollout import Backend, Executor, PipesBackend
from pymlgo.toolchain.identity import binary_identity
from pymlgo.toolchain.llvm import LLVM
from pymlgo.train.budget import COMPILES_PER_CORE_SECOND, Budget
from pymlgo.train.checkpoint import State, load_state, save_state
from pymlgo.train.flip_regression import Candidate, FlipRegression, Options, Plan, make_plan
from pymlgo.train.hold_out import HoldOut, hold_out
from pymlgo.train.models import learner_named
from pymlgo.train.run_directory import RunDirectory, Setting
from pymlgo.train.selection import Trial
from pymlgo.train.validation import Validated, Validation

LEAST_COMPILES = 20
"""Below this a plan has nothing to flip."""

RECIPE_COMPILES_PER_MODULE = 20
"""Without any budget: two rounds of a base sweep and six sweeps, and validation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainRequest:
    """What a run is asked.

    Attributes:
        corpora: folders; together they are one corpus.
        seed: everything that is drawn.
        max_compiles: the plan's size; what comes out depends on it, and on nothing that a clock says.
        budget_s: wall seconds; cuts the plan short.
        learner: "trees", "mlp" or "lightgbm".
        validation_share: of the bitcode, held out by projects.
        options: of the algorithm.
    """

    corpora: tuple[Path, ...]
    seed: int = 1
    max_compiles: int | None = None
    budget_s: float | None = None
    learner: str = "trees"
    validation_share: float = 0.25
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCandidate:
    """One policy that the run compiled the validation projects with."""

    round: int
    margin: float
    dropped_features: tuple[str, ...]
    estimated_percent: float
    text_change_percent: float
    berkeley_change_percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """What a run gave.

    Attributes:
        policy: the directory that was written.
        run: the run's folder.
        fell_back: no candidate beat LLVM's default on the validation modules, so the policy is that default.
        text_change_percent, berkeley_change_percent: of the best candidate on the validation modules; 0 if `fell_back`.
        validation_projects: change of .text in per cent by project that nothing was learned from.
        validated_by_project: False if the corpus has one project, and validation is on other modules of the same.
        labels: labelled decisions.
        compiles, cpu_s, elapsed_s: cost of the run.
        failures: compiles without an object, by reason.
        stopped_by: "plan" or "time".
    """

    policy: Path
    run: Path
    learner: str
    fell_back: bool
    text_change_percent: float
    berkeley_change_percent: float
    validation_projects: Mapping[str, float]
    validated_by_project: bool
    train_modules: int
    validation_modules: int
    labels: int
    candidates: tuple[JudgedCandidate, ...]
    compiles: int
    cpu_s: float
    elapsed_s: float
    failures: Mapping[str, int]
    stopped_by: str


def train(
    request: TrainRequest,
    output: Path,
    *,
    llvm: LLVM,
    executor: Executor,
    workers: int,
    runs: Path,
    backend: Backend | None = None,
    resume: Path | None = None,
) -> TrainResult:
    """Train an inlining policy and write it to `output`.

    The policy is written whenever a better one was judged, so whatever ends the run leaves the best so far there.

    Args:
        request: what to do.
        output: the policy directory.
        llvm: the compiler.
        executor: where compiles run.
        workers: how many run at a time; only used to turn a time budget into a plan.
        runs: folder of the runs' folders.
        backend: how compiles run; the pipes by default.
        resume: the folder of a run to go on with.

    Raises:
        CorpusError: no modules, or none with a decision.
        ConfigError: a run is resumed under other settings, corpus or compiler.
        MissingDependency: the learner needs an extra.
    """
    learner = learner_named(request.learner)
    modules = read_modules(request.corpora)
    split = hold_out(modules, request.validation_share, request.seed)
    max_compiles = _planned_compiles(request, len(modules), workers)
    plan = make_plan(split.train, split.validation, max_compiles, request.options, request.seed)
    used = backend or PipesBackend(llvm=llvm)
    settings = _settings(request, modules, llvm, used, max_compiles)
    if resume is None:
        run = RunDirectory.create(runs, f"flip-regression-s{request.seed}", settings)
    else:
        run = RunDirectory.open(resume)
        run.check_settings({key: value for key, value in settings.items() if key not in ("corpora", "clang")})
    budget = Budget(max_compiles=max_compiles, limit_s=request.budget_s)
    with progress("training", plan.compiles) as shown:
        algorithm = FlipRegression(
            plan=plan,
            options=request.options,
            learner=learner,
            seed=request.seed,
            executor=executor,
            backend=used,
            validation=Validation(plan.validation, llvm, executor, used),
            budget=budget,
            shown=shown,
        )
        if resume is not None:
            _restore(run, algorithm, budget)
        session = _Session(run=run, output=output, algorithm=algorithm, budget=budget, request=request, split=split)
        session.go(str(llvm.version_text))
    return session.result(plan)


def read_modules(corpora: Sequence[Path]) -> list[Module]:
    """The usable modules of all corpora.

    Raises:
        CorpusError: there are none, or two corpora have a module of the same name.
    """
    found: list[Corpus] = [read_corpus(root) for root in corpora]
    modules = [module for corpus in found for module in corpus.modules]
    if not modules:
        raise CorpusError(
            f"no usable module in {', '.join(map(str, corpora))}",
            hint="`mlgo corpus describe` says what a corpus holds",
        )
    names: set[str] = set()
    for module in modules:
        if module.name in names:
            raise CorpusError(
                f"the module {module.name!r} is in two of the corpora", hint="combine them with `mlgo corpus combine`"
            )
        names.add(module.name)
    return modules


@dataclass(slots=True, kw_only=True, eq=False)
class _Session:
    """One run: the algorithm, and what is written while it works."""

    run: RunDirectory
    output: Path
    algorithm: FlipRegression
    budget: Budget
    request: TrainRequest
    split: HoldOut
    stopped_by: str = "plan"

    def go(self, llvm_version: str) -> None:
        self._write_policy(llvm_version)
        try:
            for facts in self.algorithm.run():
                kind = str(facts.pop("event"))
                self.run.event(kind, **facts, compiles=self.budget.compiles, cpu_s=round(self.budget.cpu_s, 3))
                if kind == "best":
                    self._write_policy(llvm_version)
                elif kind in ("sweep", "round"):  # between the two, candidates are judged again
                    save_state(self.run.checkpoint, self._state())
        except KeyboardInterrupt:
            self.run.event("interrupted", compiles=self.budget.compiles)
            raise
        self.stopped_by = "time" if self.algorithm.cut_short else "plan"
        self._write_policy(llvm_version)  # its provenance now has the whole run
        self.run.event("end", stopped_by=self.stopped_by, compiles=self.budget.compiles)

    def result(self, plan: Plan) -> TrainResult:
        progress = self.algorithm.progress
        best = progress.best.validated if progress.best else None
        return TrainResult(
            policy=self.output,
            run=self.run.path,
            learner=self.request.learner,
            fell_back=best is None,
            text_change_percent=best.text_change_percent if best else 0.0,
            berkeley_change_percent=best.berkeley_change_percent if best else 0.0,
            validation_projects=best.projects if best else dict.fromkeys(self.split.validation_projects, 0.0),
            validated_by_project=self.split.by_project,
            train_modules=len(plan.train),
            validation_modules=len(plan.validation),
            labels=len(progress.labels),
            candidates=tuple(_judged(*each) for each in progress.judged),
            compiles=self.budget.compiles,
            cpu_s=self.budget.cpu_s,
            elapsed_s=self.budget.elapsed_s,
            failures=dict(sorted(self.algorithm.failures.items())),
            stopped_by=self.stopped_by,
        )

    def _write_policy(self, llvm_version: str) -> None:
        best = self.algorithm.progress.best
        policy = default_policy() if best is None else best.policy
        whole = Policy(
            problem=policy.problem,
            graph=policy.graph,
            advice=policy.advice,
            defaults=policy.defaults,
            provenance=self._provenance(best, llvm_version),
        )
        save_policy(whole, self.run.policy(self.algorithm.progress.judged_as_best))
        save_policy(whole, self.output)

    def _provenance(self, best: Candidate | None, llvm_version: str) -> dict[str, object]:
        known: dict[str, object] = {
            "made_by": "mlgo train",
            "algorithm": "flip-regression",
            "learner": self.request.learner,
            "seed": self.request.seed,
            "run": self.run.path.name,
            "llvm": llvm_version,
            "corpus_sha256": self.run.settings().get("corpus_sha256"),
            "train_projects": sorted({each.name.partition("/")[0] for each in self.split.train}),
            "validation_projects": list(self.split.validation_projects),
            "labels": len(self.algorithm.progress.labels),
            "compiles": self.budget.compiles,
            "cpu_s": round(self.budget.cpu_s, 1),
        }
        if best is None:
            return {**known, "note": "no candidate beat LLVM's default on the validation modules; this is that default"}
        return {
            **known,
            "margin_bytes": best.trial.margin,
            "dropped_features": list(best.trial.dropped),
            "validation_text_change_percent": best.validated.text_change_percent,
            "validation_berkeley_change_percent": best.validated.berkeley_change_percent,
        }

    def _state(self) -> State:
        progress = self.algorithm.progress
        facts: dict[str, Any] = {
            "round": progress.round,
            "sweep": progress.sweep,
            "flips_of_round": progress.flips_of_round,
            "features": list(progress.labels.features),
            "compiles": self.budget.compiles,
            "cpu_s": self.budget.cpu_s,
            "elapsed_s": self.budget.elapsed_s,
            "judged": [_judged_facts(*each) for each in progress.judged],
            "best": None if progress.best is None else progress.judged_as_best,
        }
        return State(facts=facts, labels=progress.labels.labels(), tried=progress.tried)


def default_policy() -> Policy:
    """The policy that leaves every decision to LLVM."""
    make = GraphBuilder()
    make.output(INLINING_ADVICE.name, (make.input(INLINING_DEFAULT) > 0).cast("int64_t"))
    return Policy(problem="inlining", graph=make.build(), advice=INLINING_ADVICE.name)


def _planned_compiles(request: TrainRequest, modules: int, workers: int) -> int:
    if request.max_compiles is not None:
        if request.max_compiles < LEAST_COMPILES:
            raise ConfigError(
                f"{request.max_compiles} compiles are too few to learn from", hint=f"give at least {LEAST_COMPILES}"
            )
        return request.max_compiles
    recipe = RECIPE_COMPILES_PER_MODULE * modules
    if request.budget_s is None:
        return recipe
    return max(LEAST_COMPILES, min(recipe, int(request.budget_s * workers * COMPILES_PER_CORE_SECOND)))


def _settings(
    request: TrainRequest, modules: Sequence[Module], llvm: LLVM, backend: Backend, max_compiles: int
) -> dict[str, Setting]:
    options = {each.name: getattr(request.options, each.name) for each in fields(Options)}
    return {
        "algorithm": "flip-regression",
        "learner": request.learner,
        "backend": backend.name,
        "seed": request.seed,
        "max_compiles": max_compiles,
        "validation_share": request.validation_share,
        **options,
        "corpora": tuple(str(each.resolve()) for each in request.corpora),
        "corpus_sha256": corpus_digest(modules),
        "clang": str(llvm.clang),
        "llvm": llvm.version_text,
        "compiler_sha256": binary_identity(llvm.clang),
    }


def corpus_digest(modules: Sequence[Module]) -> str:
    """What the modules hold, whatever folder they lie in: 64 hex digits."""
    digest = hashlib.sha256()
    for module in sorted(modules, key=lambda each: each.name):
        digest.update(module.name.encode("utf-8", "surrogateescape") + b"\0")
        digest.update(hashlib.sha256(module.bitcode.read_bytes()).digest())
        digest.update(hashlib.sha256(b"\0".join(module.command)).digest())
    return digest.hexdigest()


def _restore(run: RunDirectory, algorithm: FlipRegression, budget: Budget) -> None:
    state = load_state(run.checkpoint)
    facts, progress = state.facts, algorithm.progress
    progress.round, progress.sweep = facts["round"], facts["sweep"]
    progress.flips_of_round = facts["flips_of_round"]
    progress.labels.features = tuple(facts["features"])
    progress.labels.add_all(state.labels)
    progress.tried[:] = state.tried
    progress.judged[:] = [_judged_from(each) for each in facts["judged"]]
    if facts["best"] is not None:
        progress.judged_as_best = facts["best"]
        round_number, trial, validated = progress.judged[facts["best"] - 1]
        policy = load_policy(run.policy(facts["best"]))
        progress.best = Candidate(policy=policy, round=round_number, trial=trial, validated=validated)
    budget.compiles, budget.cpu_s, budget.before_s = facts["compiles"], facts["cpu_s"], facts["elapsed_s"]
    run.event("resumed", compiles=budget.compiles)


def _judged(round_number: int, trial: Trial, validated: Validated) -> JudgedCandidate:
    return JudgedCandidate(
        round=round_number,
        margin=trial.margin,
        dropped_features=trial.dropped,
        estimated_percent=trial.estimated_percent,
        text_change_percent=validated.text_change_percent,
        berkeley_change_percent=validated.berkeley_change_percent,
    )


def _judged_facts(round_number: int, trial: Trial, validated: Validated) -> dict[str, object]:
    return {
        "round": round_number,
        "trial": {each.name: getattr(trial, each.name) for each in fields(Trial)},
        "validated": {each.name: getattr(validated, each.name) for each in fields(Validated)},
    }


def _judged_from(facts: Mapping[str, Any]) -> tuple[int, Trial, Validated]:
    trial = dict(facts["trial"])
    trial["features"], trial["dropped"] = tuple(trial["features"]), tuple(trial["dropped"])
    return facts["round"], Trial(**trial), Validated(**facts["validated"])
