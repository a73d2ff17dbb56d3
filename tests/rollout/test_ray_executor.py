"""Ray on a real cluster of several nodes: equal results, lost workers and nodes, back-pressure."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import ray_backends
from ray_backends import Scripted

from pymlgo.corpus.description import Corpus, Module
from pymlgo.errors import PolicyError
from pymlgo.policy.directory import load_policy, save_policy
from pymlgo.policy.shapes import threshold_policy
from pymlgo.rollout import (
    Backend,
    Job,
    LocalExecutor,
    Overrides,
    PipesBackend,
    PlainBackend,
    RayExecutor,
    RolloutFailure,
    RolloutResult,
    fastest_backend,
    in_order,
)
from pymlgo.rollout.ray_cluster import connected
from pymlgo.toolchain.llvm import LLVM, find_llvm
from pymlgo.train import Options, TrainRequest, train
from tiny_corpus import make_corpus

pytest.importorskip("ray", reason="the extra 'ray' is not installed")

pytestmark = [
    pytest.mark.xdist_group("ray"),  # two clusters at a time would be too much for a small machine
    # Ray leaves sockets and processes to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

STORE = {"object_store_memory": 100 << 20}


class Cluster:
    """Ray's test cluster: machines that are really groups of processes."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        self._cluster = RayCluster()
        self.add_node(2, include_dashboard=False)
        self.address: str = self._cluster.address

    def add_node(self, cores: int, **arguments: object) -> Callable[[], None]:
        """A machine more; the result takes it away without warning."""
        node = self._cluster.add_node(num_cpus=cores, **STORE, **arguments)
        return lambda: self._cluster.remove_node(node, allow_graceful=False)

    def shutdown(self) -> None:
        self._cluster.shutdown()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    folder = str(Path(ray_backends.__file__).parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH")))))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = started_cluster()
        try:
            with connected(made.address, None):
                yield made
        finally:
            made.shutdown()


def started_cluster() -> Cluster:
    """A cluster of two machines; Ray gives its daemons 30 s, which on a machine with much else to do is too little."""
    try:
        made = Cluster()
        made.add_node(2)
    except Exception as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"Ray does not start: {error}")
    return made


@pytest.fixture(scope="module")
def pool(cluster: Cluster) -> Iterator[RayExecutor]:
    """Two workers on the cluster's four cores."""
    with RayExecutor(cluster.address, 2) as executor:
        yield executor


def jobs(*names: str) -> list[Job]:
    return [Job(module=Module(name=name, bitcode=Path(name), command=(b"-cc1",), size_bytes=1)) for name in names]


