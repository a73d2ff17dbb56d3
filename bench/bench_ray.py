"""The Ray executor against the local one: two workers each, the same jobs, the same backend.

A sample of the corpus that PYMLGO_CORPORA names (`train`) is swept by each executor, which warms it up and finds the
median module. That module is then compiled many times, by both executors in turn. Time is CPU time of every process
below this one: workers, compilers, and for Ray its daemons too. The exit code is 1 if outcomes differ.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pymlgo.corpus.description import UNSPECIFIED, read_corpus
from pymlgo.policy.shapes import threshold_policy
from pymlgo.rollout import (
    Executor,
    Job,
    LocalExecutor,
    Outcome,
    RayExecutor,
    RolloutResult,
    fastest_backend,
    in_order,
    ray_executor,
)
from pymlgo.rollout.backend import Backend
from pymlgo.rollout.ray_pool import Traffic
from pymlgo.toolchain.llvm import find_llvm

SAMPLE = 80
WORKERS = 2
IDLE_S = 5.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Print the table; 1 when the executors disagree."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a quarter of the rounds")
    rounds, jobs = 4 if parser.parse_args().quick else 16, 40
    corpora = os.environ.get("PYMLGO_CORPORA")
    if not corpora:
        print("PYMLGO_CORPORA names no folder of corpora; nothing to measure")
        return 0
    modules = list(read_corpus(Path(corpora) / "train").modules)
    random.Random(1).shuffle(modules)
    policy, backend = threshold_policy(), fastest_backend(find_llvm(major=22))
    sweep = [Job(module=module, policy=policy, record=True) for module in modules[:SAMPLE]]
    with LocalExecutor(WORKERS) as local, RayExecutor(workers=WORKERS) as ray:
        executors: dict[str, Executor] = {"local": local, "ray": ray}
        known = in_order(local, backend, sweep)
        wrong = differing(known, in_order(ray, backend, sweep))
        swept = dataclasses.replace(ray.traffic)
        median = sorted(range(SAMPLE), key=lambda number: known[number].cpu_s)[SAMPLE // 2]
        cpu_s: Counter[str] = Counter()
        wall_s: Counter[str] = Counter()
        own_s: Counter[str] = Counter()
        for _ in range(rounds):
            for name, executor in executors.items():
                own_s[name] -= time.process_time()
                outcomes, cpu, wall = measured(executor, backend, [sweep[median]] * jobs)
                own_s[name] += time.process_time()
                cpu_s[name] += cpu
                wall_s[name] += wall
                wrong += differing([known[median]] * jobs, outcomes)
        handing = {name: handing_over_ms(executor, backend, sweep[median]) for name, executor in executors.items()}
        with one_job_a_call():
            handing["ray, one job a call"] = handing_over_ms(ray, backend, sweep[median])
        before, _ = spent_s(), time.sleep(IDLE_S)
        idle = (spent_s() - before) / IDLE_S
    count = rounds * jobs
    print(f"{sweep[median].module.name}, the median of {SAMPLE} modules, {count} compiles by {backend.name}:")
    for name in ("local", "ray"):
        cpu, own, wall = (1000 * each[name] / count for each in (cpu_s, own_s, wall_s))
        print(f"  {name:<6}{cpu:7.2f} ms CPU a job, {own:.2f} of it in this process; {wall:.2f} ms wall")
    print(f"  overhead of Ray: {100 * (cpu_s['ray'] / cpu_s['local'] - 1):+.1f} % of CPU time")
    print("jobs that compile nothing:")
    for name, (cpu, own) in handing.items():
        print(f"  {name:<20}{cpu:6.2f} ms CPU a job, {own:.2f} of it in this process")
    print(f"an idle cluster of one machine: {1000 * idle:.0f} ms CPU a second")
    print(f"a sweep of {SAMPLE} modules:", shown(swept))
    print("the median module:    ", shown(difference(ray.traffic, swept)))
    if wrong:
        print(f"{wrong} outcomes differ", file=sys.stderr)
    return wrong > 0


def measured(executor: Executor, backend: Backend, jobs: Sequence[Job]) -> tuple[list[Outcome], float, float]:
    """The outcomes, and the CPU and wall seconds that they took."""
    cpu, wall = spent_s(), time.monotonic()
    outcomes = in_order(executor, backend, jobs)
    return outcomes, spent_s() - cpu, time.monotonic() - wall


def handing_over_ms(executor: Executor, backend: Backend, job: Job, count: int = 1000) -> tuple[float, float]:
    """CPU milliseconds of a job that fails before anything is compiled: of all processes, and of this one."""
    hopeless = dataclasses.replace(job, module=dataclasses.replace(job.module, command=(UNSPECIFIED.encode(),)))
    in_order(executor, backend, [hopeless] * 100)  # until calls have the length that jobs this short get
    own = time.process_time()
    _, cpu, _ = measured(executor, backend, [hopeless] * count)
    return 1000 * cpu / count, 1000 * (time.process_time() - own) / count


@contextmanager
def one_job_a_call() -> Iterator[None]:
    """What a call costs shows where each has one job."""
    before, ray_executor.MOST_JOBS = ray_executor.MOST_JOBS, 1
    try:
        yield
    finally:
        ray_executor.MOST_JOBS = before


def spent_s() -> float:
    """CPU seconds of this process and all below it, those that have ended included."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            parents[int(entry.name)] = int(fields[1])
            seconds[int(entry.name)] = sum(map(int, fields[11:15])) / TICKS_PER_S
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(seconds.get(pid, 0.0) for pid in ours)


def differing(expected: Sequence[Outcome], found: Sequence[Outcome]) -> int:
    """How many outcomes are not the expected ones."""
    return sum(essence(one) != essence(other) for one, other in zip(expected, found, strict=True))


def essence(outcome: Outcome) -> object:
    """What must be equal."""
    if not isinstance(outcome, RolloutResult) or outcome.trajectory is None:
        return outcome.module
    return outcome.sizes, dict(outcome.function_bytes), outcome.trajectory.advice.tobytes()


def difference(after: Traffic, before: Traffic) -> Traffic:
    """What came between."""
    names = [each.name for each in dataclasses.fields(Traffic)]
    return Traffic(**{name: getattr(after, name) - getattr(before, name) for name in names})


def shown(traffic: Traffic) -> str:
    """The traffic of a job."""
    each = traffic.jobs * 1000
    return (
        f"{traffic.jobs / traffic.calls:.1f} jobs a call; a job took {traffic.fetched_bytes / each:.1f} kB from the "
        f"object store, {traffic.order_bytes / each:.1f} kB of orders, {traffic.reply_bytes / each:.1f} kB of replies"
    )


if __name__ == "__main__":
    sys.exit(main())
