"""Measure a policy against LLVM's default, by compiling every module of a corpus both ways."""

from __future__ import annotations

from collections.abc import Sequence

from pymlgo.corpus.description import Corpus, Module
from pymlgo.errors import CorpusError
from pymlgo.evaluate.evaluation import Evaluation, sum_up
from pymlgo.policy.directory import Policy
from pymlgo.progress import progress
from pymlgo.rollout.backend import Backend
from pymlgo.rollout.baseline import BaselineCache, measure_baselines
from pymlgo.rollout.executor import Executor
from pymlgo.rollout.job import Job, Outcome, RolloutFailure
from pymlgo.toolchain.llvm import LLVM


def evaluate(
    policy: Policy | None,
    corpus: Corpus,
    *,
    name: str,
    llvm: LLVM,
    backend: Backend,
    executor: Executor,
    cache: BaselineCache | None = None,
) -> Evaluation:
    """The evaluation of `policy` on every module of `corpus`.

    Args:
        policy: None asks the backend's questions and echoes LLVM's default, which must change nothing.
        corpus: modules that cannot be read count as failed.
        name: how the result calls the policy.
        llvm: the compiler of the default objects; the backend's own.
        backend: who compiles with the policy.
        executor: where.
        cache: known sizes of default objects; None compiles them all in this run.

    Raises:
        CorpusError: the corpus names no module.
        PolicyError: the policy does not fit what the compiler asks.
    """
    if not corpus.modules and not corpus.unusable:
        raise CorpusError(f"{corpus.root} has no modules", hint="`mlgo corpus describe` shows what a corpus holds")
    modules = largest_first(corpus.modules)
    defaults: list[Outcome] = [_unmeasured(module) for module in modules]
    given: list[Outcome] = list(defaults)
    with progress("evaluating", 2 * len(modules)) as (advance, note):
        # The policy first: one that does not fit the compiler is told at once.
        for number, outcome in executor.run(backend, [Job(module=module, policy=policy) for module in modules]):
            given[number] = outcome
            note(outcome.module)
            advance(1)
        for number, outcome in measure_baselines(modules, llvm, executor, cache=cache):
            defaults[number] = outcome
            note(outcome.module)
            advance(1)
    unusable = [
        RolloutFailure(module=each.name, backend="none", reason="unusable", detail=each.reason, cpu_s=0.0)
        for each in corpus.unusable
    ]
    return sum_up(
        [*defaults, *unusable],
        [*given, *unusable],
        policy=name,
        compiler=f"{llvm.clang} {llvm.version_text}",
        backend=backend.name,
    )


def largest_first(modules: Sequence[Module]) -> list[Module]:
    """The modules by size, largest first: a pool that ends with small ones leaves no core idle."""
    return sorted(modules, key=lambda each: (-each.size_bytes, each.name))


def _unmeasured(module: Module) -> Outcome:
    return RolloutFailure(module=module.name, backend="none", reason="not measured", detail="", cpu_s=0.0)
