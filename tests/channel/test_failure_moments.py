"""Whatever goes wrong, at whatever moment: an error that says so, at once, and no process left."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_inliner import ADVICE, context, host_fake, inliner

from process_table import MARK, alive_with, marked, wait_until_gone
from pymlgo.channel import Limits, Observation, host, open_channel
from pymlgo.errors import ChannelError, ToolchainError
from pymlgo.tensor_spec import TensorSpec
from pymlgo.testing import Fault

BEFORE_ANY_MESSAGE = ("start", "opened")
IN_A_MESSAGE = ("header", "context", "observation")
QUICK = Limits(decision_s=0.4)
MOMENTS = (*BEFORE_ANY_MESSAGE, *IN_A_MESSAGE, "question", "end")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No process of a test survives it, no thread, no descriptor, and our core is the old one."""
    cores, threads = os.sched_getaffinity(0), threading.active_count()
    with marked() as mark:
        yield
        assert wait_until_gone(mark) == []
    assert os.sched_getaffinity(0) == cores
    assert threading.active_count() == threads


@pytest.mark.parametrize("with_child", [False, True])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_compiler_that_is_killed(tmp_path: Path, moment: str, with_child: bool) -> None:
    compiler = inliner(fault=Fault(moment=moment, effect="kill", after=0), with_child=with_child)  # type: ignore[arg-type]
    with pytest.raises(ChannelError) as caught:
        host_fake(compiler, tmp_path, lambda _: 0)
    expected = "went away in the middle of" if moment in IN_A_MESSAGE else "died from SIGKILL after"
    assert expected in str(caught.value)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_compiler_that_gives_up(tmp_path: Path, moment: str) -> None:
    compiler = inliner(fault=Fault(moment=moment, effect="exit"), exit_code=3, stderr_bytes=1)  # type: ignore[arg-type]
    if moment in IN_A_MESSAGE:
        with pytest.raises(ChannelError, match="went away in the middle of"):
            host_fake(compiler, tmp_path, lambda _: 0)
    else:
        assert host_fake(compiler, tmp_path, lambda _: 0).returncode == 3


@pytest.mark.parametrize("effect", ["silence", "spin"])
@pytest.mark.parametrize("moment", [each for each in MOMENTS if each != "question"])  # that silence is the answer's
def test_a_compiler_that_falls_silent(tmp_path: Path, moment: str, effect: str) -> None:
    compiler = inliner(fault=Fault(moment=moment, effect=effect), with_child=True)  # type: ignore[arg-type]
    started = time.monotonic()
    with pytest.raises(ChannelError, match=r"said nothing for 0\.4 s"):
        host_fake(compiler, tmp_path, lambda _: 0, limits=QUICK)
    assert time.monotonic() - started < 20


def test_a_compiler_that_talks_for_ever_meets_the_limit_of_the_compile(tmp_path: Path) -> None:
    def slow(_: Observation) -> int:
        time.sleep(0.05)
        return 0

    with pytest.raises(ChannelError, match=r"did not finish within 0\.6 s"):
        host_fake(inliner(contexts=(context("", 200),)), tmp_path, slow, limits=Limits(compile_s=0.6))


def test_a_host_that_thinks_longer_than_the_compiler_may_is_fine(tmp_path: Path) -> None:
    def slow(_: Observation) -> int:
        time.sleep(2.5)
        return 0

    assert host_fake(inliner(contexts=(context("", 1),)), tmp_path, slow, limits=Limits(decision_s=2.0)).decisions == 1


def test_a_compiler_that_warns_without_end_is_silent_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match=r"said nothing for 0\.4 s"):
        host_fake(inliner(stderr_bytes=10**12), tmp_path, lambda _: 0, limits=QUICK)


@pytest.mark.parametrize(
    ("garbage", "moment", "message"),
    [
        (b"garbage\n", "opened", "expected a header, a context or an observation, found 'garbage'"),
        (b"\xff\xfe\n", "opened", "expected a header"),
        (b"\n\n", "opened", "expected a header"),
        (b'{"features":[]\n', "opened", "header cannot be read"),
        (b'{"features":[{"name":"x"}],"advice":{}}\n', "opened", "header cannot be read: .*lacks 'name'"),
        (b'{"features":[]}\n', "opened", "names no advice"),
        (b'{"context":"f"}\n', "opened", "expected a header before"),
        (b'{"observation":0}\n', "opened", "expected a header and a context"),
        (b"x" * (2 << 20), "opened", "a line of more than"),
        (b"garbage\n", "question", "expected a header, a context or an observation"),
        (b'{"context":7}\n', "question", "expected a header before the context"),
        (b'{"context":\n', "question", "a context cannot be read"),
        (b'{"observation":7}\n', "question", "found '{\"observation\":7}'"),
        (b'{"observation":1}\n' + bytes(21), "question", "expected a newline after the tensors"),
        (b'{"features":[{"name":"x","type":"double","port":0,"shape":[200000000]}],"advice":'
         b'{"name":"y","type":"float","port":0,"shape":[1]}}\n', "opened", "observations of 1600000000 bytes"),
        (b'{"features":[],"advice":{"name":"y","type":"float","port":0,"shape":[9999]}}\n', "opened", "39996 bytes"),
    ],
)  # fmt: skip
def test_garbage_is_refused_in_one_line(tmp_path: Path, garbage: bytes, moment: str, message: str) -> None:
    compiler = inliner(fault=Fault(moment=moment, effect="garbage", garbage=garbage))  # type: ignore[arg-type]
    with pytest.raises(ChannelError, match=message) as caught:
        host_fake(compiler, tmp_path, lambda _: 0)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", [None, "yes", 1.5, [1, 2], 2**63, float("nan"), object()])
