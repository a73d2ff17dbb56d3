"""Embeddings of whole corpora, in parallel, to one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.embed.batch import Failure, Source, each_module
from pymlgo.embed.embeddings import Embeddings, Kind, Level
from pymlgo.embed.levels import AnyVocabulary, AnyWeights, embed
from pymlgo.embed.module import DEFAULT_STOP, ReadOptions, read_ir, read_mir
from pymlgo.embed.output import rows_file
from pymlgo.embed.reader import Reader
from pymlgo.embed.vocabulary import MIRVocabulary
from pymlgo.errors import CorpusError
from pymlgo.progress import progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to compute for each module."""

    vocabulary: AnyVocabulary
    level: Level = Level.FUNCTION
    kind: Kind = Kind.SYMBOLIC
    weights: AnyWeights | None = None
    exact: bool = True
    dtype: str = "float64"
    """`float64` as LLVM computes, or `float32` as policies take them."""

    stop_after: str = DEFAULT_STOP
    """For machine IR from IR, as in `ReadOptions`."""

    opt_level: int = 2

    def read_options(self) -> ReadOptions:
        """How a module must be read for this."""
        return ReadOptions(
            definitions=self.kind != Kind.SYMBOLIC,
            loops=self.level == Level.LOOP,
            regions=self.level == Level.REGION,
            stop_after=self.stop_after,
            opt_level=self.opt_level,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What went into the file."""

    output: Path
    modules: int
    rows: int
    dimension: int
    overflowed: int
    """Rows with an infinity or NaN: flow-aware vectors can grow beyond a double."""

    failures: tuple[Failure, ...] = field(default=())


def embeddings_of(
    sources: Sequence[Source], request: Request, *, jobs: int | None = None
) -> Iterator[tuple[Source, Embeddings] | Failure]:
    """Each module's embeddings, in order, or why it has none."""
    read = read_mir if isinstance(request.vocabulary, MIRVocabulary) else read_ir
    options = request.read_options()

    def work(source: Source, reader: Reader) -> tuple[Source, Embeddings]:
        module = read(source.path, options=options, reader=reader, name=source.name)
        return source, embed(
            module,
            request.vocabulary,
            level=request.level,
            kind=request.kind,
            weights=request.weights,
            exact=request.exact,
        )

    yield from each_module(work, sources, jobs=jobs)


def write_module(source: Source, request: Request, output: Path) -> Written:
    """Write one module's rows to an `.npz` or `.parquet`.

    Raises:
        CorpusError: the module cannot be read; `output` stays as it was.
    """
    result = next(embeddings_of([source], request, jobs=1))
    if isinstance(result, Failure):
        raise CorpusError(result.reason)
    _, found = result
    with rows_file(output) as file:
        file.add(_columns(source, found, request.dtype, named_by_module=False))
    return Written(
        output=output,
        modules=1,
        rows=len(found),
        dimension=found.vectors.shape[1],
        overflowed=found.overflowed,
    )


def write_embeddings(
    sources: Sequence[Source],
    request: Request,
    output: Path,
    *,
    jobs: int | None = None,
    on_module: Callable[[str], None] = lambda name: None,
) -> Written:
    """Write every module's rows to one `.npz` or `.parquet`, with its name in a column `module`.

    A module that fails is reported and does not stop the rest.

    Args:
        sources: the modules.
        request: what to compute.
        output: the file; it appears whole or not at all.
        jobs: modules at once; the host's hardware threads if None.
        on_module: called with the name of each module that is done.
    """
    failures: list[Failure] = []
    modules = rows = overflowed = dimension = 0
    with rows_file(output) as file, progress("embedding", len(sources)) as (advance, _):
        for result in embeddings_of(sources, request, jobs=jobs):
            advance(1)
            if isinstance(result, Failure):
                failures.append(result)
                continue
            source, found = result
            file.add(_columns(source, found, request.dtype, named_by_module=True))
            modules, rows, overflowed = modules + 1, rows + len(found), overflowed + found.overflowed
            dimension = found.vectors.shape[1]
            on_module(source.name)
    return Written(
        output=output,
        modules=modules,
        rows=rows,
        dimension=dimension,
        overflowed=overflowed,
        failures=tuple(failures),
    )


def _columns(source: Source, found: Embeddings, dtype: str, *, named_by_module: bool) -> dict[str, AnyArray]:
    columns = dict(found.columns())
    with np.errstate(over="ignore"):
        columns["embeddings"] = columns["embeddings"].astype(dtype, copy=False)
    if named_by_module:
        columns["module"] = np.full(len(found), source.name)
    return columns
