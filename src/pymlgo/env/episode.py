"""One compile as an episode: the compiler asks, somebody answers, and what it made is judged at the end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from pymlgo.channel import Limits, Observation, open_channel
from pymlgo.corpus.description import Module
from pymlgo.corpus.replay import replay_command
from pymlgo.env.cost import Cost, Measure
from pymlgo.errors import ChannelError, CorpusError
from pymlgo.problem import Problem
from pymlgo.rollout.backend import JOB_LIMIT_S, failure_reason, scratch_folder
from pymlgo.toolchain.flags import mllvm
from pymlgo.toolchain.llvm import LLVM
from pymlgo.toolchain.process import run
from pymlgo.training_log.header import Header

LARGEST_GROWTH = 16
"""How many times its size a module may reach before LLVM inlines no more.

The default of 2 is in reach of LLVM's own heuristic, which knows no stop; without any, a random agent can make a
compile endless.

Source: SizeIncreaseThreshold (MLInlineAdvisor.cpp, LLVM 22).
"""


class Episode:
    """A running compile; `close` ends it wherever it is.

    Attributes:
        module: what is compiled.
        observation: the decision that waits for an answer, a view; None once the compiler has finished.
    """

    def __init__(self, module: Module, problem: Problem, llvm: LLVM, limits: Limits) -> None:
        self.module = module
        self.observation: Observation | None = None
        self._open = ExitStack()
        try:
            self._start(problem, llvm, limits)
        except BaseException:
            self.close()
            raise

    def _start(self, problem: Problem, llvm: LLVM, limits: Limits) -> None:
        folder = self._open.enter_context(scratch_folder())
        self._measure = Measure(problem.name, folder)
        self._channel = self._open.enter_context(
            open_channel(
                measured_command(self.module, llvm, self._measure),
                flags=lambda base: (*problem.channel_flags(llvm, base), *_growth_flags(problem)),
                correct=problem.correction(llvm),
                check_advice=problem.check_advice,
                limits=limits,
                core=None,  # the thread is the agent's, and may be a network's as well
            )
        )
        self.observation = self._channel.observe()

    @property
    def header(self) -> Header | None:
        """The compiler's; None if it asks nothing in this module."""
        return self._channel.header

    @property
    def decisions(self) -> int:
        """How many were answered."""
        return self._channel.decisions

    def answer(self, advice: object) -> None:
        """Answer, and go on to the next decision or the end.

        Raises:
            ChannelError: the compiler died or passed a limit.
        """
        self._channel.answer(advice)
        self.observation = self._channel.observe()

    def cost(self) -> Cost:
        """What the compile gave, once there is no observation any more.

        Raises:
            ChannelError: the compiler failed.
            ObjectError: it wrote no object.
        """
        done = self._channel.finish()
        if done.returncode:
            raise ChannelError(": ".join(failure_reason(done.returncode, done.stderr)))
        return self._measure.cost()

    def close(self) -> None:
        """End the compiler and everything of it; may be called again."""
        self.observation = None
        self._open.close()


def default_cost(module: Module, problem: Problem, llvm: LLVM) -> Cost:
    """What LLVM's own decisions cost.

    Raises:
        CorpusError: the module does not compile.
        ObjectError: there is no object.
        ToolchainError: the compiler cannot be started, or does not finish.
    """
    with scratch_folder() as folder:
        measure = Measure(problem.name, folder)
        done = run(measured_command(module, llvm, measure), limit_s=JOB_LIMIT_S)
        if done.returncode:
            raise CorpusError(": ".join(failure_reason(done.returncode, done.stderr)))
        return measure.cost()


def measured_command(module: Module, llvm: LLVM, measure: Measure) -> Sequence[bytes | str | Path]:
    """The compile of a module in the form that `measure` can judge."""
    command = replay_command(module, llvm.clang, measure.object_file, embed=False)
    return [*command, *measure.flags(command)]


def _growth_flags(problem: Problem) -> tuple[str, ...]:
    if problem.name != "inlining":
        return ()
    return mllvm([f"-ml-advisor-size-increase-threshold={LARGEST_GROWTH}"])
