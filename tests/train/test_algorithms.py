"""Every algorithm learns, from LLVM's default and from a bad start; all of them share one session."""

from __future__ import annotations

import importlib.util
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from imagined_compiler import (
    LLVM_OF_NOTHING,
    ImaginedExecutor,
    bytes_saved,
    compiled,
    features_of,
    imagined_split,
    module,
)

from pymlgo.errors import ConfigError, MissingDependency
from pymlgo.policy.directory import load_policy
from pymlgo.policy.interpreter import evaluate_batch
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import INLINING_ADVICE, constant_policy, threshold_policy
from pymlgo.rollout import Job, PlainBackend
from pymlgo.train import evolution, flip_regression, imitation, ppo
from pymlgo.train.algorithms import OPTIONS, AlgorithmOptions, algorithm_name, make_algorithm, plan_for
from pymlgo.train.budget import Budget
from pymlgo.train.evolution import CMA, OpenAI, Strategy, centred_ranks
from pymlgo.train.hold_out import HoldOut
from pymlgo.train.network import start_network
from pymlgo.train.run_directory import RunDirectory
from pymlgo.train.session import Session
from pymlgo.train.tensorboard import tensorboard_log
from pymlgo.train.validation import Validation
from pymlgo.train.workshop import Workshop

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the extra 'torch'")
needs_cma = pytest.mark.skipif(importlib.util.find_spec("cma") is None, reason="the extra 'cma'")

ALGORITHMS: list[AlgorithmOptions] = [
    flip_regression.Options(rounds=1),
    imitation.Options(rounds=1),
    evolution.Options(strategy="openai"),
    evolution.Options(strategy="openai", shape="mlp"),
    pytest.param(evolution.Options(strategy="cma"), marks=needs_cma),
    pytest.param(ppo.Options(), marks=needs_torch),
]
CHEAP: list[AlgorithmOptions] = [
    imitation.Options(rounds=3, sweeps=2),
    evolution.Options(strategy="openai", population=4, batch=6),
    pytest.param(evolution.Options(strategy="cma", shape="mlp", population=4, batch=6), marks=needs_cma),
    pytest.param(ppo.Options(epochs=1), marks=needs_torch),
]
COMPILES = 600
NEVER = constant_policy("inlining", INLINING_ADVICE, 0)


def shown(value: object) -> str:
    if isinstance(value, evolution.Options):
        return f"es-{value.strategy}-{value.shape}"
    return algorithm_name(value) if isinstance(value, tuple(OPTIONS.values())) else ""


def session(
    options: AlgorithmOptions,
    run: RunDirectory,
    *,
    seed: int = 1,
    start: Policy | None = None,
    executor: ImaginedExecutor | None = None,
    compiles: int = COMPILES,
    split: HoldOut | None = None,
) -> Session:
    plan = plan_for(options, split or imagined_split(), compiles, seed)
    executor = executor or ImaginedExecutor()
    backend = PlainBackend(llvm=LLVM_OF_NOTHING)
    workshop = Workshop(
        executor=executor,
        backend=backend,
        validation=Validation(plan.validation, LLVM_OF_NOTHING, executor, backend),
        budget=Budget(max_compiles=compiles, limit_s=None),
        start=start,
    )
    algorithm = make_algorithm(options, plan, seed, workshop)
    return Session(run=run, output=run.path / "out", algorithm=algorithm, workshop=workshop, provenance={"seed": seed})


def new_run(folder: Path) -> RunDirectory:
    return RunDirectory.create(folder, "test", {"seed": 1})


@pytest.mark.parametrize("options", ALGORITHMS, ids=shown)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in (2, 3))])
def test_every_algorithm_recovers_from_a_bad_start(options: AlgorithmOptions, seed: int, tmp_path: Path) -> None:
    done = session(options, new_run(tmp_path), seed=seed, start=NEVER)
    done.go()
    start, best = done.workshop.judged[0], done.workshop.best_judged
    assert start.details == {"start": True}
    assert start.text_change_percent > 4  # never inlining is that much worse than LLVM's default
    assert best is not None
    assert best.text_change_percent < 0.6 * start.text_change_percent
    assert not done.workshop.fell_back
    assert done.workshop.budget.compiles <= COMPILES + len(imagined_split().validation)


@pytest.mark.parametrize("options", ALGORITHMS, ids=shown)
def test_every_algorithm_beats_the_default_where_it_can_be_beaten(options: AlgorithmOptions, tmp_path: Path) -> None:
    done = session(options, new_run(tmp_path))
    done.go()
    assert done.workshop.budget.compiles <= COMPILES
    assert done.workshop.best_change_percent < -1
    kinds = [each["event"] for each in done.run.events()]
    assert kinds[0] == "defaults"
    assert kinds[-1] == "end"
    policy = load_policy(done.output)
    assert policy.provenance["validation_text_change_percent"] == done.workshop.best_change_percent


