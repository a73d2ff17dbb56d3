"""A corpus as a Parquet table, for those who work with tables."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pymlgo.corpus.description import Module, optimization_level, read_corpus
from pymlgo.corpus.manifest import ModuleRecord, read_manifest
from pymlgo.corpus.names import project_of
from pymlgo.errors import CorpusError
from pymlgo.parquet import arrow_and_parquet
from pymlgo.progress import progress

ROWS_PER_GROUP = 256
"""Modules in memory at a time; some 10 MB of bitcode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """The table that was written; `unusable` modules of the corpus are not in it."""

    table: Path
    rows: int
    unusable: int


def export(root: Path, table: Path, *, with_bitcode: bool = True) -> ExportResult:
    """Write one row a module: name, project, level, command line, source, producer, digest, size and bitcode.

    Raises:
        CorpusError: `root` is no corpus, or the table cannot be written.
        MissingDependency: pyarrow is not installed.
    """
    arrow, parquet = arrow_and_parquet()
    corpus = read_corpus(root)
    known = {each.module: each for each in read_manifest(root) if isinstance(each, ModuleRecord)}
    columns = [
        ("module", arrow.string()),
        ("project", arrow.string()),
        ("level", arrow.string()),
        ("command", arrow.list_(arrow.binary())),
        ("source", arrow.string()),
        ("producer", arrow.string()),
        ("sha256", arrow.string()),
        ("bitcode_bytes", arrow.int64()),
        *([("bitcode", arrow.binary())] if with_bitcode else []),
        *([("thinlto_index", arrow.binary())] if with_bitcode and corpus.has_thinlto else []),
    ]
    schema = arrow.schema(columns)
    rows = unusable = 0
    partial = table.with_name(f".{table.name}.part")
    try:
        table.parent.mkdir(parents=True, exist_ok=True)
        with (
            progress("exporting", len(corpus.modules)) as (advance, _),
            parquet.ParquetWriter(partial, schema, compression="zstd") as writer,
        ):
            for group in _groups(corpus.modules):
                found = [row for each in group if (row := _row(each, known.get(each.name)))]
                unusable += len(group) - len(found)
                rows += len(found)
                writer.write_table(arrow.Table.from_pylist(found, schema=schema))
                advance(len(group))
        partial.replace(table)
    except OSError as error:
        raise CorpusError(f"{table} cannot be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return ExportResult(table=table, rows=rows, unusable=unusable + len(corpus.unusable))


def _groups(modules: Sequence[Module]) -> Iterator[Sequence[Module]]:
    for start in range(0, len(modules), ROWS_PER_GROUP):
        yield modules[start : start + ROWS_PER_GROUP]


def _row(module: Module, record: ModuleRecord | None) -> dict[str, object] | None:
    try:
        bitcode = module.bitcode.read_bytes()
        index = module.thinlto_index.read_bytes() if module.thinlto_index else None
    except OSError:
        return None
    return {
        "module": _text(module.name),
        "project": _text(project_of(module.name)),
        "level": optimization_level(module.command),
        "command": list(module.command),
        "source": _text(record.source) if record else None,
        "producer": _text(record.producer) if record else None,
        "sha256": hashlib.sha256(bitcode).hexdigest(),
        "bitcode_bytes": len(bitcode),
        "bitcode": bitcode,
        "thinlto_index": index,
    }


def _text(value: str) -> str:
    # Parquet's strings are UTF-8; a file name need not be.
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
