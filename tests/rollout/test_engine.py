"""The compile server is clang itself, and the plugin in it decides as the pipes do."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pymlgo.corpus.description import Module
from pymlgo.corpus.replay import replay_command
from pymlgo.errors import ToolchainError
from pymlgo.policy.directory import load_policy, save_policy
from pymlgo.policy.shapes import threshold_policy
from pymlgo.rollout import (
    Job,
    Overrides,
    PipesBackend,
    PlainBackend,
    PluginBackend,
    RolloutFailure,
    RolloutResult,
    fastest_backend,
    open_engine,
)
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.advisor import advisor_plugin
from pymlgo.toolchain.engine_program import engine_program
from pymlgo.toolchain.llvm import LLVM, find_llvm

pytestmark = pytest.mark.llvm

SOURCE = """
static int twice(int x) { return x + x; }
static int clamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }
static long sum(const int *values, int count) {
  long total = 0;
  for (int i = 0; i < count; ++i) total += clamp(twice(values[i]), -100, 100);
  return total;
}
long first(const int *values, int count) { return sum(values, count) + twice(count); }
long second(const int *values, int count) { return sum(values, count) - clamp(count, 0, 9); }
int third(int x) { return twice(twice(clamp(x, 1, 5))); }
"""
FLAGS = "-cc1 -triple x86_64-pc-linux-gnu -Oz -emit-obj -mrelocation-model pic -pic-level 2 -vectorize-slp"


@pytest.fixture(scope="module")
def llvm(clang22: Path) -> LLVM:
    return find_llvm(clang=clang22)


@pytest.fixture(scope="module")
def module(clang22: Path, tmp_path_factory: pytest.TempPathFactory) -> Module:
    folder = tmp_path_factory.mktemp("module")
    source, bitcode = folder / "m.c", folder / "m.bc"
    source.write_text(SOURCE)
    flags = ["-Oz", "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
    subprocess.run([clang22, *flags, source, "-o", bitcode], check=True)
    command = tuple(word.encode() for word in FLAGS.split())
    return Module(name="p/m", bitcode=bitcode, command=command, thinlto_index=None, size_bytes=bitcode.stat().st_size)


@pytest.fixture(scope="module")
def program(llvm: LLVM) -> Path:
    found = engine_program(llvm)
    assert found is not None, "the compile server was not built; `make set-up-tests` installs clang's headers"
    return found


@pytest.fixture(scope="module", params=["plugin", "forking engine", "engine"])
def backend(request: pytest.FixtureRequest, llvm: LLVM, program: Path) -> Iterator[PluginBackend]:
    engine, fork = (None if request.param == "plugin" else program), request.param != "engine"
    with contextlib.closing(PluginBackend(llvm=llvm, plugin=advisor_plugin(llvm), engine=engine, fork=fork)) as found:
        yield found


@pytest.mark.parametrize("fork", [True, False])
def test_the_server_writes_the_object_that_clang_writes(
    llvm: LLVM, program: Path, module: Module, tmp_path: Path, fork: bool
) -> None:
    expected, found = tmp_path / "clang.o", tmp_path / "engine.o"
    subprocess.run(replay_command(module, llvm.clang, expected, embed=False), check=True)
    with open_engine(program, None) as engine:
        for _ in range(2):  # a server's second compile is no different from its first
            done = engine.compile(replay_command(module, llvm.clang, found, embed=False)[2:], limit_s=60, fork=fork)
            assert (done.returncode, done.timed_out, done.stderr) == (0, False, b"")
            assert done.cpu_s > 0
            assert found.read_bytes() == expected.read_bytes()


def test_the_server_says_what_clang_says_of_a_bad_module(program: Path, module: Module, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.bc"
    damaged.write_bytes(module.bitcode.read_bytes()[:200])
    with open_engine(program, None) as engine:
        done = engine.compile(["-emit-obj", "-x", "ir", str(damaged), "-o", str(tmp_path / "x.o")], limit_s=60)
        assert done.returncode == 1
        assert b"error:" in done.stderr


def test_a_compile_that_takes_too_long_costs_one_reply(program: Path, module: Module, tmp_path: Path) -> None:
    with open_engine(program, None) as engine:
        arguments = ["-emit-obj", "-x", "ir", "/dev/stdin", "-o", str(tmp_path / "x.o")]
        assert engine.compile(arguments, limit_s=0.3).timed_out
        good = ["-emit-obj", "-x", "ir", str(module.bitcode), "-o", str(tmp_path / "y.o")]
        assert engine.compile(good, limit_s=60).returncode == 0


def test_llvm_options_of_a_compile_end_with_it(llvm: LLVM, program: Path, module: Module, tmp_path: Path) -> None:
    def arguments(output: Path, *options: str) -> list[bytes | str]:
        return [*replay_command(module, llvm.clang, output, embed=False), *options]

    never = ("-mllvm", "-inline-threshold=-1000", "-mllvm", "-inline-cold-callsite-threshold=7")
    expected, expected_never, found = tmp_path / "default.o", tmp_path / "never.o", tmp_path / "x.o"
    subprocess.run(arguments(expected), check=True)
    subprocess.run(arguments(expected_never, *never), check=True)
    assert expected.read_bytes() != expected_never.read_bytes()
    with open_engine(program, None) as engine:
        for options, output in [(never, expected_never), ((), expected)] * 2:
            for fork in (False, True):
                done = engine.compile(arguments(found, *options)[2:], limit_s=60, fork=fork)
                assert (done.returncode, done.stderr) == (0, b"")
                assert found.read_bytes() == output.read_bytes()


def test_a_killed_server_is_an_error(program: Path) -> None:
    with open_engine(program, None) as engine:
        engine._process.kill()
        with pytest.raises(ToolchainError, match="the compile server died"):
            engine.compile(["-emit-obj"], limit_s=60)


def test_a_crash_without_fork_costs_one_job(llvm: LLVM, program: Path, module: Module) -> None:
    # To stop after a pass that there is not is an error that LLVM knows no way out of.
    crashing = dataclasses.replace(module, command=(*module.command, b"-mllvm", b"-stop-after=nonsense"))
    backend = PluginBackend(llvm=llvm, plugin=advisor_plugin(llvm), engine=program, fork=False)
    with contextlib.closing(backend):
        good = backend.run(Job(module=module))
        lost = backend.run(Job(module=crashing))
        again = backend.run(Job(module=module))
        assert backend._running is not None
        backend._running._process.kill()
        killed = backend.run(Job(module=module))
        last = backend.run(Job(module=module))
    assert isinstance(good, RolloutResult)
    for failed in (lost, killed):
        assert isinstance(failed, RolloutFailure)
        assert failed.reason == "crash"
    for each in (again, last):
        assert isinstance(each, RolloutResult)
        assert each.sizes == good.sizes


def test_a_compile_without_fork_that_takes_too_long_costs_one_job(
    llvm: LLVM, program: Path, module: Module, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "silent.bc")
    waiting = dataclasses.replace(module, bitcode=tmp_path / "silent.bc")
    backend = PluginBackend(llvm=llvm, plugin=advisor_plugin(llvm), engine=program, fork=False, limit_s=3)
    with contextlib.closing(backend):
        lost = backend.run(Job(module=waiting))
        backend.limit_s = 60
        again = backend.run(Job(module=module))
    assert isinstance(lost, RolloutFailure)
    assert lost.reason == "time limit"
    assert isinstance(again, RolloutResult)


def test_the_default_is_the_object_of_plain_clang(llvm: LLVM, backend: PluginBackend, module: Module) -> None:
    plain = PlainBackend(llvm=llvm).run(Job(module=module))
    advised = backend.run(Job(module=module, record=True))
    assert isinstance(plain, RolloutResult)
    assert isinstance(advised, RolloutResult)
    assert advised.backend == backend.name
    assert advised.sizes == plain.sizes
    assert advised.decisions > 0
    assert advised.changed == 0


def test_changed_decisions_are_counted_without_recording(backend: PluginBackend, module: Module) -> None:
    policy = threshold_policy(threshold=-100_000)
    recorded = backend.run(Job(module=module, policy=policy, record=True))
    counted = backend.run(Job(module=module, policy=policy))
    assert isinstance(recorded, RolloutResult)
    assert isinstance(counted, RolloutResult)
    assert (counted.decisions, counted.changed) == (recorded.decisions, recorded.changed)
    assert counted.changed


def test_jobs_in_a_row_do_not_know_of_each_other(backend: PluginBackend, llvm: LLVM, module: Module) -> None:
    policies = [None, threshold_policy(threshold=-100_000), threshold_policy(threshold=40)]
    alone = PluginBackend(llvm=llvm, plugin=backend.plugin)
    jobs = [Job(module=module, policy=policy, record=record) for policy in policies for record in (False, True)]
    for job in (*jobs, *reversed(jobs)):
        found, expected = backend.run(job), alone.run(job)
        assert isinstance(found, RolloutResult)
        assert isinstance(expected, RolloutResult)
        assert (found.sizes, found.decisions, found.changed) == (expected.sizes, expected.decisions, expected.changed)
        assert (found.trajectory is None) == (not job.record)


def test_features_keys_and_names_are_those_of_the_pipes(llvm: LLVM, backend: PluginBackend, module: Module) -> None:
    piped = PipesBackend(llvm=llvm).run(Job(module=module, record=True, names=True))
    advised = backend.run(Job(module=module, record=True))
    assert isinstance(piped, RolloutResult)
    assert isinstance(advised, RolloutResult)
    assert piped.trajectory is not None
    assert advised.trajectory is not None
    assert advised.trajectory.keys.tolist() == piped.trajectory.keys.tolist()
    assert advised.trajectory.callees == piped.trajectory.callees
    for name, values in piped.trajectory.features.items():
        np.testing.assert_array_equal(advised.trajectory.features[name], values)
    assert "callee_is_local" in advised.trajectory.features


def test_a_policy_decides_alike_in_plugin_and_pipes(llvm: LLVM, backend: PluginBackend, module: Module) -> None:
    policy = threshold_policy(threshold=40)
    piped = PipesBackend(llvm=llvm).run(Job(module=module, policy=policy, record=True))
    advised = backend.run(Job(module=module, policy=policy, record=True))
    assert isinstance(piped, RolloutResult)
    assert isinstance(advised, RolloutResult)
    assert advised.sizes == piped.sizes
    assert piped.trajectory is not None
    assert advised.trajectory is not None
    assert advised.trajectory.advice.tolist() == piped.trajectory.advice.tolist()


def test_an_overridden_decision_goes_the_other_way(backend: PluginBackend, module: Module) -> None:
    before = backend.run(Job(module=module, record=True))
    assert isinstance(before, RolloutResult)
    assert before.trajectory is not None
    key, advice = int(before.trajectory.keys[0]), int(before.trajectory.advice[0])
    overrides = Overrides(advice={key: 1 - advice}, recorded=before.trajectory)
    after = backend.run(Job(module=module, overrides=overrides, record=True))
    assert isinstance(after, RolloutResult)
    assert after.trajectory is not None
    assert int(after.trajectory.advice[0]) == 1 - advice
    assert after.trajectory.overridden.tolist()[0]
    assert after.changed == 1


def test_a_policy_that_the_compiler_cannot_feed_is_a_failure(backend: PluginBackend, module: Module) -> None:
    outcome = backend.run(Job(module=module, policy=threshold_policy(TensorSpec("no_such_feature", "int64_t", (1,)))))
    assert isinstance(outcome, RolloutFailure)
    assert outcome.reason == "LLVM's default stepped in"
    assert "no_such_feature" in outcome.detail


def test_backends_travel_to_workers(backend: PluginBackend, module: Module) -> None:
    backend.run(Job(module=module))
    copy = pickle.loads(pickle.dumps(backend))
    outcome = copy.run(Job(module=module))
    copy.close()
    assert isinstance(outcome, RolloutResult)


def test_the_fastest_backend_is_the_server(llvm: LLVM) -> None:
    assert fastest_backend(llvm).name == "engine"


def test_a_saved_policy_is_the_same_policy(tmp_path: Path, backend: PluginBackend, module: Module) -> None:
    policy = threshold_policy(threshold=40)
    save_policy(policy, tmp_path / "p")
    loaded = load_policy(tmp_path / "p")
    results = [backend.run(Job(module=module, policy=each)) for each in (policy, loaded)]
    assert all(isinstance(each, RolloutResult) for each in results)
    assert len({each.sizes for each in results if isinstance(each, RolloutResult)}) == 1
