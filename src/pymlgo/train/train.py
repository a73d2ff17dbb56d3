"""`train`: from corpora to a policy directory, in a run that can be stopped and resumed."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from pymlgo.corpus.description import Corpus, Module, read_corpus
from pymlgo.corpus.names import project_of
from pymlgo.errors import ConfigError, CorpusError
from pymlgo.policy.policy import Policy
from pymlgo.progress import progress
from pymlgo.rollout import Backend, Executor, PipesBackend
from pymlgo.toolchain.identity import binary_identity
from pymlgo.toolchain.llvm import LLVM
from pymlgo.train.algorithms import AlgorithmOptions, algorithm_name, make_algorithm, plan_for
from pymlgo.train.budget import COMPILES_PER_CORE_SECOND, Budget
from pymlgo.train.flip_regression import Options
from pymlgo.train.hold_out import HoldOut, hold_out
from pymlgo.train.run_directory import RunDirectory, Setting
from pymlgo.train.session import Session
from pymlgo.train.tensorboard import tensorboard_log
from pymlgo.train.validation import Validation
from pymlgo.train.workshop import Judged, Workshop

LEAST_COMPILES = 20
"""Below this a plan has nothing to flip."""

RECIPE_COMPILES_PER_MODULE = 20
"""Without any budget: two rounds of a base sweep and six sweeps, and validation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainRequest:
    """What a run is asked.

    Attributes:
        corpora: folders; together they are one corpus.
        options: of the algorithm, which they name by their class.
        seed: everything that is drawn.
        max_compiles: the plan's size; what comes out depends on it, and on nothing that a clock says.
        budget_s: wall seconds; cuts the plan short.
        validation_share: of the bitcode, held out by projects; 0 for cross-validation (flip regression only).
        start: the policy to start from, which may be a bad one; None for LLVM's default.
    """

    corpora: tuple[Path, ...]
    options: AlgorithmOptions = field(default_factory=Options)
    seed: int = 1
    max_compiles: int | None = None
    budget_s: float | None = None
    validation_share: float = 0.25
    start: Policy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """What a run gave.

    Attributes:
        policy: the directory that was written.
        run: the run's folder.
        fell_back: no candidate beat what the run started from, so the policy is that: LLVM's default, if nothing else
            was asked for.
        text_change_percent, berkeley_change_percent: of the policy on the validation modules.
        validation_projects: change of .text in per cent by project that nothing was learned from.
        validated_by_project: False if the corpus has one project, and validation is on other modules of the same.
        labels: labelled decisions.
        candidates: every policy that was judged, in order: the learning curve.
        compiles, cpu_s, elapsed_s: cost of the run.
        failures: compiles without an object, by reason.
        stopped_by: "plan" or "time".
    """

    policy: Path
    run: Path
    algorithm: str
    fell_back: bool
    text_change_percent: float
    berkeley_change_percent: float
    validation_projects: Mapping[str, float]
    validated_by_project: bool
    train_modules: int
    validation_modules: int
    labels: int
    candidates: tuple[Judged, ...]
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
    tensorboard: bool = False,
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
        tensorboard: write the run's events to `tensorboard` in its folder, too.

    Raises:
        CorpusError: no modules, or none with a decision.
        ConfigError: a run is resumed under other settings, corpus or compiler.
        MissingDependency: the algorithm needs an extra.
    """
    modules = read_modules(request.corpora)
    split = hold_out(modules, request.validation_share, request.seed)
    max_compiles = _planned_compiles(request, len(modules), workers)
    plan = plan_for(request.options, split, max_compiles, request.seed)
    used = backend or PipesBackend(llvm=llvm)
    settings = _settings(request, modules, llvm, used, max_compiles)
    with progress("training", plan.compiles) as shown:
        workshop = Workshop(
            executor=executor,
            backend=used,
            validation=Validation(plan.validation, llvm, executor, used),
            budget=Budget(max_compiles=max_compiles, limit_s=request.budget_s),
            start=request.start,
            shown=shown,
        )
        algorithm = make_algorithm(request.options, plan, request.seed, workshop)
        if resume is None:
            run = RunDirectory.create(runs, f"{algorithm_name(request.options)}-s{request.seed}", settings)
        else:
            run = RunDirectory.open(resume)
            run.check_settings({key: value for key, value in settings.items() if key not in ("corpora", "clang")})
        session = Session(
            run=run,
            output=output,
            algorithm=algorithm,
            workshop=workshop,
            provenance=_provenance(run, settings, split),
        )
        with contextlib.ExitStack() as stack:
            if tensorboard:
                session.also_told = stack.enter_context(tensorboard_log(run.path / "tensorboard"))
            if resume is not None:
                session.restore()
            session.go()
    best = workshop.best_judged
    return TrainResult(
        policy=output,
        run=run.path,
        algorithm=algorithm_name(request.options),
        fell_back=workshop.fell_back,
        text_change_percent=best.text_change_percent if best else 0.0,
        berkeley_change_percent=best.berkeley_change_percent if best else 0.0,
        validation_projects=best.projects if best else dict.fromkeys(_projects(plan.validation), 0.0),
        validated_by_project=split.by_project,
        train_modules=len(plan.train),
        validation_modules=len(plan.validation),
        labels=session.algorithm.labels,
        candidates=tuple(workshop.judged),
        compiles=workshop.budget.compiles,
        cpu_s=workshop.budget.cpu_s,
        elapsed_s=workshop.budget.elapsed_s,
        failures=dict(sorted(workshop.failures.items())),
        stopped_by=session.stopped_by,
    )


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
    options = {each.name: getattr(request.options, each.name) for each in fields(request.options)}
    return {
        "algorithm": algorithm_name(request.options),
        "backend": backend.name,
        "seed": request.seed,
        "max_compiles": max_compiles,
        "validation_share": request.validation_share,
        **options,
        "start_sha256": request.start.graph.fingerprint() if request.start else None,
        "corpora": tuple(str(each.resolve()) for each in request.corpora),
        "modules": len(modules),
        "corpus_sha256": corpus_digest(modules),
        "clang": str(llvm.clang),
        "llvm": llvm.version_text,
        "compiler_sha256": binary_identity(llvm.clang),
    }


def _provenance(run: RunDirectory, settings: Mapping[str, Setting], split: HoldOut) -> dict[str, object]:
    kept = ("algorithm", "learner", "strategy", "shape", "seed", "llvm", "corpus_sha256", "start_sha256")
    return {
        "made_by": "mlgo train",
        "run": run.path.name,
        **{key: settings[key] for key in kept if settings.get(key) is not None},
        "train_projects": _projects(split.train),
        "validation_projects": list(split.validation_projects),
    }


def _projects(modules: Sequence[Module]) -> list[str]:
    return sorted({project_of(each.name) for each in modules})


def corpus_digest(modules: Sequence[Module]) -> str:
    """What the modules hold, whatever folder they lie in: 64 hex digits."""
    digest = hashlib.sha256()
    for module in sorted(modules, key=lambda each: each.name):
        digest.update(module.name.encode("utf-8", "surrogateescape") + b"\0")
        digest.update(hashlib.sha256(module.bitcode.read_bytes()).digest())
        digest.update(hashlib.sha256(b"\0".join(module.command)).digest())
    return digest.hexdigest()
