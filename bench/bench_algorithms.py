"""The training algorithms side by side: equal compiles, equal projects held out, several seeds.

The modules are those of the corpus that PYMLGO_CORPORA names (`train`), at most 12 of a project and no large ones. A
seed holds the same projects out for every algorithm; what is reported is measured on them. "Reached" is the first
policy of a run that shrinks them so far: compiles and CPU seconds until it had been judged, fits, workers and compiled
policies included. `--from never` starts all of them from a policy that never inlines.

The exit code is 1 if a run compiled more than it was given, failed compiles, or ended with a policy that is worse than
what it started from. It does not judge which algorithm is better.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pymlgo.corpus.description import Description, Module, read_corpus, write_description
from pymlgo.corpus.names import project_of
from pymlgo.policy.shapes import INLINING_ADVICE, constant_policy
from pymlgo.rollout import LocalExecutor, fastest_backend
from pymlgo.toolchain.llvm import find_llvm
from pymlgo.train import TrainRequest, TrainResult, train
from pymlgo.train.algorithms import OPTIONS

MOST_OF_A_PROJECT = 12
LARGEST_BITCODE_BYTES = 30_000
TARGETS = (-0.5, -1.0)
STARTS = {"never": 0, "always": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run: its result, and CPU seconds of everything that it started for each that its compiles took."""

    algorithm: str
    seed: int
    result: TrainResult
    cpu_s: float


def main() -> int:
    """Print a line for each run, then a table; 1 when a run is wrong."""
    arguments = parsed()
    corpora = os.environ.get("PYMLGO_CORPORA")
    if not corpora:
        print("PYMLGO_CORPORA names no folder of corpora; nothing to measure")
        return 0
    algorithms = arguments.algorithms or list(OPTIONS)
    compiles, seeds = (150, 1) if arguments.quick else (arguments.compiles, arguments.seeds)
    with tempfile.TemporaryDirectory() as scratch:
        corpus = sampled_corpus(Path(corpora) / "train", Path(scratch) / "corpus")
        runs = [
            run(name, seed, corpus, compiles, arguments.start, Path(scratch))
            for seed in range(1, seeds + 1)
            for name in algorithms
        ]
    print_table(runs, algorithms)
    wrong = [complaint for each in runs for complaint in complaints(each, compiles)]
    for complaint in wrong:
        print(complaint, file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps([curve(each) for each in runs], indent=1))
    return bool(wrong)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiles", type=int, default=600, help="of each run (600)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each algorithm (3)")
    parser.add_argument("--from", dest="start", choices=sorted(STARTS), help="a bad start (default: LLVM's default)")
    parser.add_argument("--algorithms", nargs="+", choices=sorted(OPTIONS), help="only these")
    parser.add_argument("--quick", action="store_true", help="150 compiles, one seed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the learning curves")
    return parser.parse_args()


def sampled_corpus(source: Path, root: Path) -> Path:
    """Some of the modules of `source`, as links in a corpus of their own."""
    modules = [each for each in read_corpus(source).modules if each.size_bytes <= LARGEST_BITCODE_BYTES]
    random.Random(1).shuffle(modules)
    taken: Counter[str] = Counter()
    chosen: list[Module] = []
    for module in modules:
        taken[project_of(module.name)] += 1
        if taken[project_of(module.name)] <= MOST_OF_A_PROJECT:
            chosen.append(module)
    for module in chosen:
        for suffix in (".bc", ".cmd"):
            link = root / f"{module.name}{suffix}"
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(source / f"{module.name}{suffix}")
    write_description(root, Description(modules=tuple(each.name for each in chosen)))
    return root


def run(name: str, seed: int, corpus: Path, compiles: int, start: str | None, scratch: Path) -> Run:
    """One run of one algorithm with its own defaults."""
    llvm = find_llvm(major=22)
    request = TrainRequest(
        corpora=(corpus,),
        options=OPTIONS[name](),
        seed=seed,
        max_compiles=compiles,
        start=constant_policy("inlining", INLINING_ADVICE, STARTS[start]) if start else None,
    )
    before = cpu_s()
    with LocalExecutor() as executor:
        result = train(
            request,
            scratch / "policy",
            llvm=llvm,
            executor=executor,
            workers=executor.workers,
            runs=scratch / "runs",
            backend=fastest_backend(llvm),
        )
    done = Run(algorithm=name, seed=seed, result=result, cpu_s=cpu_s() - before)
    points = ", ".join(f"{each.compiles}: {each.text_change_percent:+.2f}" for each in result.candidates)
    print(f"{name:<16} seed {seed}  {done.cpu_s:5.0f} CPU s  .text % after compiles  {points}", flush=True)
    return done


def cpu_s() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def reached(each: Run, target: float) -> tuple[int, float] | None:
    """Compiles and CPU seconds until a policy at most at `target` had been judged."""
    # CPU seconds within a run are known for compiles only; what else it costs is taken to be spread evenly.
    whole = each.cpu_s / each.result.cpu_s
    hits = [point for point in each.result.candidates if point.text_change_percent <= target]
    return (hits[0].compiles, hits[0].cpu_s * whole) if hits else None


def print_table(runs: list[Run], algorithms: list[str]) -> None:
    print(f"\n{'':<17}{'.text % (range)':>24}{'compiles':>10}{'CPU s':>8}", end="")
    print("".join(f"{f'to {target} %':>26}" for target in TARGETS))
    for name in algorithms:
        mine = [each for each in runs if each.algorithm == name]
        changes = [each.result.text_change_percent for each in mine]
        line = f"{statistics.mean(changes):+.2f} ({min(changes):+.2f} … {max(changes):+.2f})"
        compiles = statistics.mean(each.result.compiles for each in mine)
        print(f"{name:<17}{line:>24}{compiles:>10.0f}{statistics.mean(each.cpu_s for each in mine):>8.0f}", end="")
        print("".join(f"{shown(mine, target):>26}" for target in TARGETS))


def shown(runs: list[Run], target: float) -> str:
    """Median cost of the runs that reached `target`, and how many did."""
    hits = [hit for each in runs if (hit := reached(each, target)) is not None]
    if not hits:
        return "not reached"
    compiles, seconds = (statistics.median(column) for column in zip(*hits, strict=True))
    return f"{compiles:.0f}, {seconds:.0f} s ({len(hits)}/{len(runs)})"


def complaints(each: Run, compiles: int) -> list[str]:
    """What is wrong with a run."""
    result, who = each.result, f"{each.algorithm}, seed {each.seed}"
    found = []
    # One judgement of a start that was named is not in the plan.
    if result.compiles > compiles + result.validation_modules:
        found.append(f"{who}: {result.compiles} compiles instead of {compiles}")
    if result.failures:
        found.append(f"{who}: compiles failed: {dict(result.failures)}")
    starts = [point.text_change_percent for point in result.candidates if point.details.get("start")]
    if result.text_change_percent > sum(starts):  # one start or none
        found.append(f"{who}: ended at {result.text_change_percent:+.2f} %, worse than its start")
    return found


def curve(each: Run) -> dict[str, object]:
    """The learning curve, as JSON."""
    points = [(point.compiles, point.cpu_s, point.text_change_percent) for point in each.result.candidates]
    return {"algorithm": each.algorithm, "seed": each.seed, "cpu_s": each.cpu_s, "points": points}


if __name__ == "__main__":
    sys.exit(main())