def canonical(value: object) -> object:
    """A value without CPU times, in a form that is equal only for equal bytes."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in dataclasses.fields(value) if each.name != "cpu_s"]
        return type(value).__name__, *(canonical(getattr(value, name)) for name in names)
    if isinstance(value, dict):
        return tuple((name, canonical(each)) for name, each in value.items())
    return tuple(map(canonical, value)) if isinstance(value, tuple | list) else value


@pytest.fixture(scope="module")
def llvm(clang22: Path) -> LLVM:
    return find_llvm(clang=clang22)


@pytest.fixture(scope="module")
def corpus(clang22: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(clang22, tmp_path_factory.mktemp("corpus"), projects=4, modules=2)


@pytest.mark.llvm
def test_results_are_the_local_ones_byte_for_byte(corpus: Corpus, llvm: LLVM, pool: RayExecutor) -> None:
    backend = PipesBackend(llvm=llvm)
    broken = dataclasses.replace(corpus.modules[0], name="gone", bitcode=corpus.root / "gone.bc")
    policy = threshold_policy()
    first = [Job(module=module, policy=policy, record=True, names=True) for module in (*corpus.modules, broken)]
    with LocalExecutor(1) as executor:
        local = in_order(executor, backend, first)
        flips = [flipped(job, outcome) for job, outcome in zip(first, local, strict=True)]
        second = [job for job in flips if job is not None]
        local += in_order(executor, backend, second)
        defaults = in_order(executor, PlainBackend(llvm=llvm), [Job(module=each) for each in corpus.modules])
    there = in_order(pool, backend, first) + in_order(pool, backend, second)
    assert isinstance(local[len(corpus.modules)], RolloutFailure)
    assert any(each.trajectory.overridden.any() for each in there if isinstance(each, RolloutResult))
    assert canonical(there) == canonical(local)
    plain = in_order(pool, PlainBackend(llvm=llvm), [Job(module=each) for each in corpus.modules])
    assert canonical(plain) == canonical(defaults)


def flipped(job: Job, outcome: object) -> Job | None:
    """The job again, with every third decision the other way."""
    if not isinstance(outcome, RolloutResult) or outcome.trajectory is None:
        return None
    trajectory = outcome.trajectory
    advice = {
        int(key): 1 - int(advice) for key, advice in zip(trajectory.keys[::3], trajectory.advice[::3], strict=True)
    }
    return dataclasses.replace(job, overrides=Overrides(advice=advice, recorded=trajectory))


@pytest.mark.llvm
def test_the_fastest_backend_finds_its_parts_on_the_worker(corpus: Corpus, llvm: LLVM, pool: RayExecutor) -> None:
    backend = fastest_backend(llvm)
    first = [Job(module=module, policy=threshold_policy(), record=True) for module in corpus.modules[:2]]
    with LocalExecutor(1) as executor:
        local = in_order(executor, backend, first)
    assert canonical(in_order(pool, backend, first)) == canonical(local)


@pytest.mark.llvm
def test_a_run_that_began_here_goes_on_there(corpus: Corpus, llvm: LLVM, pool: RayExecutor, tmp_path: Path) -> None:
    request = TrainRequest(corpora=(corpus.root,), max_compiles=40, options=Options(rounds=1, sweeps=2))

    def trained(name: str, executor: object, resume: Path | None = None) -> object:
        folder = tmp_path / name
        backend = PipesBackend(llvm=llvm)
        options = {"llvm": llvm, "workers": 2, "runs": folder / "runs", "backend": backend, "resume": resume}
        return train(request, folder / "policy", executor=executor, **options)

    with LocalExecutor(2) as local:
        whole = trained("whole", local)
        with pytest.raises(KeyboardInterrupt):
            trained("moved", StoppedAtTheFirstCheckpoint(local, tmp_path / "moved" / "runs"))
    elsewhere = tmp_path / "elsewhere"
    shutil.move(next((tmp_path / "moved" / "runs").iterdir()), elsewhere)
    moved = trained("moved", pool, resume=elsewhere)
    assert moved.candidates == whole.candidates
    assert load_policy(moved.policy).graph.fingerprint() == load_policy(whole.policy).graph.fingerprint()


class StoppedAtTheFirstCheckpoint:
    """An executor during whose work somebody presses Ctrl-C."""

    def __init__(self, inner: LocalExecutor, runs: Path) -> None:
        self.inner = inner
        self.runs = runs

    def run(self, backend: Backend, jobs: object) -> Iterator[object]:
        for each in self.inner.run(backend, jobs):
            if any(self.runs.glob("*/checkpoint*")):
                raise KeyboardInterrupt
            yield each


def test_content_travels_once_for_each_worker(pool: RayExecutor, tmp_path: Path) -> None:
    backend = Scripted(tmp_path)
    file = tmp_path / "a.bc"
    file.write_bytes(b"x" * 10_000)
    module = Module(name="a", bitcode=file, command=(b"-cc1",), size_bytes=10_000)
    many = [Job(module=module) for _ in range(40)]
    before = dataclasses.replace(pool.traffic)
    outcomes = in_order(pool, backend, many)
    assert {each.sizes.text_bytes for each in outcomes} == {10_000}
    assert all(path.startswith("/proc/") for each in outcomes for path in each.function_bytes)
    assert 10_000 < pool.traffic.stored_bytes - before.stored_bytes < 12_000
    assert pool.traffic.fetched_bytes - before.fetched_bytes < 24_000
    file.write_bytes(b"y" * 20_000)
    assert in_order(pool, backend, many[:1])[0].sizes.text_bytes == 20_000  # as a local worker would read it


def test_a_policy_is_one_object_on_each_worker(pool: RayExecutor, tmp_path: Path) -> None:
    policy = threshold_policy()
    outcomes = in_order(
        pool, Scripted(tmp_path), [dataclasses.replace(each, policy=policy) for each in jobs(*"abcdefgh")]
    )
    assert len({(each.decisions, each.changed) for each in outcomes}) == len({each.decisions for each in outcomes})


def test_a_worker_killed_in_the_middle_costs_no_result(cluster: Cluster, tmp_path: Path) -> None:
    backend = Scripted(tmp_path)
    names = [f"sleep {number}" for number in range(30)]
    found = []
    with RayExecutor(cluster.address, 2) as executor:
        for count, (number, outcome) in enumerate(executor.run(backend, jobs(*names))):
            assert isinstance(outcome, RolloutResult)
            found.append(number)
            if count == 8:
                os.kill(outcome.decisions, signal.SIGKILL)
        retries = executor.traffic.retries
    assert sorted(found) == list(range(30))
    assert retries >= 1
    assert len(backend.asked()) <= 30 + retries


def test_a_node_removed_in_the_middle_costs_no_result(cluster: Cluster, tmp_path: Path) -> None:
    remove = cluster.add_node(1)
    backend = Scripted(tmp_path)
    names = [f"sleep {number}" for number in range(60)]
    found = []
    with RayExecutor(cluster.address, 3) as executor:  # all cores that `pool` leaves, the new machine's among them
        in_order(executor, backend, jobs(*["sleep"] * 12))  # until all three have begun
        for count, (number, outcome) in enumerate(executor.run(backend, jobs(*names))):
            assert isinstance(outcome, RolloutResult)
            found.append(number)
            if count == 12:
                remove()
        retries = executor.traffic.retries
    assert sorted(found) == list(range(60))
    assert retries >= 1


def test_a_job_that_kills_its_workers_is_given_up_alone(pool: RayExecutor, tmp_path: Path) -> None:
    backend = Scripted(tmp_path)
    outcomes = in_order(pool, backend, jobs("a", "b", "die", "c", "die-once x", "d"))
    failures = [each for each in outcomes if isinstance(each, RolloutFailure)]
    assert [(each.module, each.reason) for each in failures] == [("die", "worker died")]
    assert backend.asked().count("die") == 3
    assert backend.asked().count("die-once x") == 2


def test_a_job_that_hangs_is_given_up(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymlgo.rollout.ray_pool.GRACE_S", 0.0)
    with RayExecutor(cluster.address, 1, job_limit_s=2.0) as executor:
        outcomes = in_order(executor, Scripted(tmp_path), jobs("compile", "a"))
    assert isinstance(outcomes[0], RolloutFailure)
    assert outcomes[0].reason == "worker died"
    assert isinstance(outcomes[1], RolloutResult)


def test_what_no_job_can_survive_stops_the_batch(llvm: LLVM, corpus: Corpus, pool: RayExecutor) -> None:
    eviction = PipesBackend(llvm=llvm, problem="eviction")
    unfit = [Job(module=module, policy=threshold_policy()) for module in corpus.modules]
    with pytest.raises(PolicyError, match="the policy is for inlining"):
        in_order(pool, eviction, unfit)
    assert len(in_order(pool, PipesBackend(llvm=llvm), unfit)) == len(unfit)


def test_jobs_are_taken_as_workers_get_free(pool: RayExecutor, tmp_path: Path) -> None:
    taken = []

    def endless() -> Iterator[Job]:
        for number in itertools.count():
            taken.append(number)
            yield jobs(f"sleep {number}")[0]

    outcomes = pool.run(Scripted(tmp_path), endless())
    for _ in range(6):
        next(outcomes)
    outcomes.close()
    assert len(taken) <= 6 + 2 * 4  # two calls of a quarter of a second


def test_leaving_early_ends_the_compilers(cluster: Cluster, tmp_path: Path) -> None:
    backend = Scripted(tmp_path)
    with RayExecutor(cluster.address, 2) as executor:
        outcomes = executor.run(backend, jobs("a", "compile", "compile"))
        next(outcomes)
        outcomes.close()
        ends_at = time.monotonic() + 10
        while (left := sleepers()) and time.monotonic() < ends_at:
            time.sleep(0.05)
        assert left == []
        assert len(in_order(executor, backend, jobs("a", "b"))) == 2


def sleepers() -> list[str]:
    """The processes that "compile"."""
    commands = [read(each / "cmdline") for each in Path("/proc").iterdir() if each.name.isdigit()]
    return [each for each in commands if each == "sleep\0001000\0"]


def read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # it is gone
        return ""


@pytest.mark.llvm
def test_the_command_line_evaluates_on_a_cluster(
    cluster: Cluster, pool: RayExecutor, corpus: Corpus, clang22: Path, tmp_path: Path, run_mlgo
) -> None:
    save_policy(threshold_policy(), tmp_path / "policy")
    arguments = ("eval", tmp_path / "policy", "--corpus", corpus.root, "--clang", clang22, "--no-linked", "--json")
    there = run_mlgo(*arguments, "--executor", "ray", "--address", cluster.address, "--jobs", "2")
    here = run_mlgo(*arguments, "--jobs", "1")
    assert there[0] == here[0] == 0, there[2]
    costs = ("cpu_s", "compile_time_ratio")
    assert without(json.loads(there[1]), *costs) == without(last_json(here[1]), *costs)


def last_json(out: str) -> dict[str, object]:
    """This process is the fixtures' driver, too, and Ray prints its cluster's events to stdout whenever it likes."""
    return json.loads(out[out.index("{\n") :])


def without(found: dict[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in found.items() if name not in names}
