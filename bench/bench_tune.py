"""How much smaller `mlgo tune` makes modules, at how many compiles: LLVM's own decisions are the peer.

    bench/bench_tune.py [--corpus NAME] [--modules N] [--max-compiles N] [--from POLICY]

The modules are a sample of one of the corpora that PYMLGO_CORPORA names (default: 8 of `train`, at most 20 compiles of
each). What was found is checked with stock clang and the plugin: with the one file of overrides every object must have
the size that the search said, and none may be larger (.text) than LLVM's default makes it; else the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pymlgo.corpus.description import Module, read_corpus
from pymlgo.policy.directory import load_policy
from pymlgo.policy.shipped import find_policy
from pymlgo.rollout import (
    Job,
    LocalExecutor,
    Overrides,
    PlainBackend,
    PluginBackend,
    RolloutResult,
    Trajectory,
    fastest_backend,
    in_order,
)
from pymlgo.toolchain.advisor import advisor_plugin
from pymlgo.toolchain.llvm import LLVM, find_llvm
from pymlgo.train.tune import tune
from pymlgo.train.tune_result import TuneResult

LEAST_BYTES, MOST_BYTES = 6_000, 400_000
"""Of a module's bitcode: smaller ones have no calls, larger ones take the time of many."""


def main() -> int:
    """Print what the search gave; 1 when it is not so."""
    corpora = os.environ.get("PYMLGO_CORPORA")
    if not corpora:
        print("PYMLGO_CORPORA names no folder of corpora; nothing to measure")
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", default="train")
    parser.add_argument("--modules", type=int, default=8)
    parser.add_argument("--max-compiles", type=int, default=20)
    parser.add_argument("--from", dest="start", type=find_policy)
    arguments = parser.parse_args()
    llvm = find_llvm(major=22)
    modules = sample(read_corpus(Path(corpora, arguments.corpus)).modules, arguments.modules)
    with tempfile.TemporaryDirectory() as folder, LocalExecutor() as executor:
        overrides = Path(folder, "overrides")
        result = tune(
            modules,
            overrides,
            backend=fastest_backend(llvm),
            executor=executor,
            max_compiles=arguments.max_compiles,
            seed=1,
            start=load_policy(arguments.start) if arguments.start else None,
        )
        print(
            f"{len(result.modules)} modules of {arguments.corpus}, {result.compiles / len(modules):.0f} compiles and "
            f"{result.cpu_s / len(modules):.1f} CPU seconds a module, from {arguments.start or 'LLVM default'}: "
            f".text {result.text_change_percent:+.2f} %, Berkeley {result.berkeley_change_percent:+.2f} %; "
            f"{result.tuned_change_percent:+.2f} % with a file for each module"
        )
        wrong = mistakes(result, modules, overrides, llvm, executor)
    for line in wrong:
        print(line, file=sys.stderr)
    return bool(wrong)


def sample(modules: Sequence[Module], count: int) -> list[Module]:
    """The same modules each time."""
    fitting = [each for each in modules if LEAST_BYTES < each.size_bytes < MOST_BYTES]
    random.Random(1).shuffle(fitting)
    return fitting[:count]


def mistakes(
    result: TuneResult, modules: Sequence[Module], file: Path, llvm: LLVM, executor: LocalExecutor
) -> list[str]:
    """Where stock clang does not give what the search said."""
    lines = [line.split() for line in file.read_text().splitlines()]
    advice = {int(key, 16): int(given) for key, given in lines}
    nothing = Trajectory(
        specs=(), features={}, advice=np.zeros(0, np.int64), default=None, overridden=np.zeros(0, np.bool_)
    )
    overrides = Overrides(advice=advice, recorded=nothing)  # the plugin knows the decisions by their keys alone
    plugin = PluginBackend(llvm=llvm, plugin=advisor_plugin(llvm))
    tuned = in_order(executor, plugin, [Job(module=each, overrides=overrides) for each in modules])
    plain = in_order(executor, PlainBackend(llvm=llvm), [Job(module=each) for each in modules])
    said = {each.name: each.merged_text_bytes for each in result.modules}
    wrong = []
    for before, after in zip(plain, tuned, strict=True):
        if not isinstance(before, RolloutResult) or not isinstance(after, RolloutResult):
            wrong.append(f"{before.module}: does not compile")
        elif not said[after.module] == after.sizes.text_bytes <= before.sizes.text_bytes:
            wrong.append(
                f"{after.module}: {after.sizes.text_bytes} bytes, the search said {said[after.module]}, "
                f"the default is {before.sizes.text_bytes}"
            )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
