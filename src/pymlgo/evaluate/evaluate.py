"""Measure a policy against LLVM's default, by compiling every module of a corpus both ways and linking its programs."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pymlgo.corpus.description import Corpus, Module
from pymlgo.corpus.names import project_of
from pymlgo.errors import CorpusError, MLGOError
from pymlgo.evaluate.evaluation import Evaluation
from pymlgo.evaluate.language import language_of
from pymlgo.evaluate.linking import LINKER, LinkedPrograms, TwoObjects
from pymlgo.evaluate.summing import sum_up
from pymlgo.policy.directory import Policy
from pymlgo.progress import Advance, progress
from pymlgo.rollout import Job, Outcome, PlainBackend, RolloutResult, failures_of_unusable
from pymlgo.rollout.backend import Backend
from pymlgo.rollout.baseline import BaselineCache, measure_baselines
from pymlgo.rollout.executor import Executor
from pymlgo.toolchain.llvm import LLVM

BATCH_MODULES = 64
"""Programs are compiled together until they have so many modules, so that small ones keep every core busy."""


def evaluate(
    policy: Policy | None,
    corpus: Corpus,
    *,
    name: str,
    llvm: LLVM,
    backend: Backend,
    executor: Executor,
    cache: BaselineCache | None = None,
    linked: bool = True,
) -> Evaluation:
    """The evaluation of `policy` on every module of `corpus`.

    Args:
        policy: None asks the backend's questions and echoes LLVM's default, which must change nothing.
        corpus: modules that cannot be read count as failed.
        name: how the result calls the policy.
        llvm: the compiler of the default objects; the backend's own.
        backend: who compiles with the policy.
        executor: where.
        cache: known sizes of default objects, which are then not compiled, nor linked; None compiles them all.
        linked: link each program with this LLVM's lld, both ways.

    Raises:
        CorpusError: the corpus names no module.
        PolicyError: the policy does not fit what the compiler asks.
        MLGOError: objects cannot be kept until their program is linked.
    """
    if not corpus.modules and not corpus.unusable:
        raise CorpusError(f"{corpus.root} has no modules", hint="`mlgo corpus describe` shows what a corpus holds")
    links = LinkedPrograms(linker=llvm.tool(LINKER)) if linked and cache is None else None
    compiles = _Compiles(policy=policy, llvm=llvm, backend=backend, executor=executor, cache=cache)
    with progress("evaluating", 2 * len(corpus.modules)) as (advance, note):
        for programs in batches(corpus.modules):
            note(", ".join(programs))
            modules = largest_first([each for members in programs.values() for each in members])
            if links is None:
                compiles.run(modules, None, advance)
                continue
            with tempfile.TemporaryDirectory(prefix="mlgo-eval-", ignore_cleanup_errors=True) as folder:
                objects = compiles.run(modules, Path(folder), advance)
                for program, members in programs.items():
                    links.add(program, [objects[each.name] for each in members if each.name in objects], Path(folder))
    unusable = failures_of_unusable(corpus.unusable)
    return sum_up(
        [*compiles.defaults, *unusable],
        [*compiles.given, *unusable],
        policy=name,
        compiler=f"{llvm.clang} {llvm.version_text}",
        backend=backend.name,
        languages={each.name: language_of(each) for each in corpus.modules},
        linked=links.summed() if links else None,
    )


def batches(modules: Sequence[Module]) -> list[dict[str, list[Module]]]:
    """Whole programs with their modules, the largest program first, in groups of about `BATCH_MODULES` modules."""
    programs: dict[str, list[Module]] = {}
    for module in modules:
        programs.setdefault(project_of(module.name), []).append(module)
    made: list[dict[str, list[Module]]] = []
    room = 0
    for name in sorted(programs, key=lambda each: (-sum(module.size_bytes for module in programs[each]), each)):
        if room <= 0:
            made.append({})
            room = BATCH_MODULES
        made[-1][name] = programs[name]
        room -= len(programs[name])
    return made


def largest_first(modules: Sequence[Module]) -> list[Module]:
    """The modules by size, largest first: a pool that ends with small ones leaves no core idle."""
    return sorted(modules, key=lambda each: (-each.size_bytes, each.name))


@dataclass(slots=True, kw_only=True)
class _Compiles:
    """Compiles modules both ways; `defaults` and `given` are parallel."""

    policy: Policy | None
    llvm: LLVM
    backend: Backend
    executor: Executor
    cache: BaselineCache | None
    defaults: list[Outcome] = field(default_factory=list)
    given: list[Outcome] = field(default_factory=list)

    def run(self, modules: Sequence[Module], folder: Path | None, advance: Advance) -> dict[str, TwoObjects]:
        """Compile `modules`; if there is a folder for objects, those of modules that compiled both ways, by name."""
        # The policy first: one that does not fit the compiler is told at once.
        jobs = [Job(module=module, policy=self.policy, keep_object=folder is not None) for module in modules]
        given = _collect(self.executor.run(self.backend, jobs), folder, "given", advance)
        defaults = _collect(self._defaults(modules, keep=folder is not None), folder, "default", advance)
        self.given += (outcome for outcome, _ in given)
        self.defaults += (outcome for outcome, _ in defaults)
        return {
            outcome.module: TwoObjects(default=default, given=advised)
            for (outcome, default), (_, advised) in zip(defaults, given, strict=True)
            if default is not None and advised is not None
        }

    def _defaults(self, modules: Sequence[Module], *, keep: bool) -> Iterator[tuple[int, Outcome]]:
        if self.cache is not None:
            return measure_baselines(modules, self.llvm, self.executor, cache=self.cache)
        jobs = [Job(module=module, keep_object=keep) for module in modules]
        return self.executor.run(PlainBackend(llvm=self.llvm), jobs)


def _collect(
    outcomes: Iterator[tuple[int, Outcome]], folder: Path | None, side: str, advance: Advance
) -> list[tuple[Outcome, Path | None]]:
    """The outcomes in the order of their jobs, each with the file that its object was moved to."""
    found: dict[int, tuple[Outcome, Path | None]] = {}
    for number, outcome in outcomes:
        file = None
        if folder is not None and isinstance(outcome, RolloutResult) and outcome.object_bytes is not None:
            file = folder / f"{number}.{side}.o"
            _write(file, outcome.object_bytes)
            outcome = dataclasses.replace(outcome, object_bytes=None)
        found[number] = (outcome, file)
        advance(1)
    return [found[number] for number in range(len(found))]


def _write(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        raise MLGOError(
            f"{file}: an object cannot be kept until its program is linked: {error.strerror}",
            hint="make room, name another folder with TMPDIR, or do without linked sizes (--no-linked)",
        ) from error
