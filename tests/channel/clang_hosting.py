"""Hosting a real clang in tests: sources, commands and legal answers for each problem."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pymlgo.channel import Advise, HostResult, Observation, host
from pymlgo.problem import EVICTION, INLINING, PRIORITY, Problem
from pymlgo.toolchain.llvm import LLVM

from c_sources import CALLS, PRESSURE  # isort: skip

PROBLEMS = (INLINING, EVICTION, PRIORITY)
SOURCES = {"inlining": CALLS, "eviction": PRESSURE, "priority": PRESSURE}


def compile_command(
    llvm: LLVM, folder: Path, problem: Problem, *, output: str = "out.o", level: str = "-O2"
) -> list[str]:
    """A compile of the problem's source into `folder/output`."""
    source = folder / f"{problem.name}.c"
    source.write_text(SOURCES[problem.name])
    return [str(llvm.clang), level, "-w", "-c", str(source), "-o", str(folder / output)]


def host_clang(llvm: LLVM, problem: Problem, command: list[str], advise: Advise, **options: object) -> HostResult:
    settings = {"check_advice": problem.check_advice, **options}
    return host(command, advise, flags=lambda base: problem.channel_flags(llvm, base), **settings)  # type: ignore[arg-type]


def seeded_advice(problem: Problem, seed: int) -> Advise:
    """Legal advice at random: another compile under the same seed gets the same."""
    generator = np.random.default_rng(seed)

    def advise(observation: Observation) -> object:
        features = observation.features
        if problem is INLINING:
            return generator.integers(2)
        if problem is EVICTION:
            return generator.choice(features["mask"].reshape(-1).nonzero()[0])
        return float(generator.integers(1000))

    return advise
