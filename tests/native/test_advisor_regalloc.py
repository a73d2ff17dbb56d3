"""The advisor plugin decides register allocation inside a stock clang: as the pipes do, checked, never in circles."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from conftest import llvm_with_plugin, require_tool

from advised_compiles import (  # isort: skip
    compile_advised,
    compile_plain,
    compile_through_pipes,
    pressure_source,
    queue_policy,
    register_policy,
)
from bad_policies import build_policy  # isort: skip

from pymlgo.emit import compile_policy
from pymlgo.policy.policy import Policy
from pymlgo.problem import EVICTION, PRIORITY, problem_named
from pymlgo.rollout.keys import decision_key
from pymlgo.toolchain.advisor import advisor_plugin, overrides_text, read_report
from pymlgo.toolchain.llvm import LLVM
from pymlgo.training_log import read_log

pytestmark = pytest.mark.llvm

POLICIES = {"eviction": register_policy(), "priority": queue_policy()}

EVICTION_MACROS = {
    "PROBLEM": '"eviction"',
    "INPUT": '"mask"',
    "ROW": "1",
    "DECISION": "int64_t",
    "DECISION_TYPE": '"int64_t"',
    "DECISION_NAME": '"index_to_evict"',
}
PRIORITY_MACROS = {
    "PROBLEM": '"priority"',
    "INPUT": '"li_size"',
    "DECISION": "float",
    "DECISION_TYPE": '"float"',
    "DECISION_NAME": '"priority"',
}
FIRST_ALLOWED = "[&]{int i=0;while(!in[i])++i;return i;}()"


@pytest.fixture(scope="module", params=["clang-22", "clang-19"])
def llvm(request: pytest.FixtureRequest) -> LLVM:
    return llvm_with_plugin(str(request.param))


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("policies")
    made: dict[str, Policy] = POLICIES
    return {name: compile_policy(policy, folder / f"{name}.so").path for name, policy in made.items()}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "pressure.c"
    file.write_text(pressure_source())
    return file


@pytest.mark.parametrize("problem", ["eviction", "priority"])
@pytest.mark.spec("deploy.register-allocation")
def test_the_same_policy_through_pipes_gives_the_same_object(
    llvm: LLVM, policies: dict[str, Path], source: Path, problem: str
) -> None:
    done = compile_advised(llvm, source, "-O2", policies=(policies[problem],))
    assert done.returncode == 0, done.stderr
    assert not done.report.fallbacks
    advised = done.report.problems[problem]
    hosted, data = compile_through_pipes(llvm, problem_named(problem), POLICIES[problem], source, "-O2")
    assert advised.by_policy == advised.decisions == hosted.decisions > 50
    assert done.data == data
    assert done.data != compile_plain(llvm, source, "-O2")


def test_both_problems_and_inlining_at_once(llvm: LLVM, policies: dict[str, Path], source: Path) -> None:
    done = compile_advised(llvm, source, "-O2", policies=tuple(policies.values()))
    assert done.returncode == 0, done.stderr
    assert set(done.report.problems) == {"eviction", "priority"}
    for each in done.report.problems.values():
        assert each.by_policy == each.decisions


def test_nothing_is_left_in_the_temporary_folder(
    llvm: LLVM, policies: dict[str, Path], source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    assert compile_advised(llvm, source, "-O2", policies=(policies["priority"],)).returncode == 0
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("answer", ["33", "-1", "[&]{int i=0;while(in[i])++i;return i;}()"])
@pytest.mark.spec("deploy.mask")
def test_an_answer_that_the_mask_forbids_does_not_reach_llvm(
    llvm: LLVM, source: Path, tmp_path: Path, answer: str
) -> None:
    policy = build_policy(tmp_path, "outside", ANSWER=answer, **EVICTION_MACROS)
    done = compile_advised(llvm, source, "-O2", policies=(policy,))
    assert done.returncode == 0, done.stderr
    assert done.data
    assert done.report.problems["eviction"].by_policy == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("warning: mlgo: eviction: ")


@pytest.mark.parametrize("answer", ["NAN", "-1", "5e9f"])
def test_a_priority_that_is_none(llvm: LLVM, source: Path, tmp_path: Path, answer: str) -> None:
    policy = build_policy(tmp_path, "none", ANSWER=answer, **PRIORITY_MACROS)
    done = compile_advised(llvm, source, "-O2", policies=(policy,))
    assert done.returncode == 0, done.stderr
    assert done.report.problems["priority"].by_policy == 0
    assert len(done.report.fallbacks) == 1


def test_a_policy_that_cannot_be_loaded_changes_nothing(llvm: LLVM, source: Path, tmp_path: Path) -> None:
    policy = build_policy(tmp_path, "old", VERSION="9", **EVICTION_MACROS)
    done = compile_advised(llvm, source, "-O2", policies=(policy,))
    assert done.data == compile_plain(llvm, source, "-O2")


@pytest.mark.parametrize("problem", ["eviction", "priority"])
@pytest.mark.spec("deploy.fallback")
def test_a_feature_that_is_not_sent(llvm: LLVM, source: Path, tmp_path: Path, problem: str) -> None:
    macros = EVICTION_MACROS if problem == "eviction" else PRIORITY_MACROS
    policy = build_policy(tmp_path, "unknown", **{**macros, "INPUT": '"moon"'})
    done = compile_advised(llvm, source, "-O2", policies=(policy,))
    assert done.returncode == 0
    assert "moon, which this compiler does not send" in done.report.fallbacks[0].reason
    if llvm.major >= 22:
        assert done.data == compile_plain(llvm, source, "-O2")


def test_after_a_failure_the_default_decides_from_the_next_function_on(
    llvm: LLVM, source: Path, tmp_path: Path
) -> None:
    policy = build_policy(tmp_path, "late", BEFORE="if(calls>3)throw 1", ANSWER=FIRST_ALLOWED, **EVICTION_MACROS)
    done = compile_advised(llvm, source, "-O2", policies=(policy,))
    advised = done.report.problems["eviction"]
    assert done.returncode == 0, done.stderr
    assert advised.by_policy == 3
    assert advised.by_default > 0
    assert ("from the next function on" in done.stderr) == (llvm.major >= 22)


def test_two_policies_for_one_problem_change_nothing(
    llvm: LLVM, policies: dict[str, Path], source: Path, tmp_path: Path
) -> None:
    other = build_policy(tmp_path, "other", ANSWER=FIRST_ALLOWED, **EVICTION_MACROS)
    done = compile_advised(llvm, source, "-O2", policies=(policies["eviction"], other))
    assert done.data == compile_plain(llvm, source, "-O2")
    assert "two policies for eviction" in done.report.fallbacks[0].reason


@pytest.mark.spec("deploy.record")
def test_the_recorder_writes_llvms_score(llvm: LLVM, policies: dict[str, Path], source: Path, tmp_path: Path) -> None:
    done = compile_advised(llvm, source, "-O2", policies=(policies["eviction"],), log=tmp_path, problems=("eviction",))
    (file,) = tmp_path.glob("eviction-*.log")
    log = read_log(file)
    assert log.error is None
    assert log.header.score is not None
    assert log.header.score.name == "reward"
    decisions = [json.loads(line) for line in file.with_suffix(".decisions").read_text().splitlines()]
    assert sum(len(each) for each in log.contexts) == done.report.problems["eviction"].decisions == len(decisions)
    for context in log.contexts:
        rewards = context.outcomes
        assert rewards is not None
        assert (rewards[:-1] == 0).all()
        assert rewards[-1] > 0
        chosen = context.features["index_to_evict"].reshape(-1)
        assert np.take_along_axis(context.features["mask"].reshape(-1, 33), chosen[:, None], axis=1).all()
    first = log.contexts[0]
    assert [int(each["key"], 16) for each in decisions[: len(first)]] == [
        decision_key(first.name, "eviction", number) for number in range(len(first))
    ]


@pytest.mark.spec("deploy.overrides")
def test_overrides_replay_evictions(llvm: LLVM, policies: dict[str, Path], source: Path, tmp_path: Path) -> None:
    first = compile_advised(llvm, source, "-O2", policies=(policies["eviction"],), log=tmp_path, problems=("eviction",))
    (file,) = tmp_path.glob("eviction-*.log")
    keys = [int(json.loads(line)["key"], 16) for line in file.with_suffix(".decisions").read_text().splitlines()]
    taken = np.concatenate([each.features["index_to_evict"] for each in read_log(file).contexts]).reshape(-1)
    overrides = tmp_path / "overrides"
    overrides.write_text(overrides_text(dict(zip(keys, map(int, taken), strict=True))))
    second = compile_advised(llvm, source, "-O2", overrides=overrides, problems=("eviction",))
    assert second.report.problems["eviction"].by_override == len(keys)
    assert second.data == first.data


@pytest.mark.parametrize("lto", ["thin", "full"])
@pytest.mark.spec("deploy.link-time")
def test_link_time_optimization_gives_the_same_with_one_thread_and_several(
    policies: dict[str, Path], tmp_path: Path, lto: str
) -> None:
    llvm22 = llvm_with_plugin("clang-22")
    require_tool("ld.lld-22")
    objects = []
    for number in range(4):
        source = tmp_path / f"m{number}.c"
        source.write_text(re.sub(r"\b(first|second|third)\b", rf"\1_{number}", pressure_source(20 + number)))
        objects.append(source.with_suffix(".o"))
        command = [llvm22.clang, "-w", "-O2", "-fPIC", f"-flto={lto}", "-c", source, "-o", objects[-1]]
        subprocess.run(command, check=True)
    linked = set()
    for jobs in ("1", "3"):
        output, report = tmp_path / "x.so", tmp_path / f"report-{jobs}"
        link = [llvm22.clang, "-shared", "-O2", f"-flto={lto}", "-fuse-ld=lld", f"-Wl,--thinlto-jobs={jobs}", *objects]
        plugin = f"-Wl,--load-pass-plugin={advisor_plugin(llvm22)}"
        environment = {"PYMLGO_REPORT": str(report), "PYMLGO_POLICY": ":".join(map(str, policies.values()))}
        subprocess.run([*link, plugin, "-o", output], check=True, env={**os.environ, **environment})
        said = read_report(report.read_text())
        assert not said.fallbacks
        for problem in POLICIES:
            assert said.problems[problem].by_policy == said.problems[problem].decisions > 100
        linked.add(output.read_bytes())
    assert len(linked) == 1


@pytest.mark.spec("deploy.circles")
def test_a_policy_that_goes_in_circles_is_stopped(llvm: LLVM, tmp_path: Path) -> None:
    # Always the first that may be evicted: live ranges push each other out. LLVM alone would let each of them do so
    # a hundred times, some 13 decisions for each instruction of this source.
    source = tmp_path / "circles.c"
    source.write_text(pressure_source(values=40, rounds=6))
    policy = build_policy(tmp_path, "first", ANSWER=FIRST_ALLOWED, **EVICTION_MACROS)
    done = compile_advised(llvm, source, "-O2", policies=(policy,))
    assert done.returncode == 0, done.stderr
    assert done.data
    stopped = [each for each in done.report.fallbacks if "goes in circles in function" in each.reason]
    assert stopped
    assert "a stand-in for LLVM's default decides" in done.stderr
    advised = done.report.problems["eviction"]
    # What is left of the function is decided by few decisions more, and the next function by the policy again.
    assert 0 < advised.by_default < advised.by_policy / 10
    assert advised.by_policy > 5000 * len(stopped)


def test_problems_are_those_of_the_package() -> None:
    assert {EVICTION.name, PRIORITY.name} == set(POLICIES)
