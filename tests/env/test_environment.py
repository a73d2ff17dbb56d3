"""Environments over a real clang: gymnasium's checker, ours, and compilers that end with them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import itertools
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from process_table import alive_with, marked, wait_until_gone
from pymlgo.channel import Limits
from pymlgo.corpus.description import Corpus, Description, read_corpus, write_description
from pymlgo.env import AllowedActions, CompileEnv, check_environment
from pymlgo.env.cost import spill_cost
from pymlgo.errors import ChannelError, ConfigError, CorpusError, SpecError
from tiny_corpus import FLAGS, REPLAY, make_corpus

gymnasium = pytest.importorskip("gymnasium", reason="the extra 'gym' is not installed")
env_checker = pytest.importorskip("gymnasium.utils.env_checker")

pytestmark = pytest.mark.llvm

IDS = ("pymlgo/Inlining-v0", "pymlgo/Eviction-v0", "pymlgo/Priority-v0")
PROBLEMS = ("inlining", "eviction", "priority")
DEFAULT = "inlining_default"

PRESSING = """
extern int use(int);
int pressed(long *p, int n) {
  long a = p[0], b = p[1], c = p[2], d = p[3], e = p[4], f = p[5], g = p[6], h = p[7], i = p[8], j = p[9];
  long k = p[10], l = p[11], m = p[12], o = p[13], q = p[14], r = p[15];
  for (int t = 0; t < n; t++) {
    a = a * b + c; b = b * c + d; c = c * d + e; d = d * e + f; e = e * f + g; f = f * g + h; g = g * h + i;
    h = h * i + j; i = i * j + k; j = j * k + l; k = k * l + m; l = l * m + o; m = m * o + q; o = o * q + r;
    q = q * r + a; r = r * a + b;
    if (t & 1) use(t);
  }
  p[0] = a + b + c + d + e + f + g + h + i + j + k + l + m + o + q + r;
  return use(n);
}
"""


@pytest.fixture(scope="module")
def corpus(clang22: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Three modules that ask about inlining, one that asks about registers only, and one that asks nothing."""
    root = tmp_path_factory.mktemp("corpus")
    made = make_corpus(clang22, root, projects=1, modules=3)
    names = [each.name for each in made.modules]
    for name, text in (("pressed", PRESSING), ("silent", "int nothing;")):
        command = [clang22, *FLAGS, "-x", "c", "-", "-o", root / f"{name}.bc"]
        subprocess.run(command, input=text.encode(), check=True, capture_output=True)
        names.append(name)
    write_description(root, Description(modules=tuple(names), command_override=REPLAY))
    return read_corpus(root)


@pytest.fixture
def make(corpus: Corpus, clang22: Path) -> Iterator[Callable[..., CompileEnv]]:
    """Makes environments of the corpus, which are closed after the test."""
    made = []

    def one(problem: str = "inlining", **arguments: object) -> CompileEnv:
        made.append(CompileEnv(problem, corpus.root, clang=clang22, **arguments))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.mark.parametrize("name", IDS)
@pytest.mark.filterwarnings("ignore:.*Box (observation|action) space m.*infinity", "ignore:.*we recommend using a sym")
@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")  # that of evictions is wrapped
def test_gymnasiums_checker_passes(name: str, corpus: Corpus, clang22: Path) -> None:
    made = gymnasium.make(name, corpus=str(corpus.root), clang=str(clang22), disable_env_checker=True)
    checked = made.unwrapped
    while isinstance(made, gymnasium.Wrapper):
        if isinstance(made, AllowedActions):
            checked = made
        made = made.env
    env_checker.check_env(checked)
    checked.close()


@pytest.mark.parametrize("problem", PROBLEMS)
def test_our_checker_passes(problem: str, make: Callable[..., CompileEnv]) -> None:
    check_environment(functools.partial(make, problem))


def test_an_old_clangs_default_is_echoed_too(corpus: Corpus, clang19: Path, tmp_path: Path) -> None:
    old = make_corpus(clang19, tmp_path, projects=1, modules=1)
    check_environment(lambda: CompileEnv("inlining", old.root, clang=clang19))


def test_the_reward_is_the_share_that_was_saved(make: Callable[..., CompileEnv]) -> None:
    env = make()
    env.reset(seed=3)
    steps = [env.step(0)]
    while not steps[-1][2]:
        steps.append(env.step(0))
    *before, (_, reward, _, truncated, info) = steps
    assert not truncated
    assert all(each[1] == 0 for each in before)
    assert info["object_sha256"] != info["default_object_sha256"]
    assert reward == (info["default_cost"] - info["cost"]) / info["default_cost"] != 0


@pytest.mark.parametrize("problem", ["eviction", "priority"])
def test_registers_are_judged_by_what_spills_cost(problem: str, make: Callable[..., CompileEnv]) -> None:
    env = make(problem)
    costs = set()
    for pick in (0, -1):
        env.reset(options={"module": "pressed"})
        ended = False
        for number in itertools.count():
            if problem == "eviction":
                action: object = int(np.flatnonzero(env.action_masks())[pick])
            else:
                action = np.array([number if pick else 100_000 - number], np.float32)
            _, reward, ended, truncated, info = env.step(action)
            if ended or truncated:
                break
        assert ended, info
        costs.add(info["cost"])
        assert info["default_cost"] > 0
        assert reward == (info["default_cost"] - info["cost"]) / info["default_cost"]
    assert len(costs) == 2


