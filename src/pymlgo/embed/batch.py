"""The same reading for many modules: in parallel, in order, failures as data."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pymlgo.corpus import read_corpus
from pymlgo.corpus.parallel import map_in_order
from pymlgo.embed.reader import Reader
from pymlgo.errors import CorpusError

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A module to read: its name in results and its file."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A module that gave no result, and why, in one line."""

    name: str
    reason: str


def sources_of(paths: Sequence[Path]) -> tuple[tuple[Source, ...], tuple[Failure, ...]]:
    """The modules behind `paths`: a file is one, a folder is a corpus. Also the modules that a corpus cannot give.

    Raises:
        CorpusError: a folder is no corpus.
    """
    sources: list[Source] = []
    failures: list[Failure] = []
    for path in paths:
        if not path.is_dir():
            sources.append(Source(name=str(path), path=path))
            continue
        corpus = read_corpus(path)
        sources += [Source(name=module.name, path=module.bitcode) for module in corpus.modules]
        failures += [Failure(name=module.name, reason=module.reason) for module in corpus.unusable]
    return tuple(sources), tuple(failures)


def each_module(
    work: Callable[[Source, Reader], Result], sources: Sequence[Source], *, jobs: int | None
) -> Iterator[Result | Failure]:
    """`work(source, reader)` for each source, in order; a `CorpusError` becomes a `Failure`.

    Args:
        work: called in threads, each with a reading process of its own.
        sources: the modules.
        jobs: at most as many at once; the host's hardware threads if None.
    """
    most = max(1, min(jobs or os.cpu_count() or 1, len(sources)))
    readers: queue.SimpleQueue[Reader] = queue.SimpleQueue()

    def one(source: Source) -> Result | Failure:
        reader = readers.get()
        try:
            return work(source, reader)
        except CorpusError as error:
            return Failure(name=source.name, reason=str(error))
        finally:
            readers.put(reader)

    with ExitStack() as stack:
        for _ in range(most):
            readers.put(stack.enter_context(Reader()))
        yield from map_in_order(one, sources, workers=most, in_threads=True)
