"""Answering with what LLVM would have done by itself."""

from __future__ import annotations

from pymlgo.channel import Advise
from pymlgo.errors import ChannelError, ConfigError
from pymlgo.problem.problems import Problem
from pymlgo.training_log.header import Header


def has_default(problem: Problem) -> None:
    """Nothing, where LLVM says what its own heuristic would do.

    Raises:
        ConfigError: it does not for this problem.
    """
    if problem.default_feature is None:
        raise ConfigError(
            f"LLVM does not say what its own decision would be for {problem.name}",
            hint="answer with a policy: --policy DIR",
        )


def default_advice(problem: Problem, header: Header) -> Advise:
    """Echo the compiler's own decision; the object is then the one that it makes without a channel.

    Raises:
        ConfigError: LLVM does not say its own decision for this problem.
        ChannelError: this compiler was started without the option that makes it say so.
    """
    has_default(problem)
    feature = problem.default_feature or ""
    if feature not in {spec.name for spec in header.features}:
        raise ChannelError(
            f"the compiler sends no feature {feature!r}",
            hint="start it with -mllvm -inliner-interactive-include-default",
        )
    return lambda observation: observation.features[feature]