def test_spills_of_loops_are_not_counted_twice() -> None:
    of_a_loop = """--- !Missed
Pass:            regalloc
Name:            LoopSpillReloadCopies
Function:        g
Args:
  - TotalSpillsCost: '1.400000e+02'
...
"""
    of_a_function = of_a_loop.replace("Loop", "") + "--- !Missed\n"
    text = of_a_loop + of_a_function.replace("Args:", "Args:\n  - TotalReloadsCost: '2.5e+00'")
    assert spill_cost(text.encode()) == 140 + 4 * 2.5
    assert spill_cost(b"") == 0


def test_a_module_can_be_named(make: Callable[..., CompileEnv]) -> None:
    env = make()
    assert env.reset(options={"module": "p0/m2"})[1]["module"] == "p0/m2"
    with pytest.raises(CorpusError, match="asks nothing about inlining in the module 'silent'"):
        env.reset(options={"module": "silent"})
    with pytest.raises(CorpusError, match="no module 'p9'"):
        env.reset(options={"module": "p9"})


def test_modules_that_do_not_compile_are_passed_over(corpus: Corpus, clang22: Path, tmp_path: Path) -> None:
    good = corpus.modules[0]
    bad = dataclasses.replace(good, name="bad", bitcode=tmp_path / "bad.bc")
    bad.bitcode.write_bytes(b"BC no bitcode")
    with contextlib.closing(CompileEnv("inlining", [good, bad], clang=clang22)) as env:
        assert {env.reset(seed=seed)[1]["module"] for seed in range(6)} == {good.name}
        with pytest.raises(CorpusError, match="the module 'bad' does not compile: bad bitcode"):
            env.reset(options={"module": "bad"})
        env.modules = (bad,)
        with pytest.raises(CorpusError, match="'bad' does not compile"):
            env.reset()


def test_a_seed_draws_the_same_modules_whatever_was_seen(make: Callable[..., CompileEnv]) -> None:
    env = make()
    first = [env.reset(seed=5)[1]["module"], *(env.reset()[1]["module"] for _ in range(5))]
    again = [env.reset(seed=5)[1]["module"], *(env.reset()[1]["module"] for _ in range(5))]
    assert first == again
    assert len(set(first)) > 1
    assert "silent" not in first


def test_an_action_that_is_not_allowed_stands_for_the_next(make: Callable[..., CompileEnv]) -> None:
    env = make("eviction")
    wrapped = AllowedActions(env)
    wrapped.reset(options={"module": "pressed"})
    allowed = np.flatnonzero(env.action_masks())
    forbidden = np.flatnonzero(~env.action_masks())
    assert len(forbidden)
    assert all(wrapped.action(int(each)) == each for each in allowed)
    assert wrapped.action(int(forbidden[-1])) == min(
        (each for each in allowed if each > forbidden[-1]), default=allowed[0]
    )
    with pytest.raises(SpecError, match="must not be evicted"):
        env.step(int(forbidden[0]))
    wrapped.step(int(forbidden[0]))


def test_a_step_without_an_episode_is_an_error(make: Callable[..., CompileEnv]) -> None:
    env = make()
    with pytest.raises(ChannelError, match="call reset"):
        env.step(0)


def test_a_compiler_that_dies_ends_the_episode(make: Callable[..., CompileEnv]) -> None:
    with marked() as mark:
        env = make()
        env.reset(seed=1)
        signal_compilers(mark, signal.SIGKILL)
        _, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated) == (0, False, True)
    assert "died from SIGKILL" in info["failure"]
    assert env.reset(seed=1)[1]["decision"] == 0


def test_a_compile_that_takes_too_long_ends_the_episode(make: Callable[..., CompileEnv]) -> None:
    with marked() as mark:
        env = make(limits=Limits(compile_s=5))
        env.reset(seed=1)
        signal_compilers(mark, signal.SIGSTOP)
        *_, truncated, info = env.step(0)
    assert truncated
    assert "did not finish within 5 s" in info["failure"]


@pytest.mark.parametrize("ending", ["close", "reset", "forget"])
def test_no_compiler_is_left(ending: str, make: Callable[..., CompileEnv], corpus: Corpus, clang22: Path) -> None:
    with marked() as mark:
        env = CompileEnv("inlining", corpus.root, clang=clang22)
        env.reset(seed=1)
        match ending:
            case "close":
                env.close()
            case "reset":
                env.reset(seed=2)
                env.close()
            case _:
                del env
                gc.collect()
        assert compilers(wait_until_gone(mark, within_s=2)) == []


def test_what_cannot_be_an_environment_is_named(corpus: Corpus, clang22: Path) -> None:
    silent = [each for each in corpus.modules if each.name == "silent"]
    with pytest.raises(CorpusError, match="asks nothing about inlining in any of 1 modules"):
        CompileEnv("inlining", silent, clang=clang22)
    with pytest.raises(ConfigError, match="unknown problem 'speed'"):
        CompileEnv("speed", silent, clang=clang22)


def signal_compilers(mark: str, number: signal.Signals) -> None:
    found = compilers(alive_with(mark))
    assert found
    for process in found:
        os.kill(process, number)


def compilers(processes: list[int]) -> list[int]:
    """Those that are no sentinel, which waits for us and not for a compiler."""
    return [each for each in processes if "sentinel" not in Path(f"/proc/{each}/comm").read_text()]
