"""Does a corpus suffice? Replays every module and compares with the object of its build."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pymlgo.corpus.compare import Verdict, compare_objects
from pymlgo.corpus.description import Corpus, Module, read_corpus
from pymlgo.corpus.embedded import NoModule, opened
from pymlgo.corpus.manifest import ModuleRecord, read_manifest
from pymlgo.corpus.object_file import ObjectError
from pymlgo.corpus.parallel import map_in_order
from pymlgo.corpus.replay import replay_command
from pymlgo.errors import MLGOError
from pymlgo.progress import progress
from pymlgo.toolchain.llvm import LLVM
from pymlgo.toolchain.process import run

REPLAY_LIMIT_S = 600.0
MOST_NOTES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """How the replayed objects compare with those of the build.

    Attributes:
        modules: compared, or tried to.
        identical: equal to the byte, sections with embedded bitcode and command lines aside.
        symbol_names_only: equal but for the names of private symbols.
        different: not equal.
        failed: not compared, because the replay failed or the build's object is not there.
        failures: `failed` by reason.
        different_modules: name and first difference, of at most 20 modules.
        failed_modules: name and reason, of at most 20 modules.
        cpu_s: CPU seconds of the compiler.
        clang: that replayed.
    """

    modules: int
    identical: int
    symbol_names_only: int
    different: int
    failed: int
    failures: Mapping[str, int] = field(default_factory=dict)
    different_modules: Mapping[str, str] = field(default_factory=dict)
    failed_modules: Mapping[str, str] = field(default_factory=dict)
    cpu_s: float
    clang: Path


@dataclass(frozen=True, slots=True)
class _Task:
    module: Module
    reference: ModuleRecord | None


@dataclass(frozen=True, slots=True)
class _Outcome:
    verdict: Verdict | None
    detail: str
    cpu_s: float = 0.0


def verify(root: Path, llvm: LLVM, *, obj_base_dir: Path | None = None, workers: int | None = None) -> VerifyResult:
    """Replay every module of the corpus at `root` and compare.

    Args:
        root: the corpus.
        llvm: whose clang replays.
        obj_base_dir: the objects lie below it by their module's name; by default the corpus's manifest says where
            each was.
        workers: compilers at once; None for one per hardware thread.

    Raises:
        CorpusError: `root` is no corpus.
    """
    corpus = read_corpus(root)
    outcomes = _outcomes(corpus, llvm, obj_base_dir, workers)
    counts: Counter[str] = Counter()
    failures: Counter[str] = Counter({"unusable": len(corpus.unusable)} if corpus.unusable else {})
    different: dict[str, str] = {}
    failed = {each.name: each.reason for each in corpus.unusable[:MOST_NOTES]}
    cpu_s = 0.0
    with progress("verifying", len(corpus.modules)) as (advance, _):
        for module, outcome in zip(corpus.modules, outcomes, strict=True):
            cpu_s += outcome.cpu_s
            if outcome.verdict is None:
                failures[outcome.detail.partition(":")[0]] += 1
                if len(failed) < MOST_NOTES:
                    failed[module.name] = outcome.detail
            else:
                counts[outcome.verdict.value] += 1
                if outcome.verdict is Verdict.DIFFERENT and len(different) < MOST_NOTES:
                    different[module.name] = outcome.detail
            advance(1)
    return VerifyResult(
        modules=len(corpus.modules) + len(corpus.unusable),
        identical=counts[Verdict.IDENTICAL.value],
        symbol_names_only=counts[Verdict.SYMBOL_NAMES_ONLY.value],
        different=counts[Verdict.DIFFERENT.value],
        failed=failures.total(),
        failures=dict(failures),
        different_modules=different,
        failed_modules=failed,
        cpu_s=cpu_s,
        clang=llvm.clang,
    )


def replay(module: Module, clang: Path, folder: Path) -> tuple[bytes, float]:
    """The object that `clang` makes of a module, and the CPU seconds that took.

    Raises:
        ToolchainError: clang cannot be run.
        ReplayError: it fails.
    """
    output = folder / "replayed.o"
    output.unlink(missing_ok=True)
    finished = run(replay_command(module, clang, output, embed=True), limit_s=REPLAY_LIMIT_S)
    if finished.returncode != 0 or not output.exists():
        lines = finished.stderr.decode(errors="backslashreplace").strip().splitlines()
        raise ReplayError(next((each for each in lines if "error" in each), lines[-1] if lines else "it said nothing"))
    return output.read_bytes(), finished.cpu_s


class ReplayError(MLGOError):
    """A module does not compile; the message is clang's."""


def _outcomes(corpus: Corpus, llvm: LLVM, obj_base_dir: Path | None, workers: int | None) -> Iterator[_Outcome]:
    references: dict[str, ModuleRecord] = {}
    if obj_base_dir is None:
        references = {each.module: each for each in read_manifest(corpus.root) if isinstance(each, ModuleRecord)}
    else:
        references = {
            each.name: ModuleRecord(module=each.name, object_path=str(obj_base_dir / each.name))
            for each in corpus.modules
        }
    shared: Counter[tuple[str, int]] = Counter((each.reference, each.offset) for each in references.values())
    tasks = []
    for module in corpus.modules:
        reference = references.get(module.name)
        is_part = reference is not None and shared[reference.reference, reference.offset] > 1
        tasks.append(_Task(module, None if is_part else reference))
    return map_in_order(lambda task: _compared(task, llvm.clang), tasks, workers=workers, in_threads=True)


def _compared(task: _Task, clang: Path) -> _Outcome:
    if task.reference is None or not task.reference.reference:
        return _Outcome(None, "no object of the build is known to compare with")
    if task.reference.lto:
        return _Outcome(None, "the build made LLVM IR of it, no object")
    try:
        with tempfile.TemporaryDirectory(prefix="mlgo-verify-") as folder:
            replayed, cpu_s = replay(task.module, clang, Path(folder))
        with opened(task.reference.reference, task.reference.offset, task.reference.length) as source:
            built = source.read(0, source.size)
        verdict, detail = compare_objects(built, replayed)
    except NoModule as error:
        return _Outcome(None, f"the build's object is gone: {error.detail}")
    except ObjectError as error:
        return _Outcome(None, f"the build's object is none: {error}")
    except MLGOError as error:
        return _Outcome(None, f"the replay failed: {error}")
    return _Outcome(verdict, detail, cpu_s)
