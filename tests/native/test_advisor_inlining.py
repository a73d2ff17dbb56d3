"""The advisor plugin decides inlining inside stock compilers, and LLVM's default does where it cannot."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from conftest import llvm_with_plugin, require_tool
from pymlgo.channel import host
from pymlgo.channel.recording import Recorder
from pymlgo.emit import compile_policy
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import threshold_policy
from pymlgo.problem import INLINING
from pymlgo.rollout.keys import decision_key
from pymlgo.toolchain.advisor import advisor_flags, advisor_plugin, overrides_text, read_report
from pymlgo.toolchain.llvm import LLVM
from pymlgo.toolchain.messages import explain
from pymlgo.training_log import TrainingLog, read_log

from advised_compiles import (  # isort: skip
    CXX_SOURCE,
    Compiled,
    calls_source,
    compile_advised,
    compile_plain,
    compile_through_pipes,
    echo_policy,
    extension_policy,
)
from bad_policies import build_policy  # isort: skip

pytestmark = pytest.mark.llvm

THRESHOLD = threshold_policy(threshold=40)

# LLVM's ML advisor stops inlining in a module that has doubled; its default heuristic does not.
BRAKE_OFF = ("-mllvm", "-ml-advisor-size-increase-threshold=100")


@pytest.fixture(scope="module", params=["clang-22", "clang-19"])
def llvm(request: pytest.FixtureRequest) -> LLVM:
    return llvm_with_plugin(str(request.param))


@pytest.fixture(scope="module")
def llvm22() -> LLVM:
    return llvm_with_plugin("clang-22")


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("policies")
    made: dict[str, Policy] = {"echo": echo_policy(), "threshold": THRESHOLD, "extension": extension_policy()}
    return {name: compile_policy(policy, folder / f"{name}.so").path for name, policy in made.items()}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "calls.c"
    file.write_text(calls_source())
    return file


def _decided_by_policy(done: Compiled) -> int:
    advised = done.report.problems["inlining"]
    assert done.returncode == 0, done.stderr
    assert done.report.active
    assert not done.report.fallbacks
    assert advised.by_policy == advised.decisions
    return advised.decisions


# --- what it decides --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["-Oz", "-O2"])
@pytest.mark.spec("deploy.default-is-identical")
def test_a_policy_that_answers_the_default_gives_the_very_object(
    llvm: LLVM, policies: dict[str, Path], source: Path, level: str
) -> None:
    done = compile_advised(llvm, source, level, *BRAKE_OFF, policies=(policies["echo"],))
    assert _decided_by_policy(done) > 20
    assert done.data == compile_plain(llvm, source, level)


@pytest.mark.parametrize("level", ["-O1", "-Os", "-O3"])
def test_other_levels_and_cxx_too(llvm22: LLVM, policies: dict[str, Path], tmp_path: Path, level: str) -> None:
    source = tmp_path / "nodes.cc"
    source.write_text(CXX_SOURCE)
    done = compile_advised(llvm22, source, level, *BRAKE_OFF, policies=(policies["echo"],))
    assert _decided_by_policy(done) > 20
    assert done.data == compile_plain(llvm22, source, level)


@pytest.mark.spec("deploy.release-mode")
@pytest.mark.spec("deploy.same-as-interactive")
def test_the_same_policy_through_pipes_gives_the_same_object(
    llvm: LLVM, policies: dict[str, Path], source: Path
) -> None:
    done = compile_advised(llvm, source, "-Oz", policies=(policies["threshold"],))
    hosted, data = compile_through_pipes(llvm, INLINING, THRESHOLD, source, "-Oz")
    assert hosted.decisions == _decided_by_policy(done)
    assert done.data == data
    assert done.data != compile_plain(llvm, source, "-Oz")


def test_extension_features_are_bound(llvm: LLVM, policies: dict[str, Path], source: Path) -> None:
    done = compile_advised(llvm, source, "-Oz", policies=(policies["extension"],))
    _decided_by_policy(done)
    assert done.report.problems["inlining"].extension_ns > 0
    assert done.data != compile_plain(llvm, source, "-Oz")


def test_several_sources_in_one_command(llvm22: LLVM, policies: dict[str, Path], tmp_path: Path) -> None:
    sources = []
    for number in range(3):
        sources.append(tmp_path / f"s{number}.c")
        sources[-1].write_text(calls_source(number, 12))
    report = tmp_path / "report"
    flags = advisor_flags(llvm22, advisor_plugin(llvm22), policies=[policies["echo"]], report=report)
    subprocess.run([llvm22.clang, "-w", "-Oz", *flags, "-c", *sources], check=True, cwd=tmp_path)
    said = read_report(report.read_text())
    assert len(said.active) == 3
    for each in sources:
        assert each.with_suffix(".o").read_bytes() == compile_plain(llvm22, each, "-Oz")


def test_nothing_to_decide_at_o0(llvm: LLVM, policies: dict[str, Path], source: Path) -> None:
    done = compile_advised(llvm, source, "-O0", policies=(policies["threshold"],))
    assert done.returncode == 0
    assert done.report.problems == {}
    assert done.data == compile_plain(llvm, source, "-O0")


def test_opt_loads_it(llvm22: LLVM, policies: dict[str, Path], source: Path, tmp_path: Path) -> None:
    bitcode, report = tmp_path / "x.bc", tmp_path / "report"
    raw = ["-Oz", "-w", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
    subprocess.run([llvm22.clang, *raw, source, "-o", bitcode], check=True)
    options = ["-passes=default<Oz>", f"-mlgo-policy={policies['threshold']}", f"-mlgo-report={report}"]
    plugin = f"-load-pass-plugin={advisor_plugin(llvm22)}"
    subprocess.run([require_tool("opt-22"), plugin, *options, bitcode, "-o", tmp_path / "y.bc"], check=True)
    assert read_report(report.read_text()).problems["inlining"].by_policy > 20


@pytest.mark.parametrize("lto", ["thin", "full"])
@pytest.mark.spec("deploy.link-time")
def test_link_time_optimization_by_several_threads(
    llvm22: LLVM, policies: dict[str, Path], tmp_path: Path, lto: str
) -> None:
    require_tool("ld.lld-22")
    objects = []
    for number in range(4):
        source = tmp_path / f"m{number}.c"
        source.write_text(re.sub(r"\b(f\d+|top|g)\b", rf"\1_{number}", calls_source(number, 14)))
        objects.append(tmp_path / f"m{number}.o")
        command = [llvm22.clang, "-w", "-O2", "-fPIC", f"-flto={lto}", "-c", source, "-o", objects[-1]]
        subprocess.run(command, check=True)
    link = [llvm22.clang, "-shared", "-O2", f"-flto={lto}", "-fuse-ld=lld", "-Wl,--thinlto-jobs=2", *objects]
    plugin, report = advisor_plugin(llvm22), tmp_path / "report"
    subprocess.run([*link, "-o", tmp_path / "plain.so"], check=True)
    environment = {**os.environ, "PYMLGO_REPORT": str(report), "PYMLGO_POLICY": str(policies["echo"])}
    advised = [*link, f"-Wl,--load-pass-plugin={plugin}", "-o", tmp_path / "advised.so"]
    subprocess.run(advised, check=True, env=environment)
    said = read_report(report.read_text())
    assert not said.fallbacks
    assert said.problems["inlining"].by_policy > 40
    assert (tmp_path / "plain.so").read_bytes() == (tmp_path / "advised.so").read_bytes()


# --- records and overrides --------------------------------------------------------------------------------------


def _recorded(folder: Path) -> tuple[TrainingLog, list[dict[str, str]]]:
    (file,) = folder.glob("*.log")
    log = read_log(file)
    assert log.error is None
    return log, [json.loads(line) for line in file.with_suffix(".decisions").read_text().splitlines()]


@pytest.mark.spec("deploy.record")
def test_the_recorded_log_equals_the_channels_feature_by_feature(llvm: LLVM, source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    done = compile_advised(llvm, source, "-Oz", log=folder)
    assert done.data == compile_plain(llvm, source, "-Oz")
    ours, decisions = _recorded(folder)
    recorder, channel_file = Recorder(), tmp_path / "channel.log"
    host(
        [llvm.clang, "-w", "-Oz", "-c", source, "-o", tmp_path / "x.o"],
        lambda observation: observation.features["inlining_default"],
        flags=lambda base: INLINING.channel_flags(llvm, base),
        correct=INLINING.correction(llvm),
        listener=recorder,
    )
    with channel_file.open("wb") as stream:
        recorder.write(stream)
    theirs = read_log(channel_file)
    (our_context,), (their_context,) = ours.contexts, theirs.contexts
    assert our_context.name == their_context.name == ""
    assert len(our_context) == len(their_context) == len(decisions) > 20
    for spec in theirs.header.features:
        assert np.array_equal(our_context.features[spec.name], their_context.features[spec.name]), spec.name
    more = {spec.name for spec in ours.header.features} - {spec.name for spec in theirs.header.features}
    # Clang 19's channel sends the default in the place of callee_basic_block_count; ours sends both.
    assert len(more - {"inlining_default", "callee_basic_block_count"}) == 29


def test_decisions_have_the_keys_that_rollouts_compute(llvm22: LLVM, source: Path, tmp_path: Path) -> None:
    compile_advised(llvm22, source, "-Oz", log=tmp_path)
    _, decisions = _recorded(tmp_path)
    seen: dict[tuple[str, str], int] = {}
    for each in decisions:
        pair = (each["caller"], each["callee"])
        assert int(each["key"], 16) == decision_key(*pair, seen.get(pair, 0))
        seen[pair] = seen.get(pair, 0) + 1


@pytest.mark.spec("deploy.overrides")
def test_overrides_replay_a_policy_without_it(
    llvm: LLVM, policies: dict[str, Path], source: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    first = compile_advised(llvm, source, "-Oz", policies=(policies["threshold"],), log=folder)
    log, decisions = _recorded(folder)
    taken = log.contexts[0].features["inlining_decision"].reshape(-1)
    file = tmp_path / "overrides"
    file.write_text(overrides_text({int(each["key"], 16): int(a) for each, a in zip(decisions, taken, strict=True)}))
    second = compile_advised(llvm, source, "-Oz", overrides=file)
    advised = second.report.problems["inlining"]
    assert advised.by_override == advised.decisions == len(decisions)
    assert second.data == first.data != compile_plain(llvm, source, "-Oz")


def test_extension_features_say_what_the_source_says(llvm22: LLVM, tmp_path: Path) -> None:
    source = tmp_path / "known.c"
    source.write_text(
        """
        __attribute__((noinline)) int sink(int x) { __asm__ volatile("" ::: "memory"); return x; }
        static int once(int a, int b, int c) { return sink(a) * sink(b) + sink(c); }
        __attribute__((cold)) static int twice(int a) { return sink(a) + sink(a + 1) + sink(a + 2); }
        int exported(int a) { return sink(a) ^ sink(a + 5) ^ sink(a + 9); }
        int top(int a) { twice(a); return once(a, 2, 3) + twice(7) + exported(a); }
        int (*pointer)(int) = exported;
        """
    )
    compile_advised(llvm22, source, "-Oz", log=tmp_path)
    log, decisions = _recorded(tmp_path)
    features = log.contexts[0].features
    rows = {each["callee"]: row for row, each in enumerate(decisions) if each["caller"] == "top"}

    def of(callee: str, name: str) -> int:
        return int(features[name][rows[callee], 0])

    assert of("once", "argument_count") == 3
    assert of("once", "callee_is_local") == 1
    assert of("once", "callee_has_one_use") == 1
    assert of("once", "is_last_call_to_removable") == 1
    assert of("twice", "callee_call_sites") >= 1
    assert of("twice", "call_is_cold") == 1
    assert of("exported", "callee_is_local") == 0
    assert of("exported", "callee_is_discardable") == 0
    assert of("exported", "callee_other_uses") == 1
    assert of("exported", "result_is_used") == 1
    assert of("exported", "callee_code_size") > 3
    assert of("exported", "callee_is_removable") == 0


# --- what goes wrong --------------------------------------------------------------------------------------------

WRONG = {
    "version": ({"VERSION": "2"}, "interface version 2"),
    "problem": ({"PROBLEM": '"weather"'}, "unknown problem"),
    "feature": ({"INPUT": '"phase_of_moon"'}, "phase_of_moon, which this compiler does not send"),
    "type": ({"INPUT_TYPE": '"float"'}, "float[1], this compiler sends int64_t[1]"),
    "answer": ({"ANSWER": "7"}, "neither 0 nor 1"),
    "nan": ({"BEFORE": "own.logit=NAN"}, "NaN"),
    "exception": ({"BEFORE": "throw 1"}, "exception"),
    "symbol": ({"NO_RUN": "1"}, "mlgo_run"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.spec("deploy.fallback")
def test_a_bad_policy_means_llvms_default_and_one_line(llvm22: LLVM, source: Path, tmp_path: Path, case: str) -> None:
    definitions, text = WRONG[case]
    policy = build_policy(tmp_path, case, **definitions)
    done = compile_advised(llvm22, source, "-Oz", policies=(policy,))
    assert done.returncode == 0
    assert done.data == compile_plain(llvm22, source, "-Oz")
    (line,) = done.stderr.splitlines()
    assert line.startswith("warning: mlgo: inlining: ")
    assert text in line
    (fallback,) = done.report.fallbacks
    assert text in fallback.reason


@pytest.mark.parametrize("content", [None, b"", b"no library", b"\x7fELF"])
def test_no_policy_there(llvm: LLVM, source: Path, tmp_path: Path, content: bytes | None) -> None:
    policy = tmp_path / "policy.so"
    if content is not None:
        policy.write_bytes(content)
    done = compile_advised(llvm, source, "-Oz", "-Werror", policies=(policy,))
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 1
    assert done.data == compile_plain(llvm, source, "-Oz")


def test_damaged_overrides(llvm22: LLVM, source: Path, tmp_path: Path) -> None:
    file = tmp_path / "overrides"
    file.write_text("# comment\n0123456789abcdef 1\nnonsense\n")
    done = compile_advised(llvm22, source, "-Oz", overrides=file)
    assert done.returncode == 0
    assert "line 3" in done.stderr
    assert done.data == compile_plain(llvm22, source, "-Oz")


def test_a_failure_after_some_decisions_is_the_default_from_there(llvm22: LLVM, source: Path, tmp_path: Path) -> None:
    policy = build_policy(tmp_path, "late", BEFORE="if(calls>10)throw 1")
    done = compile_advised(llvm22, source, "-Oz", policies=(policy,))
    advised = done.report.problems["inlining"]
    assert done.returncode == 0
    assert advised.by_policy == 10
    assert advised.by_default == advised.decisions - 10 > 0


@pytest.mark.spec("deploy.wrong-llvm")
def test_another_llvms_clang_refuses_the_plugin_with_a_message(source: Path) -> None:
    old, new = llvm_with_plugin("clang-19"), llvm_with_plugin("clang-22")
    for clang, plugin in ((old, advisor_plugin(new)), (new, advisor_plugin(old))):
        command = [clang.clang, f"-fpass-plugin={plugin}", "-c", source, "-o", source.with_suffix(".o")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1
        assert "Wrong API version on plugin" in done.stderr
        assert "each needs its own" in (explain(done.stderr) or "")
