"""One rollout by each backend: plain clang, the plugin in clang, the pipes, the compile server.

The modules are a sample of the corpus that PYMLGO_CORPORA names (`train`), each compiled in every way in turn, so that
whatever else the machine does hits all alike. The policy is LLVM's own rule at -Oz, so all objects must be equal; the
exit code is 1 if they are not. Time is CPU time: of the compiler (over the pipes, of who answers it too), and, apart,
of this process, which reads sizes and logs. `bench_rollout.py N` takes a sample of N modules.
"""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pymlgo.corpus.description import Module, read_corpus
from pymlgo.corpus.replay import replay_command
from pymlgo.errors import ToolchainError
from pymlgo.policy.shapes import threshold_policy
from pymlgo.rollout import (
    Backend,
    Engine,
    Job,
    PipesBackend,
    PlainBackend,
    PluginBackend,
    RolloutResult,
    Sizes,
    open_engine,
)
from pymlgo.toolchain.advisor import advisor_plugin
from pymlgo.toolchain.engine_program import engine_program
from pymlgo.toolchain.llvm import LLVM, find_llvm

SAMPLE = 40


@dataclass(frozen=True, slots=True)
class Way:
    """One row of the table: `run` gives a module's CPU seconds and sizes; no sizes where none are made."""

    name: str
    run: Callable[[Module], tuple[float, Sizes | None]]
    gives_sizes: bool = True


def main(sample: int) -> int:
    """Print the table; 1 when two ways disagree."""
    corpora = os.environ.get("PYMLGO_CORPORA")
    if not corpora:
        print("PYMLGO_CORPORA names no folder of corpora; nothing to measure")
        return 0
    llvm = find_llvm(major=22)
    engine = engine_program(llvm)
    if engine is None:
        print("the compile server was not built (Debian: libclang-22-dev)")
        return 1
    modules = list(read_corpus(Path(corpora) / "train").modules)
    random.Random(1).shuffle(modules)
    with contextlib.ExitStack() as resources:
        return compared(modules[:sample], all_ways(llvm, engine, resources))


def all_ways(llvm: LLVM, engine: Path, resources: contextlib.ExitStack) -> list[Way]:
    """The rows, plain clang first; what they start ends with `resources`."""
    plugin, policy = advisor_plugin(llvm), threshold_policy()

    def job(
        backend: Backend, *, advised: bool = True, record: bool = False
    ) -> Callable[[Module], tuple[float, Sizes | None]]:
        def run(module: Module) -> tuple[float, Sizes | None]:
            asked = Job(module=module, policy=policy if advised else None, record=record, names=record)
            outcome = backend.run(asked)
            return outcome.cpu_s, outcome.sizes if isinstance(outcome, RolloutResult) else None

        return run

    forked, unforked = (PluginBackend(llvm=llvm, plugin=plugin, engine=engine, fork=fork) for fork in (True, False))
    resources.callback(forked.close)
    resources.callback(unforked.close)
    bare, optimizer = (resources.enter_context(open_engine(engine, None)) for _ in range(2))
    return [
        Way("plain clang", job(PlainBackend(llvm=llvm), advised=False)),
        Way("plugin in clang, a policy", job(PluginBackend(llvm=llvm, plugin=plugin))),
        Way("pipes, a policy", job(PipesBackend(llvm=llvm))),
        Way("server, forked, a policy", job(forked)),
        Way("server, forked, recorded", job(forked, record=True)),
        Way("server, unforked, a policy", job(unforked)),
        Way("server, unforked, recorded", job(unforked, record=True)),
        Way("server, unforked, no plugin", without_object(bare), False),
        Way("  of it, the optimizer", without_object(optimizer, b"-emit-llvm-only"), False),
    ]


def without_object(server: Engine, action: bytes = b"-emit-obj") -> Callable[[Module], tuple[float, Sizes | None]]:
    """Compiles to nowhere by the bare server; `action` replaces cc1's `-emit-obj`."""

    def run(module: Module) -> tuple[float, Sizes | None]:
        command = replay_command(module, "clang", Path(os.devnull), embed=False)[2:]
        arguments = [action if word == b"-emit-obj" else word for word in command]
        done = server.compile(arguments, limit_s=600, fork=False)
        if done.returncode:
            raise ToolchainError(f"{module.name} does not compile: {done.stderr.decode(errors='replace')}")
        return done.cpu_s, None

    return run


def compared(modules: list[Module], ways: list[Way]) -> int:
    """Run every way on every module, print what it took, and say whether all sizes were equal."""
    cpu_s: dict[str, list[float]] = {way.name: [] for way in ways}
    here_s = dict.fromkeys(cpu_s, 0.0)
    wrong = 0
    for way in ways:
        way.run(modules[0])  # servers start, and the policy is compiled
    for module in modules:
        sizes: set[Sizes | None] = set()
        for way in ways:
            start = time.process_time()
            seconds, found = way.run(module)
            here_s[way.name] += time.process_time() - start
            cpu_s[way.name].append(seconds)
            sizes |= {found} if way.gives_sizes else set()
        wrong += len(sizes) != 1 or None in sizes
    plain = cpu_s[ways[0].name]
    print(
        f"{len(modules)} modules, load {os.getloadavg()[0]:.1f}; x: times plain clang, in all and for the median module"
    )
    print(f"{'':<28}{'ms a module':>12}{'x':>8}{'x, median':>11}{'ms in Python':>14}")
    for way in ways:
        spent, here = (1000 * seconds / len(modules) for seconds in (sum(cpu_s[way.name]), here_s[way.name]))
        median = statistics.median(mine / theirs for mine, theirs in zip(cpu_s[way.name], plain, strict=True))
        print(f"{way.name:<28}{spent:12.1f}{sum(cpu_s[way.name]) / sum(plain):8.2f}{median:11.2f}{here:14.1f}")
    if wrong:
        print(f"{wrong} modules failed, or gave objects of different sizes", file=sys.stderr)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE))