def test_advice_that_does_not_fit_is_refused(tmp_path: Path, value: object) -> None:
    compiler = inliner()
    with pytest.raises(ChannelError, match=r"decision 0 of context 'first': advice .* is refused"):
        host_fake(compiler, tmp_path, lambda _: value)
    assert compiler.answers(tmp_path) == []


def test_advice_that_the_check_refuses_is_never_sent(tmp_path: Path) -> None:
    compiler = inliner()
    with pytest.raises(ChannelError, match="advice 5 is refused: not 5"):
        host_fake(
            compiler, tmp_path, lambda _: 5, check_advice=lambda _, advice: "not 5" if advice.item() == 5 else None
        )
    assert compiler.answers(tmp_path) == []


def test_a_fallback_answers_instead_and_is_counted(tmp_path: Path) -> None:
    compiler = inliner(contexts=(context("", 4),))
    result = host_fake(
        compiler,
        tmp_path,
        lambda observation: 5 if observation.number % 2 else 1,
        check_advice=lambda _, advice: "not 5" if advice.item() == 5 else None,
        fallback=lambda observation: observation.number + 10,
    )
    assert [each.item() for each in compiler.answers(tmp_path)] == [1, 11, 1, 13]
    assert result.refused == 2


def test_a_fallback_is_checked_too(tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match="and its fallback are refused"):
        host_fake(inliner(), tmp_path, lambda _: 5, check_advice=lambda *_: "no", fallback=lambda _: 6)


@pytest.mark.parametrize("error", [RuntimeError("mine"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_a_host_raises_ends_the_compiler_and_comes_out(tmp_path: Path, error: BaseException) -> None:
    def advise(observation: Observation) -> int:
        if observation.number == 2:
            raise error
        return 0

    with pytest.raises(type(error)):
        host_fake(inliner(with_child=True), tmp_path, advise)


def test_a_header_that_the_policy_does_not_fit_ends_the_compiler(tmp_path: Path) -> None:
    def on_header(_: object) -> object:
        raise ToolchainError("no such feature")

    compiler = inliner()
    with pytest.raises(ToolchainError, match="no such feature"):
        host(compiler.command(tmp_path), flags=compiler.flags, on_header=on_header)  # type: ignore[arg-type]


def test_ctrl_c_while_the_compiler_works_ends_it(tmp_path: Path) -> None:
    compiler = inliner(fault=Fault(moment="observation", effect="silence"), with_child=True)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        host_fake(compiler, tmp_path, lambda _: 0, limits=Limits())
    timer.join()


def test_leaving_the_block_early_ends_the_compiler(tmp_path: Path) -> None:
    compiler = inliner(with_child=True)
    with open_channel(compiler.command(tmp_path), flags=compiler.flags) as channel:
        assert channel.observe() is not None


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="no-such-clang cannot be started"):
        host(["no-such-clang"], lambda _: 0, flags=lambda _: ())


def test_advice_that_a_dead_compiler_left_unread_is_not_the_next_ones(tmp_path: Path) -> None:
    """Of two compilers in one command the first dies with its answer unread; the second asks for itself."""
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    dying = shlex.join(inliner(fault=Fault(moment="question", effect="kill")).command(first))
    living = shlex.join(inliner().command(second))
    asked: list[int] = []

    def advise(observation: Observation) -> int:
        asked.append(observation.number)
        return len(asked)

    try:
        host(["sh", "-c", f'{dying} "$0"; {living} "$0"'], advise, flags=inliner().flags)
    except ChannelError as error:  # our answer came so late that the second compiler took it
        assert "out of step" in str(error)  # noqa: PT017
        return
    assert [each.item() for each in inliner().answers(second)] == list(range(2, 17))


def test_a_compiler_that_left_the_group_of_its_command_cannot_hang_us(tmp_path: Path) -> None:
    """The command ends while a process of another session has the pipe open and waits."""
    compiler = shlex.join(inliner(fault=Fault(moment="observation", effect="silence")).command(tmp_path))
    started = time.monotonic()
    with contextlib.suppress(ChannelError):
        host(["sh", "-c", f'setsid {compiler} "$0" & sleep 0.5'], lambda _: 0, flags=inliner().flags)
    assert time.monotonic() - started < 30
    for left in alive_with(os.environ[MARK]):
        os.kill(left, signal.SIGKILL)


def test_descriptors_are_closed(tmp_path: Path) -> None:
    host_fake(inliner(), tmp_path, lambda _: 0)
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for fault in (None, Fault(moment="observation", effect="kill"), Fault(moment="header", effect="silence")):
        with contextlib.suppress(ChannelError):
            host_fake(inliner(fault=fault), tmp_path, lambda _: 0, limits=QUICK)
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_large_advice_is_no_advice_of_llvm(tmp_path: Path) -> None:
    compiler = inliner(advice=TensorSpec(ADVICE.name, "double", (1000,)))
    with pytest.raises(ChannelError, match="takes 8000 bytes"):
        host_fake(compiler, tmp_path, lambda _: 0)