@pytest.mark.parametrize("options", CHEAP, ids=shown)
@pytest.mark.parametrize("after", [110, 150])
def test_an_interrupted_run_goes_on_to_the_same(options: AlgorithmOptions, after: int, tmp_path: Path) -> None:
    whole = session(options, new_run(tmp_path / "whole"), compiles=200)
    whole.go()
    run = new_run(tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        session(
            options, run, compiles=200, executor=ImaginedExecutor(min(after, whole.workshop.budget.compiles - 1))
        ).go()
    assert load_policy(tmp_path / "cut" / run.path.name / "out").problem == "inlining"
    resumed = session(options, run, compiles=200)
    resumed.restore()
    resumed.go()
    strip = [[(each.round, each.text_change_percent) for each in done.workshop.judged] for done in (whole, resumed)]
    assert strip[0] == strip[1]
    assert load_policy(resumed.output).graph.fingerprint() == load_policy(whole.output).graph.fingerprint()


@pytest.mark.parametrize("options", CHEAP, ids=shown)
def test_only_flip_regression_can_do_without_held_out_projects(options: AlgorithmOptions) -> None:
    with pytest.raises(ConfigError, match="cross-validation is for flip regression only"):
        plan_for(options, HoldOut(train=imagined_split().train, validation=(), by_project=True), 400, 1)


@pytest.mark.parametrize("hidden", [0, 8])
def test_a_network_starts_as_llvms_default_exactly(hidden: int) -> None:
    recorded = [compiled(Job(module=module(f"a/{number}"), record=True)) for number in range(5)]
    network, agreement = start_network(
        recorded, hidden=hidden, without=(), of_default=True, generator=np.random.default_rng(1)
    )
    assert agreement == 1.0
    assert [spec.name for spec in network.features] == ["cost_estimate", "callee_users", "noise"]
    unseen = features_of(module("z/1"))
    given = {spec.name: unseen[spec.name] for spec in network.features}
    assert np.array_equal(
        evaluate_batch(network.policy().graph, given)["inlining_decision"], unseen["inlining_default"]
    )


@pytest.mark.parametrize("hidden", [0, 8])
def test_where_the_cost_does_not_decide_llvms_answer_does(hidden: int) -> None:
    recorded = [compiled(Job(module=module(f"a/{number}"), record=True)) for number in range(5)]
    network, agreement = start_network(
        recorded, hidden=hidden, without=("cost_estimate",), of_default=True, generator=np.random.default_rng(1)
    )
    assert agreement == 1.0
    assert network.features[-1].name == "inlining_default"


def test_a_network_imitates_a_start_that_is_named() -> None:
    bolder = threshold_policy(threshold=50)
    recorded = [compiled(Job(module=module(f"a/{number}"), policy=bolder, record=True)) for number in range(20)]
    _, agreement = start_network(recorded, hidden=0, without=(), of_default=False, generator=np.random.default_rng(1))
    assert agreement > 0.75  # what a linear score of logarithms can do


@pytest.mark.parametrize("hidden", [0, 8])
def test_a_networks_graph_scores_as_the_network(hidden: int) -> None:
    recorded = [compiled(Job(module=module("a/1"), record=True))]
    generator = np.random.default_rng(1)
    network, _ = start_network(recorded, hidden=hidden, without=(), of_default=True, generator=generator)
    moved = network.with_parameters(network.parameters + generator.normal(0, 0.3, len(network.parameters)))
    given = {spec.name: features_of(module("z/1"))[spec.name] for spec in moved.features}
    trajectory = compiled(Job(module=module("z/1"), record=True)).trajectory
    assert trajectory is not None
    found = evaluate_batch(moved.policy().graph, given)["score"][:, 0]
    assert np.allclose(found, moved.scores(moved.columns(trajectory)), atol=1e-4)


@pytest.mark.parametrize("kind", [OpenAI, pytest.param(CMA, marks=needs_cma)])
def test_a_strategy_descends_and_repeats_itself(kind: type[CMA | OpenAI]) -> None:
    goal = np.linspace(-1, 1, 10)

    def descended(strategy: Strategy) -> np.ndarray:
        for _ in range(100):
            strategy.tell(((strategy.ask() - goal) ** 2).sum(axis=1))
        return strategy.centre

    first, again = (descended(kind(np.zeros(10), 0.1, 10, np.random.default_rng(3))) for _ in range(2))
    assert np.array_equal(first, again)
    assert ((first - goal) ** 2).sum() < 0.2 * (goal**2).sum()


def test_equal_losses_give_no_direction() -> None:
    assert centred_ranks(np.array([2.0, 2.0, 2.0, 2.0])).tolist() == [0, 0, 0, 0]
    assert centred_ranks(np.array([3.0, 1.0, 2.0])).tolist() == [0.5, -0.5, 0.0]


def test_a_sampling_policy_inlines_as_often_as_it_says() -> None:
    recorded = [compiled(Job(module=module(f"a/{number}"), record=True)) for number in range(10)]
    network, _ = start_network(recorded, hidden=0, without=(), of_default=True, generator=np.random.default_rng(1))
    columns = np.concatenate([network.columns(each.trajectory) for each in recorded if each.trajectory])
    probability = 1 / (1 + np.exp(-network.scores(columns)))
    features = [features_of(module(f"a/{number}")) for number in range(10)]
    given = {spec.name: np.concatenate([each[spec.name] for each in features]) for spec in network.features}
    draws = [
        evaluate_batch(ppo.sampling_policy(network, np.random.default_rng(seed)).graph, given)["inlining_decision"][
            :, 0
        ]
        for seed in range(200)
    ]
    often = np.mean(draws, axis=0)
    assert np.abs(often - probability).max() < 0.2
    assert abs((often - probability).mean()) < 0.02
    assert 0 < np.mean(draws[0]) < 1
    assert any(not np.array_equal(draws[0], each) for each in draws[1:])


def test_a_return_is_what_the_decisions_functions_saved() -> None:
    base = compiled(Job(module=module("a/1"), record=True))
    everywhere = compiled(
        Job(module=module("a/1"), policy=constant_policy("inlining", INLINING_ADVICE, 1), record=True)
    )
    default = features_of(module("a/1"))["inlining_default"][:, 0]
    wanted = np.where(default == 1, 0, bytes_saved(features_of(module("a/1"))))
    assert np.allclose(ppo.returns_of(everywhere, base) * ppo.RETURN_BYTES, np.clip(wanted, -60, 60))


@pytest.mark.parametrize(("population", "sigma"), [(3, 0.1), (2, 0.1), (10, 0.0)])
def test_evolution_refuses_what_cannot_work(population: int, sigma: float) -> None:
    with pytest.raises(ConfigError):
        evolution.Options(population=population, sigma=sigma)


@pytest.mark.parametrize(
    ("library", "options"), [("torch", ppo.Options()), ("cma", evolution.Options())], ids=["torch", "cma"]
)
def test_a_missing_extra_is_named(
    library: str, options: AlgorithmOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(MissingDependency) as raised:
        session(options, new_run(tmp_path)).go()
    assert f"pymlgo[{library}]" in str(raised.value.hint)


def test_events_say_how_the_work_goes(tmp_path: Path) -> None:
    done = session(evolution.Options(strategy="openai"), new_run(tmp_path), compiles=200)
    events = list(chain(done.workshop.begin(), done.algorithm.run()))
    (start,) = [each for each in events if each["event"] == "start"]
    assert start["agreement"] == 1.0
    rounds = [each for each in events if each["event"] == "round"]
    assert all(each["best_loss"] <= each["mean_loss"] for each in rounds)


def test_a_run_can_be_watched_in_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    folder = tmp_path / "tensorboard"
    done = session(evolution.Options(strategy="openai"), new_run(tmp_path), compiles=200)
    with tensorboard_log(folder) as log:
        done.also_told = log
        done.go()
    found = scalars(folder)
    judged = done.workshop.judged
    curve = [
        value for tag, step, value in found if tag in ("best/text_change_percent", "candidate/text_change_percent")
    ]
    assert np.allclose(sorted(curve), sorted(each.text_change_percent for each in judged), atol=1e-5)
    assert {step for tag, step, _ in found if tag == "end/cpu_s"} == {done.workshop.budget.compiles}


def scalars(folder: Path) -> list[tuple[str, int, float]]:
    """Tag, step and value of all scalars, read from the records: length u64, its checksum, an event, its checksum."""
    from tensorboardX.proto.event_pb2 import Event

    (file,) = folder.iterdir()
    data, place, found = file.read_bytes(), 0, []
    while place < len(data):
        size = int.from_bytes(data[place : place + 8], "little")
        event = Event.FromString(data[place + 12 : place + 12 + size])
        found += [(each.tag, event.step, each.simple_value) for each in event.summary.value]
        place += 12 + size + 4
    return found
