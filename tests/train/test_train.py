"""Training on a real clang: reproducible, resumable, honest about what it found."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from pymlgo.corpus.description import Corpus, Description, write_description
from pymlgo.errors import ConfigError, CorpusError
from pymlgo.evaluate import evaluate
from pymlgo.policy.directory import load_policy
from pymlgo.policy.shapes import INLINING_ADVICE, InliningRule, constant_policy
from pymlgo.rollout import Backend, Executor, Job, LocalExecutor, Outcome, PipesBackend
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.llvm import LLVM, find_llvm
from pymlgo.train import Options, TrainRequest, TrainResult, evolution, imitation, ppo, train
from pymlgo.train.algorithms import AlgorithmOptions, algorithm_name
from pymlgo.train.checkpoint import load_state
from pymlgo.train.flip_regression import make_plan
from pymlgo.train.hold_out import hold_out
from pymlgo.train.run_directory import RunDirectory
from pymlgo.train.run_summary import summarize
from pymlgo.train.trees import TreeLearner
from tiny_corpus import make_corpus

pytestmark = pytest.mark.llvm

COMPILES = 70


@pytest.fixture(scope="module")
def llvm(clang22: Path) -> LLVM:
    return find_llvm(clang=clang22)


@pytest.fixture(scope="module")
def corpus(clang22: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(clang22, tmp_path_factory.mktemp("corpus"), projects=4, modules=3)


@pytest.fixture(scope="module")
def pool() -> Iterator[LocalExecutor]:
    with LocalExecutor(2) as executor:
        yield executor


def request(corpus: Corpus, **changes: object) -> TrainRequest:
    whole = TrainRequest(corpora=(corpus.root,), max_compiles=COMPILES, options=Options(rounds=1, sweeps=4))
    return dataclasses.replace(whole, **changes)


def trained(
    corpus: Corpus, folder: Path, llvm: LLVM, executor: Executor, *, resume: Path | None = None, **changes: object
) -> TrainResult:
    return train(
        request(corpus, **changes),
        folder / "policy",
        llvm=llvm,
        executor=executor,
        workers=2,
        runs=folder / "runs",
        backend=PipesBackend(llvm=llvm),
        resume=resume,
    )


@pytest.fixture(scope="module")
def first(corpus: Corpus, llvm: LLVM, pool: LocalExecutor, tmp_path_factory: pytest.TempPathFactory) -> TrainResult:
    return trained(corpus, tmp_path_factory.mktemp("first"), llvm, pool)


class Interrupting:
    """An executor during whose work somebody presses Ctrl-C."""

    def __init__(self, inner: Executor, after: int) -> None:
        self.inner = inner
        self.left = after

    def run(self, backend: Backend, jobs: Iterable[Job]) -> Iterator[tuple[int, Outcome]]:
        for each in self.inner.run(backend, jobs):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            yield each


def test_the_result_says_what_was_done(first: TrainResult) -> None:
    assert first.labels > 50
    assert 0 < first.compiles <= COMPILES
    assert first.cpu_s > 0
    assert first.stopped_by == "plan"
    assert first.validated_by_project
    assert len(first.validation_projects) == 1
    assert first.failures == {}
    assert first.fell_back == (min([0.0, *(each.text_change_percent for each in first.candidates)]) == 0)


def test_the_policy_is_there_with_where_it_comes_from(first: TrainResult) -> None:
    policy = load_policy(first.policy)
    assert policy.problem == "inlining"
    assert policy.provenance["seed"] == 1
    assert policy.provenance["algorithm"] == "flip-regression"
    assert policy.provenance["validation_projects"] == list(first.validation_projects)
    assert "inlining_default" in {spec.name for spec in policy.graph.inputs}


def test_cross_validation_judges_every_project_by_what_the_others_taught(
    corpus: Corpus, llvm: LLVM, pool: LocalExecutor, tmp_path: Path
) -> None:
    result = trained(corpus, tmp_path, llvm, pool, validation_share=0.0, options=Options(rounds=1))
    assert result.train_modules == result.validation_modules
    assert set(result.validation_projects) == {each.name.partition("/")[0] for each in corpus.modules}
    assert result.compiles <= COMPILES
    assert result.candidates or result.fell_back


def test_the_run_is_kept(first: TrainResult, llvm: LLVM) -> None:
    run = RunDirectory.open(first.run)
    settings = run.settings()
    assert (settings["seed"], settings["max_compiles"], settings["backend"]) == (1, COMPILES, "pipes")
    assert settings["llvm"] == llvm.version_text
    kinds = [each["event"] for each in run.events()]
    assert kinds[0] == "defaults"
    assert kinds[-1] == "end"
    assert kinds.count("sweep") >= 2


def test_equal_compiles_and_seed_give_the_same_policy(
    corpus: Corpus, llvm: LLVM, first: TrainResult, tmp_path: Path
) -> None:
    with LocalExecutor(1) as executor:  # another number of workers, another order of results
        again = trained(corpus, tmp_path, llvm, executor)
    assert again.candidates == first.candidates
    assert again.labels == first.labels
    assert load_policy(again.policy).graph.fingerprint() == load_policy(first.policy).graph.fingerprint()


@pytest.mark.parametrize("after", [2, 30])
def test_an_interrupted_run_keeps_the_best_and_resumes_to_the_same(
    after: int, corpus: Corpus, llvm: LLVM, pool: LocalExecutor, first: TrainResult, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        trained(corpus, tmp_path, llvm, Interrupting(pool, after))
    assert load_policy(tmp_path / "policy").problem == "inlining"
    (run,) = (tmp_path / "runs").iterdir()
    if not RunDirectory(run).checkpoint.exists():
        with pytest.raises(ConfigError, match="no usable checkpoint"):
            trained(corpus, tmp_path, llvm, pool, resume=run)
        return
    resumed = trained(corpus, tmp_path, llvm, pool, resume=run)
    assert resumed.candidates == first.candidates
    assert resumed.run == run
    assert load_policy(resumed.policy).graph.fingerprint() == load_policy(first.policy).graph.fingerprint()
    assert "resumed" in [each["event"] for each in RunDirectory(run).events()]


def test_a_run_resumes_only_as_it_was_started(
    corpus: Corpus, llvm: LLVM, pool: LocalExecutor, first: TrainResult, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="started with 1, now it is 2") as raised:
        trained(corpus, tmp_path, llvm, pool, resume=first.run, seed=2)
    assert raised.value.key == "seed"
    with pytest.raises(ConfigError, match="is no run"):
        trained(corpus, tmp_path, llvm, pool, resume=tmp_path)


def test_another_corpus_or_compiler_is_named(
    clang19: Path, clang22: Path, llvm: LLVM, pool: LocalExecutor, first: TrainResult, corpus: Corpus, tmp_path: Path
) -> None:
    other = make_corpus(clang22, tmp_path / "other", projects=2, modules=2, seed=9)
    with pytest.raises(ConfigError, match="modules: the run was started with 12, now it is 4"):
        trained(other, tmp_path, llvm, pool, resume=first.run)
    with pytest.raises(ConfigError, match="llvm"):
        trained(corpus, tmp_path, find_llvm(clang=clang19), pool, resume=first.run)


def test_what_was_learned_changes_decisions_on_unseen_projects(
    clang22: Path, llvm: LLVM, pool: LocalExecutor, first: TrainResult, tmp_path: Path
) -> None:
    state = load_state(RunDirectory(first.run).checkpoint)
    names = state.facts["algorithm"]["features"]
    model = TreeLearner(bags=1).fit(
        state.arrays["features"], np.clip(state.arrays["saved_bytes"], -60, 60), np.random.default_rng(0)
    )
    specs = [TensorSpec(name, "int64_t", (1,)) for name in names]
    policy = model.policy(specs, InliningRule(margin=1.0, default="inlining_default"), {})
    unseen = make_corpus(clang22, tmp_path, projects=2, modules=2, seed=5)
    found = evaluate(policy, unseen, name="learned", llvm=llvm, backend=PipesBackend(llvm=llvm), executor=pool)
    assert found.failed == 0
    assert 0 < found.changed_decisions < found.decisions
    assert found.policy_text_bytes != found.default_text_bytes


def test_features_can_be_left_out(corpus: Corpus, llvm: LLVM, pool: LocalExecutor, tmp_path: Path) -> None:
    options = Options(rounds=1, sweeps=2, without_features=("cost_estimate", "callee_users"))
    result = trained(corpus, tmp_path, llvm, pool, options=options, max_compiles=50)
    inputs = {spec.name for spec in load_policy(result.policy).graph.inputs}
    assert inputs.isdisjoint(options.without_features)
    assert "cost_estimate" not in load_state(RunDirectory(result.run).checkpoint).facts["algorithm"]["features"]


def test_a_time_budget_only_stops_it(corpus: Corpus, llvm: LLVM, pool: LocalExecutor, tmp_path: Path) -> None:
    result = trained(corpus, tmp_path, llvm, pool, budget_s=0.001)
    assert result.stopped_by == "time"
    assert result.fell_back
    assert load_policy(result.policy).problem == "inlining"


def test_the_command_line_trains(corpus: Corpus, tmp_path: Path, run_mlgo) -> None:
    arguments = ["train", "--corpus", corpus.root, "--budget", "20m", "--max-compiles", "40", "--seed", "1"]
    code, out, err = run_mlgo(
        *arguments,
        "-o",
        tmp_path / "policy",
        "--runs",
        tmp_path / "runs",
        "--backend",
        "pipes",
        "--jobs",
        "2",
        "--json",
    )
    assert code == 0, err
    found = json.loads(out)
    assert found["schema"] == "pymlgo/train-1"
    assert found["policy"] == str(tmp_path / "policy")
    assert found["compiles"] <= 40
    code, out, _ = run_mlgo("runs", "list", "--runs", tmp_path / "runs", "--json")
    assert code == 0
    assert [each["seed"] for each in json.loads(out)["runs"]] == [1]


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--max-compiles", "3"), 2, "too few"),
        (("--rounds", "0"), 2, "must be at least 1"),
        (("--strategy", "cma"), 2, "--strategy is not for flip-regression, but for es"),
        (("--algorithm", "es", "--population", "3"), 2, "even number"),
        (("--from", "no-such-policy"), 1, "no-such-policy"),
        (("--validation-share", "1"), 2, "--validation-share"),
        (("--budget", "soon"), 2, "expected a time"),
        (("--clang", "no-such-clang"), 3, "no program"),
        (("--algorithm", "alchemy"), 2, "alchemy"),
    ],
)
def test_bad_arguments_are_named(
    flags: tuple[str, ...], code: int, message: str, corpus: Corpus, tmp_path: Path, run_mlgo
) -> None:
    found = run_mlgo("train", "--corpus", corpus.root, "-o", tmp_path / "p", "--runs", tmp_path / "r", *flags)
    assert found[0] == code
    assert message in found[2]
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    "options",
    [
        evolution.Options(strategy="openai", shape="mlp", population=4, batch=2),
        imitation.Options(rounds=1, sweeps=2),
        ppo.Options(batch=4),
    ],
    ids=algorithm_name,
)
def test_every_algorithm_works_with_a_real_clang(
    options: AlgorithmOptions, corpus: Corpus, llvm: LLVM, pool: LocalExecutor, tmp_path: Path
) -> None:
    if isinstance(options, ppo.Options):
        pytest.importorskip("torch")
    never = constant_policy("inlining", INLINING_ADVICE, 0)
    result = trained(corpus, tmp_path, llvm, pool, options=options, max_compiles=40, start=never)
    assert result.algorithm == algorithm_name(options)
    assert result.failures == {}
    assert result.compiles <= 40 + result.validation_modules
    assert result.candidates[0].details == {"start": True}
    assert len(result.candidates) > 1
    assert result.text_change_percent == min(each.text_change_percent for each in result.candidates)
    assert summarize(RunDirectory(result.run)).best_text_change_percent == result.text_change_percent
    with pytest.raises(ConfigError, match="algorithm"):
        trained(corpus, tmp_path, llvm, pool, resume=result.run)


def test_a_corpus_without_decisions_is_an_error(
    clang22: Path, corpus: Corpus, llvm: LLVM, pool: LocalExecutor, tmp_path: Path
) -> None:
    import subprocess

    root = tmp_path / "empty"
    for name in ("a/1", "b/1"):
        bitcode = root / f"{name}.bc"
        bitcode.parent.mkdir(parents=True)
        command = [clang22, "-Oz", "-emit-llvm", "-c", "-x", "c", "-", "-o", bitcode]
        subprocess.run(command, input=b"int f(int x) { return x; }", check=True)
    write_description(root, Description(modules=("a/1", "b/1"), command_override=corpus.command_override))
    with pytest.raises(CorpusError, match="with a decision to make"):
        trained(dataclasses.replace(corpus, root=root), tmp_path, llvm, pool)


def test_plans_stay_within_their_compiles(corpus: Corpus) -> None:
    split = hold_out(corpus.modules, 0.25, 1)
    for max_compiles, rounds, sweeps in itertools.product((20, 70, 200, 5000), (1, 2, 3), (1, 6)):
        options = Options(rounds=rounds, sweeps=sweeps)
        plan = make_plan(split.train, split.validation, max_compiles, options, 1)
        assert plan.compiles <= max(max_compiles, 3 * rounds + 2)
        assert plan == make_plan(split.train, split.validation, max_compiles, options, 1)
        crossed = make_plan(corpus.modules, (), max_compiles, options, 1)
        assert crossed.cross
        assert crossed.validation == crossed.train
        assert crossed.compiles <= max(max_compiles, 3 * rounds + 2)
