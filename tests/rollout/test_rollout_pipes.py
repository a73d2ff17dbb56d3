"""The pipes backend on a real clang: sizes, names, overrides, and every way to fail as data."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pymlgo.channel import Limits
from pymlgo.corpus.description import Corpus, Module
from pymlgo.errors import PolicyError
from pymlgo.policy.shapes import INLINING_DEFAULT, Layer, Scaling, inlining_policy, random_layers, threshold_policy
from pymlgo.rollout import (
    Job,
    Overrides,
    PipesBackend,
    PlainBackend,
    RolloutFailure,
    RolloutResult,
    decision_key,
)
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.llvm import LLVM, find_llvm
from tiny_corpus import make_corpus

pytestmark = pytest.mark.llvm


@pytest.fixture(scope="module")
def corpus(clang22: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(clang22, tmp_path_factory.mktemp("corpus"), projects=2, modules=2)


@pytest.fixture(scope="module")
def llvm(clang22: Path) -> LLVM:
    return find_llvm(clang=clang22)


@pytest.fixture(scope="module")
def recorded(corpus: Corpus, llvm: LLVM) -> RolloutResult:
    return succeeded(PipesBackend(llvm=llvm).run(Job(module=corpus.modules[0], record=True, names=True)))


def succeeded(outcome: object) -> RolloutResult:
    assert isinstance(outcome, RolloutResult), outcome
    return outcome


def failed(outcome: object) -> RolloutFailure:
    assert isinstance(outcome, RolloutFailure), outcome
    return outcome


def test_echoing_the_default_changes_nothing(corpus: Corpus, llvm: LLVM) -> None:
    for module in corpus.modules:
        plain = succeeded(PlainBackend(llvm=llvm).run(Job(module=module)))
        echoed = succeeded(PipesBackend(llvm=llvm).run(Job(module=module)))
        assert echoed.sizes == plain.sizes
        assert echoed.function_bytes == plain.function_bytes
        assert echoed.decisions > 5
        assert echoed.changed == 0
        assert sum(plain.function_bytes.values()) <= plain.sizes.text_bytes


def test_a_trajectory_says_who_was_decided(recorded: RolloutResult) -> None:
    trajectory = recorded.trajectory
    assert trajectory is not None
    assert trajectory.has_names
    assert len(trajectory) == recorded.decisions
    assert trajectory.advice.tolist() == trajectory.default.tolist()
    assert set(trajectory.callees) <= {f"f{number}" for number in range(8)}
    assert "g0" in trajectory.callers
    counts: Counter[tuple[str, str]] = Counter()
    for pair, key in zip(zip(trajectory.callers, trajectory.callees, strict=True), trajectory.keys, strict=True):
        assert int(key) == decision_key(*pair, counts[pair])
        counts[pair] += 1
    assert [spec.name for spec in trajectory.specs][-1] == "inlining_default"
    assert trajectory.matrix(["cost_estimate", "threshold"]).shape == (len(trajectory), 2)


def test_names_come_from_remarks_that_leave_the_object_alone(corpus: Corpus, llvm: LLVM) -> None:
    backend = PipesBackend(llvm=llvm)
    without = succeeded(backend.run(Job(module=corpus.modules[1], record=True)))
    with_names = succeeded(backend.run(Job(module=corpus.modules[1], record=True, names=True)))
    assert without.sizes == with_names.sizes
    assert without.trajectory.callers == ()
    assert not without.trajectory.has_names
    assert np.array_equal(without.trajectory.advice, with_names.trajectory.advice)


@pytest.mark.parametrize("major", [19, 22])
def test_each_clang_with_the_channel_names_its_decisions(
    major: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    clang = request.getfixturevalue(f"clang{major}")
    module = make_corpus(clang, tmp_path, projects=1, modules=1).modules[0]
    result = succeeded(PipesBackend(llvm=find_llvm(clang=clang)).run(Job(module=module, record=True, names=True)))
    assert result.trajectory.has_names


def test_an_override_is_taken_where_it_was_recorded(corpus: Corpus, llvm: LLVM, recorded: RolloutResult) -> None:
    trajectory = recorded.trajectory
    for place in range(0, len(trajectory), 3):
        key = int(trajectory.keys[place])
        wanted = 1 - int(trajectory.advice[place])
        job = Job(
            module=corpus.modules[0],
            overrides=Overrides(advice={key: wanted}, recorded=trajectory),
            record=True,
            names=True,
        )
        given = succeeded(PipesBackend(llvm=llvm).run(job)).trajectory
        assert given.keys[given.overridden].tolist() == [key]
        assert given.advice[given.overridden].tolist() == [wanted]


def test_a_compiled_and_an_interpreted_policy_decide_alike(corpus: Corpus, llvm: LLVM) -> None:
    names = ("cost_estimate", "callee_users", "caller_basic_block_count")
    layers: tuple[Layer, ...] = random_layers([3, 4, 1], np.random.default_rng(3))
    policy = inlining_policy([TensorSpec(name, "int64_t", (1,)) for name in names], layers, scaling=Scaling(clip=6.0))
    result = succeeded(PipesBackend(llvm=llvm).run(Job(module=corpus.modules[0], policy=policy, record=True)))
    decide = policy.bind(result.trajectory.specs)
    for place in range(len(result.trajectory)):
        seen = {name: result.trajectory.features[name][place] for name in names}
        assert decide(seen).item() == result.trajectory.advice[place]
    assert result.changed > 0


def test_a_policy_that_does_not_fit_is_an_error_not_a_failure(corpus: Corpus, llvm: LLVM) -> None:
    policy = threshold_policy(feature=TensorSpec("callee_size_in_acres", "int64_t", (1,)))
    with pytest.raises(PolicyError, match="callee_size_in_acres"):
        PipesBackend(llvm=llvm).run(Job(module=corpus.modules[0], policy=policy))
    with pytest.raises(PolicyError, match="asks about eviction"):
        PipesBackend(llvm=llvm, problem="eviction").run(Job(module=corpus.modules[0], policy=threshold_policy()))


def test_the_plain_backend_takes_no_policy(corpus: Corpus, llvm: LLVM) -> None:
    with pytest.raises(PolicyError, match="asks no policy"):
        PlainBackend(llvm=llvm).run(Job(module=corpus.modules[0], policy=threshold_policy(feature=INLINING_DEFAULT)))


@pytest.mark.parametrize("content", [b"BC\xc0\xde" + bytes(64), b"not bitcode at all", b"BC"])
def test_bad_bitcode_is_counted(content: bytes, corpus: Corpus, llvm: LLVM, tmp_path: Path) -> None:
    bitcode = tmp_path / "bad.bc"
    bitcode.write_bytes(content)
    module = dataclasses.replace(corpus.modules[0], bitcode=bitcode)
    for backend in (PlainBackend(llvm=llvm), PipesBackend(llvm=llvm)):
        outcome = failed(backend.run(Job(module=module)))
        assert outcome.reason == "bad bitcode", outcome
        assert "error:" in outcome.detail


def test_bitcode_of_a_newer_llvm_is_counted(clang19: Path, corpus: Corpus) -> None:
    outcome = failed(PipesBackend(llvm=find_llvm(clang=clang19)).run(Job(module=corpus.modules[0])))
    assert outcome.reason in ("bad bitcode", "compiler error")


def test_clang_19_is_told_right(clang19: Path, tmp_path: Path) -> None:
    # It sends its default in the place of a feature: the echo must be right, and a policy must see that feature.
    older = find_llvm(clang=clang19)
    module = make_corpus(clang19, tmp_path, projects=1, modules=1).modules[0]
    plain = succeeded(PlainBackend(llvm=older).run(Job(module=module)))
    echoed = succeeded(PipesBackend(llvm=older).run(Job(module=module, record=True)))
    assert echoed.trajectory is not None
    assert echoed.trajectory.default is not None
    assert set(echoed.trajectory.default.tolist()) == {0, 1}
    assert (echoed.sizes, echoed.changed) == (plain.sizes, 0)
    by_blocks = threshold_policy(TensorSpec("callee_basic_block_count", "int64_t", (1,)), threshold=10**6)
    assert succeeded(PipesBackend(llvm=older).run(Job(module=module, policy=by_blocks))).sizes != plain.sizes


def test_a_crash_is_counted(corpus: Corpus, llvm: LLVM) -> None:
    crashing = with_flags(corpus.modules[0], b"-mllvm", b"-opt-bisect-limit=x")
    assert failed(PlainBackend(llvm=llvm).run(Job(module=crashing))).reason == "compiler error"


def test_a_time_limit_is_kept(corpus: Corpus, llvm: LLVM) -> None:
    backend = PipesBackend(llvm=llvm, limits=Limits(decision_s=0.001, compile_s=0.001))
    assert failed(backend.run(Job(module=corpus.modules[0]))).reason == "time limit"
    assert failed(PlainBackend(llvm=llvm, limit_s=0.001).run(Job(module=corpus.modules[0]))).reason == "time limit"


def with_flags(module: Module, *flags: bytes) -> Module:
    return dataclasses.replace(module, command=(*module.command, *flags))
