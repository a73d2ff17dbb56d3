"""Real clangs: what they ask, and that what they make is what our answers say."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from c_sources import CALLS, PRESSURE
from clang_hosting import PROBLEMS, compile_command, host_clang, seeded_advice

from pymlgo.channel import Observation, host
from pymlgo.problem import EVICTION, INLINING, PRIORITY, Problem, default_advice, default_flags
from pymlgo.toolchain.flags import inliner_channel_options
from pymlgo.toolchain.llvm import LLVM, find_llvm
from pymlgo.training_log.header import Header

pytestmark = pytest.mark.llvm


@pytest.fixture
def llvm(clang: Path) -> LLVM:
    return find_llvm(clang=clang)


@pytest.fixture(params=PROBLEMS, ids=lambda problem: problem.name)
def problem(request: pytest.FixtureRequest) -> Problem:
    assert isinstance(request.param, Problem)
    return request.param


@pytest.mark.spec("interactive-mode.flags")
@pytest.mark.spec("interactive-mode.files")
@pytest.mark.spec("interactive-mode.advice-is-no-feature")
def test_each_advisor_asks_with_the_advice_that_its_problem_names(llvm: LLVM, problem: Problem, tmp_path: Path) -> None:
    headers: list[Header] = []
    command = compile_command(llvm, tmp_path, problem)

    def on_header(header: Header) -> object:
        headers.append(header)
        return seeded_advice(problem, 1)

    result = host(command, flags=lambda base: problem.channel_flags(llvm, base), on_header=on_header)  # type: ignore[arg-type]
    assert (result.returncode, result.headers, result.refused) == (0, 1, 0)
    assert result.decisions > 10 or problem is INLINING
    assert headers[0].advice == problem.advice
    assert problem.advice.name not in {spec.name for spec in headers[0].features}
    assert headers[0].score is None


@pytest.mark.spec("interactive-mode.default")
@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3", "-Os", "-Oz"])
def test_echoing_the_default_changes_no_byte(llvm: LLVM, tmp_path: Path, level: str) -> None:
    command = compile_command(llvm, tmp_path, INLINING, level=level)
    subprocess.run(command, check=True)
    plain = (tmp_path / "out.o").read_bytes()
    result = host(
        command,
        flags=lambda base: default_flags(INLINING, llvm, base),
        on_header=lambda header: default_advice(INLINING, header),
        correct=INLINING.correction(llvm),
        check_advice=INLINING.check_advice,
    )
    assert result.decisions > 0
    assert (tmp_path / "out.o").read_bytes() == plain


def test_a_default_over_another_feature_is_put_right(llvm: LLVM, tmp_path: Path) -> None:
    """Inliners before LLVM 21 say 0 for their own decision and write it over `callee_basic_block_count`."""
    command = compile_command(llvm, tmp_path, INLINING)
    blocks: list[int] = []
    defaults: set[int] = set()

    def advise(observation: Observation) -> int:
        if "callee_basic_block_count" in observation.features:
            blocks.append(observation.features["callee_basic_block_count"].item())
        if "inlining_default" in observation.features:
            defaults.add(observation.features["inlining_default"].item())
        return 0

    host_clang(llvm, INLINING, command, advise, correct=INLINING.correction(llvm))
    assert 1 in defaults
    assert bool(blocks) == (llvm.major >= 21)
    blocks.clear()
    host(command, advise, flags=lambda base: INLINING.serving_flags(llvm, base))
    assert max(blocks) > 1


@pytest.mark.spec("interactive-mode.protocol")
def test_the_same_answers_give_the_same_object(llvm: LLVM, problem: Problem, tmp_path: Path) -> None:
    advise = seeded_advice(problem, 7)
    given: list[object] = []

    def remember(observation: Observation) -> object:
        given.append(advise(observation))
        return given[-1]

    first = host_clang(llvm, problem, compile_command(llvm, tmp_path, problem, output="first.o"), remember)
    assert first.decisions == len(given)
    answers: Iterator[object] = iter(given)
    host_clang(llvm, problem, compile_command(llvm, tmp_path, problem, output="again.o"), lambda _: next(answers))
    other = compile_command(llvm, tmp_path, problem, output="other.o")
    host_clang(llvm, problem, other, seeded_advice(problem, 8))
    objects = [(tmp_path / name).read_bytes() for name in ("first.o", "again.o", "other.o")]
    assert objects[0] == objects[1] != objects[2]


@pytest.mark.spec("interactive-mode.contexts")
def test_an_inliner_has_one_context_and_a_register_allocator_one_for_each_function(
    llvm: LLVM, problem: Problem, tmp_path: Path
) -> None:
    contexts: dict[str, int] = {}
    advise = seeded_advice(problem, 1)

    def count(observation: Observation) -> object:
        assert observation.number == contexts.get(observation.context, 0)
        contexts[observation.context] = observation.number + 1
        return advise(observation)

    host_clang(llvm, problem, compile_command(llvm, tmp_path, problem), count)
    assert set(contexts) == ({""} if problem.one_context_per == "module" else {"mix", "sums"})


@pytest.mark.spec("interactive-mode.many-compilers")
@pytest.mark.parametrize("problem", [INLINING, EVICTION], ids=lambda problem: problem.name)
def test_two_sources_in_one_command_are_two_compilers(llvm: LLVM, problem: Problem, tmp_path: Path) -> None:
    names = ("calls.c", "pressure.c")
    for name, text in zip(names, (CALLS, PRESSURE), strict=True):
        (tmp_path / name).write_text(text)
    command = [str(llvm.clang), "-O2", "-w", "-c", *names]
    result = host_clang(llvm, problem, command, seeded_advice(problem, 1), cwd=tmp_path)
    assert (result.returncode, result.headers) == (0, 2)
    assert {path.name for path in tmp_path.glob("*.o")} == {"calls.o", "pressure.o"}


@pytest.mark.spec("interactive-mode.many-compilers")
def test_a_thinlto_link_with_one_job_introduces_each_module(llvm: LLVM, tmp_path: Path) -> None:
    for name, text in (("calls.c", CALLS), ("pressure.c", PRESSURE)):
        (tmp_path / name).write_text(text)
    clang = str(llvm.clang)
    subprocess.run([clang, "-O2", "-w", "-flto=thin", "-c", "calls.c", "pressure.c"], cwd=tmp_path, check=True)
    link = [clang, "-O2", "-flto=thin", f"-fuse-ld={llvm.tool('ld.lld')}", "-nostdlib", "-shared", "-o", "out.so"]
    result = host(
        [*link, "-Wl,--thinlto-jobs=1", "calls.o", "pressure.o"],
        lambda observation: observation.features["inlining_default"],
        flags=lambda base: [f"-Wl,-mllvm,{each}" for each in inliner_channel_options(base, include_default=True)],
        cwd=tmp_path,
    )
    assert (result.returncode, result.headers) == (0, 2)
    assert (tmp_path / "out.so").exists()


def test_without_optimisation_nothing_is_asked(llvm: LLVM, problem: Problem, tmp_path: Path) -> None:
    command = compile_command(llvm, tmp_path, problem, level="-O0")
    result = host_clang(llvm, problem, command, lambda _: 0)
    assert (result.returncode, result.headers, result.decisions) == (0, 0, 0)
    assert (tmp_path / "out.o").exists()


def test_a_module_without_functions_is_a_header_and_a_context(llvm: LLVM, tmp_path: Path) -> None:
    command = compile_command(llvm, tmp_path, INLINING)
    (tmp_path / "inlining.c").write_text("int x;")
    result = host_clang(llvm, INLINING, command, lambda _: 0)
    assert (result.returncode, result.headers, result.contexts, result.decisions) == (0, 1, 1, 0)


@pytest.mark.parametrize(("text", "said"), [(None, b"no such file"), ("int f( {", b"error: expected")])
def test_a_compile_error_is_an_exit_code_and_its_text(
    llvm: LLVM, problem: Problem, tmp_path: Path, text: str | None, said: bytes
) -> None:
    command = compile_command(llvm, tmp_path, problem)
    (tmp_path / f"{problem.name}.c").unlink()
    if text is not None:
        (tmp_path / f"{problem.name}.c").write_text(text)
    result = host_clang(llvm, problem, command, lambda _: 0)
    assert (result.returncode, result.headers) == (1, 0)
    assert said in result.stderr


def test_all_cores_give_the_same_object(llvm: LLVM, tmp_path: Path) -> None:
    objects = set()
    for core in ("current", None):
        host_clang(llvm, EVICTION, compile_command(llvm, tmp_path, EVICTION), seeded_advice(EVICTION, 3), core=core)
        objects.add((tmp_path / "out.o").read_bytes())
    assert len(objects) == 1


def test_a_priority_is_what_the_policy_says(llvm: LLVM, tmp_path: Path) -> None:
    seen: list[str] = []

    def advise(observation: Observation) -> float:
        seen.extend(name for name in observation.features if name not in seen)
        return min(observation.features["li_size"].item(), 1e6)

    host_clang(llvm, PRIORITY, compile_command(llvm, tmp_path, PRIORITY), advise)
    assert seen == ["li_size", "stage", "weight"]
