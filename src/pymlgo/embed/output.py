"""Embeddings as files, written piece by piece: memory holds one module's rows, not the corpus's."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.atomic_file import writing
from pymlgo.errors import SpecError
from pymlgo.parquet import arrow_and_parquet

Columns = Mapping[str, AnyArray]

_CHUNK_BYTES = 1 << 24


class RowWriter(Protocol):
    """Takes rows in pieces; every piece has the same columns."""

    def add(self, columns: Columns) -> None:
        """Append rows: arrays whose first dimensions are equal."""


@contextmanager
def rows_file(path: Path) -> Iterator[RowWriter]:
    """A file of rows, `.npz` or `.parquet` by its name; it appears whole when the block ends well, else not.

    Raises:
        SpecError: another ending.
        MissingDependency: Parquet without pyarrow.
    """
    if path.suffix == ".npz":
        with writing(path) as stream, _NpzRows(stream) as rows:
            yield rows
            rows.finish()
    elif path.suffix == ".parquet":
        with writing(path) as stream:
            parquet = _ParquetRows(stream)
            yield parquet
            parquet.finish()
    else:
        raise SpecError(f"{path}: expected a name that ends in .npz or .parquet")


class _NpzRows:
    """Each column in a temporary file until the number of rows is known, which an array's header needs first."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._stack = ExitStack()
        self._columns: dict[str, _Column] = {}

    def __enter__(self) -> _NpzRows:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, columns: Columns) -> None:
        for name, array in columns.items():
            if name not in self._columns:
                self._columns[name] = _Column(self._stack.enter_context(tempfile.TemporaryFile()))  # noqa: SIM115
            self._columns[name].add(array)

    def finish(self) -> None:
        with zipfile.ZipFile(self._stream, "w", zipfile.ZIP_STORED) as archive:
            for name, column in self._columns.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    column.write(member)


class _Column:
    """One array in pieces; texts may be wider in one piece than in another."""

    def __init__(self, stored: IO[bytes]) -> None:
        self._stored = stored
        self._pieces: list[tuple[np.dtype[np.generic], int]] = []
        self._tail: tuple[int, ...] = ()

    def add(self, array: AnyArray) -> None:
        self._tail = array.shape[1:]
        self._pieces.append((array.dtype, len(array)))
        self._stored.write(np.ascontiguousarray(array).data)

    def write(self, member: IO[bytes]) -> None:
        dtype = np.result_type(*(dtype for dtype, _ in self._pieces))
        shape = (sum(count for _, count in self._pieces), *self._tail)
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(member, header)
        self._stored.seek(0)
        for own, count in self._pieces:
            left = count * own.itemsize * int(np.prod(self._tail, dtype=np.int64))
            while left:
                chunk = self._stored.read(min(left, _CHUNK_BYTES // own.itemsize * own.itemsize))
                left -= len(chunk)
                member.write(chunk if own == dtype else np.frombuffer(chunk, own).astype(dtype).tobytes())


class _ParquetRows:
    """A row group for each piece; vectors are fixed-size lists."""

    def __init__(self, stream: BinaryIO) -> None:
        self._arrow, self._parquet = arrow_and_parquet()
        self._stream = stream
        self._writer: Any = None  # pyarrow has no types

    def add(self, columns: Columns) -> None:
        table = self._arrow.table({name: self._array(array) for name, array in columns.items()})
        if self._writer is None:
            self._writer = self._parquet.ParquetWriter(self._stream, table.schema)
        self._writer.write_table(table)

    def finish(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _array(self, array: AnyArray) -> object:
        if array.ndim == 2:
            return self._arrow.FixedSizeListArray.from_arrays(
                self._arrow.array(np.ascontiguousarray(array).reshape(-1)), array.shape[1]
            )
        if array.dtype.kind == "U":  # names need not be UTF-8
            texts = [
                text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") for text in array.tolist()
            ]
            return self._arrow.array(texts, type=self._arrow.string())
        return self._arrow.array(array)
