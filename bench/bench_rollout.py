"""One rollout by each backend: plain clang, the plugin in clang, the pipes, the compile server.

The modules are a sample of the corpus that PYMLGO_CORPORA names (`train`), each compiled by every backend in turn, so
that whatever else the machine does hits all alike. The policy is LLVM's own rule at -Oz, so all objects must be equal;
the exit code is 1 if they are not. Time is CPU time of the compiler and of what serves it.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from pymlgo.corpus.description import Module, read_corpus
from pymlgo.corpus.replay import replay_command
from pymlgo.policy.shapes import threshold_policy
from pymlgo.rollout import Backend, Job, PipesBackend, PlainBackend, PluginBackend, RolloutResult, open_engine
from pymlgo.toolchain.advisor import advisor_plugin
from pymlgo.toolchain.engine_program import engine_program
from pymlgo.toolchain.llvm import find_llvm

SAMPLE = 60
ROUNDS = 2


def main() -> int:
    """Print the table; 1 when two backends disagree."""
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
    plugin, policy = advisor_plugin(llvm), threshold_policy()
    jobs: list[tuple[str, Backend, bool]] = [
        ("plain clang", PlainBackend(llvm=llvm), False),
        ("plugin in clang, a policy", PluginBackend(llvm=llvm, plugin=plugin), True),
        ("pipes, a policy", PipesBackend(llvm=llvm), True),
        ("server, forked, a policy", PluginBackend(llvm=llvm, plugin=plugin, engine=engine), True),
    ]
    cpu_s: Counter[str] = Counter()
    wrong = 0
    for _ in range(ROUNDS):
        for module in modules[:SAMPLE]:
            sizes = set()
            for name, backend, advised in jobs:
                outcome = backend.run(Job(module=module, policy=policy if advised else None))
                cpu_s[name] += outcome.cpu_s
                sizes.add(outcome.sizes if isinstance(outcome, RolloutResult) else None)
            wrong += len(sizes) != 1
    with open_engine(engine, None) as server, tempfile.TemporaryDirectory() as folder:
        for fork in (True, False):
            name = "server, forked, default" if fork else "server, unforked, default"
            for module in modules[:SAMPLE] * ROUNDS:
                cpu_s[name] += server.compile(arguments_of(module, folder), limit_s=600, fork=fork).cpu_s
    plain = cpu_s["plain clang"]
    for name, seconds in cpu_s.items():
        print(f"{name:<28}{1000 * seconds / ROUNDS / SAMPLE:8.1f} ms a module {seconds / plain:6.2f}x plain clang")
    if wrong:
        print(f"{wrong} compiles gave objects of different sizes", file=sys.stderr)
    return wrong > 0


def arguments_of(module: Module, folder: str) -> list[bytes | str]:
    """What the server is asked for the module's object."""
    return replay_command(module, "clang", Path(folder, "x.o"), embed=False)[2:]


if __name__ == "__main__":
    sys.exit(main())
