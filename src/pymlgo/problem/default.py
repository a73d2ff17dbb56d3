"""Answering with what LLVM would have done by itself."""

from __future__ import annotations

from pathlib import Path

from pymlgo.channel import Advise
from pymlgo.errors import ChannelError, ConfigError
from pymlgo.problem.problems import Problem
from pymlgo.toolchain.flags import mllvm
from pymlgo.toolchain.llvm import LLVM
from pymlgo.training_log.header import Header

NO_STOP = 1e9
"""A growth that no module reaches. LLVM's default is 2 (SizeIncreaseThreshold in MLInlineAdvisor.cpp, LLVM 22)."""


def require_default(problem: Problem) -> None:
    """Nothing, where LLVM says what its own heuristic would do.

    Raises:
        ConfigError: it does not for this problem.
    """
    if problem.default_feature is None:
        raise ConfigError(
            f"LLVM does not say what its own decision would be for {problem.name}",
            hint="answer with a policy: --policy DIR",
        )


def default_flags(problem: Problem, llvm: LLVM, base: Path) -> tuple[str, ...]:
    """The channel's flags under which echoing gives exactly the object that the same clang makes without a channel.

    An ML inliner stops by itself once the module has grown to twice its size; LLVM's own inliner knows no such stop.
    """
    return (*problem.channel_flags(llvm, base), *mllvm([f"-ml-advisor-size-increase-threshold={NO_STOP}"]))


def default_advice(problem: Problem, header: Header) -> Advise:
    """Echo the compiler's own decision; with `default_flags` the object is the one that it makes without a channel.

    Raises:
        ConfigError: LLVM does not say its own decision for this problem.
        ChannelError: this compiler was started without the option that makes it say so.
    """
    require_default(problem)
    feature = problem.default_feature or ""
    if feature not in {spec.name for spec in header.features}:
        raise ChannelError(
            f"the compiler sends no feature {feature!r}",
            hint="start it with -mllvm -inliner-interactive-include-default",
        )
    return lambda observation: observation.features[feature]
