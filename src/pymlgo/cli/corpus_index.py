"""`mlgo corpus index`: how many decisions each module has, and what LLVM's default makes of it."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pymlgo.cli.corpus import say
from pymlgo.cli.json_output import print_json

if TYPE_CHECKING:
    from pymlgo.corpus import Module
    from pymlgo.rollout import Outcome, RolloutResult
    from pymlgo.toolchain.llvm import LLVM

INDEX_FILE = "index.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """One line of `index.jsonl`.

    Attributes:
        module: its name.
        bc_bytes: of bitcode.
        decisions: how often the compiler asks about it.
        default_inlined: how often LLVM's default says yes (the inlining problem only).
        text: bytes of all executable sections of the default object.
        berkeley_text: what `llvm-size` calls text.
        cpu_s: CPU seconds of the compile, the asking included.
    """

    module: str
    bc_bytes: int
    decisions: int
    default_inlined: int
    text: int
    berkeley_text: int
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexResult:
    """What indexing found; `failed` counts modules that did not compile, by reason."""

    index: Path
    modules: int
    without_decisions: int
    decisions: int
    text_bytes: int
    berkeley_bytes: int
    cpu_s: float
    failed: Mapping[str, int] = field(default_factory=dict)


def configure_index(parser: argparse.ArgumentParser) -> None:
    """The flags of `mlgo corpus index`."""
    parser.add_argument("corpus", type=Path, metavar="CORPUS")
    parser.add_argument("--problem", default="inlining", help="whose decisions are counted (default: inlining)")
    parser.add_argument("--clang", metavar="PATH", help="the clang that compiles (default: the newest)")
    parser.add_argument("--num-workers", type=int, metavar="N", help="compilers at once (default: hardware threads)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run_index(arguments: argparse.Namespace) -> int:
    """0 if every module compiled, else 1."""
    from pymlgo.toolchain.llvm import find_llvm

    result = index_corpus(
        arguments.corpus, find_llvm(clang=arguments.clang), problem=arguments.problem, workers=arguments.num_workers
    )
    if arguments.json:
        print_json("corpus-index-1", result)
    say(
        f"{result.modules} modules, {result.decisions} decisions, {result.without_decisions} modules without; "
        f".text {result.text_bytes:,}, Berkeley {result.berkeley_bytes:,} bytes; {result.cpu_s:.1f} CPU seconds"
    )
    for reason, count in result.failed.items():
        say(f"  failed {count}: {reason}")
    return 1 if result.failed or not result.modules else 0


def index_corpus(root: Path, llvm: LLVM, *, problem: str = "inlining", workers: int | None = None) -> IndexResult:
    """Compile every module with LLVM's default answers and write `index.jsonl` into the corpus.

    Raises:
        CorpusError: `root` is no corpus, or the index cannot be written.
        PolicyError: the compiler does not say what its default is for `problem`.
    """
    from pymlgo.atomic_file import writing
    from pymlgo.corpus import read_corpus
    from pymlgo.errors import CorpusError
    from pymlgo.rollout import RolloutFailure

    corpus = read_corpus(root)
    failed: Counter[str] = Counter({"unusable": len(corpus.unusable)} if corpus.unusable else {})
    rows: list[IndexRow] = []
    try:
        with writing(root / INDEX_FILE) as stream:
            for module, outcome in _default_compiles(corpus.modules, llvm, problem, workers):
                if isinstance(outcome, RolloutFailure):
                    failed[outcome.reason] += 1
                    continue
                rows.append(_row(module, outcome))
                stream.write(json.dumps(asdict(rows[-1])).encode() + b"\n")
    except OSError as error:
        raise CorpusError(f"{root / INDEX_FILE} cannot be written: {error.strerror}") from error
    return IndexResult(
        index=root / INDEX_FILE,
        modules=len(rows),
        without_decisions=sum(not each.decisions for each in rows),
        decisions=sum(each.decisions for each in rows),
        text_bytes=sum(each.text for each in rows),
        berkeley_bytes=sum(each.berkeley_text for each in rows),
        cpu_s=sum(each.cpu_s for each in rows),
        failed=dict(failed),
    )


def _default_compiles(
    modules: tuple[Module, ...], llvm: LLVM, problem: str, workers: int | None
) -> Iterator[tuple[Module, Outcome]]:
    """Each module with its compile, in the corpus's order."""
    from pymlgo.progress import progress
    from pymlgo.rollout import Job, LocalExecutor, PipesBackend

    backend = PipesBackend(llvm=llvm, problem=problem)
    waiting: dict[int, Outcome] = {}
    following = 0
    with LocalExecutor(workers) as executor, progress("indexing", len(modules)) as (advance, _):
        jobs = (Job(module=module, record=True) for module in modules)
        for number, outcome in executor.run(backend, jobs):
            waiting[number] = outcome
            while following in waiting:
                yield modules[following], waiting.pop(following)
                following += 1
            advance(1)


def _row(module: Module, outcome: RolloutResult) -> IndexRow:
    trajectory = outcome.trajectory
    default = trajectory.default if trajectory is not None else None
    return IndexRow(
        module=module.name,
        bc_bytes=module.size_bytes,
        decisions=outcome.decisions,
        default_inlined=0 if default is None else int((default != 0).sum()),
        text=outcome.sizes.text_bytes,
        berkeley_text=outcome.sizes.berkeley_bytes,
        cpu_s=round(outcome.cpu_s, 4),
    )
