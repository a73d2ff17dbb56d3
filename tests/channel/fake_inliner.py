"""A small inliner for tests: two features, two contexts, and a host for it with short limits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pymlgo.channel import Advise, HostResult, Limits, host
from pymlgo.channel.owned import ChannelOptions
from pymlgo.tensor_spec import TensorSpec
from pymlgo.testing import FakeCompiler, FakeContext

FEATURES = (TensorSpec("users", "int64_t", (1,)), TensorSpec("weights", "float", (1, 3)))
ADVICE = TensorSpec("inlining_decision", "int64_t", (1,))
PATIENT = Limits(decision_s=60.0, compile_s=120.0)
"""For what goes well: a loaded machine may take seconds to start a program."""


def context(name: str, count: int) -> FakeContext:
    return FakeContext(
        name=name, observations=[{"users": 10 * number, "weights": [number, 0.5, -1]} for number in range(count)]
    )


def inliner(**settings: object) -> FakeCompiler:
    """Three decisions in "first", none in "empty", twelve in "second", unless told otherwise."""
    contexts: Sequence[FakeContext] = (context("first", 3), context("empty", 0), context("second", 12))
    return FakeCompiler(**{"features": FEATURES, "advice": ADVICE, "contexts": contexts, **settings})  # type: ignore[arg-type]


def host_fake(compiler: FakeCompiler, folder: Path, advise: Advise, **options: object) -> HostResult:
    settings: ChannelOptions = {"limits": PATIENT, **options}  # type: ignore[typeddict-item]
    return host(compiler.command(folder), advise, flags=compiler.flags, **settings)
