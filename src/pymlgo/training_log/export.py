"""A log in other forms: JSON lines, npz, Parquet.

In all of them a tensor of one element is a number. A row or line is one observation, and the contexts without any
stand in no JSON line and in no row, but among the npz's `context_names`.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from pymlgo.arrays import AnyArray
from pymlgo.parquet import arrow_and_parquet
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log.batches import Batch, batches
from pymlgo.training_log.contexts import TrainingLog


def export_jsonl(log: TrainingLog, stream: BinaryIO) -> None:
    """One JSON object a line: `context`, `observation`, `features` by name, and `outcome` where the log has scores.

    NaN and the infinities, which JSON lacks, become null.
    """
    specs, score = log.header.features, log.header.score
    for batch in batches(log):
        columns = {spec.name: _json_values(spec, batch.feature(spec)) for spec in specs}
        outcomes = _json_values(score, batch.outcomes(score)) if score else None
        places = zip(batch.contexts().tolist(), batch.numbers().tolist(), strict=True)
        for row, (context, number) in enumerate(places):
            line: dict[str, object] = {"context": log.contexts[context].name, "observation": number}
            line["features"] = {name: values[row] for name, values in columns.items()}
            if outcomes is not None:
                line["outcome"] = outcomes[row]
            stream.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")


def _json_values(spec: TensorSpec, values: AnyArray) -> list[object]:
    plain = values.reshape(len(values)) if spec.element_count == 1 else values
    if plain.dtype.kind == "f" and not (finite := np.isfinite(plain)).all():
        plain = plain.astype(object)
        plain[~finite] = None
    return list(plain.tolist())


def export_npz(log: TrainingLog, stream: BinaryIO) -> None:
    """Arrays for `numpy.load`, row by row the observations in order.

    | array | form |
    |---|---|
    | `context_names` | each appearance of a context, in order |
    | `context` | i64[n], index into `context_names` |
    | `observation` | i64[n], the number in the log |
    | `feature.<name>` | `[n]` for one element, else `[n, *shape]` |
    | `outcome` | the same, where the log has scores |

    One array at a time is in memory.
    """
    header = log.header
    names = np.array([context.name for context in log.contexts], np.str_)
    arrays: dict[str, Callable[[], AnyArray]] = {
        "context_names": lambda: names,
        "context": lambda: _joined(log, np.dtype(np.int64), (), Batch.contexts),
        "observation": lambda: _joined(log, np.dtype(np.int64), (), Batch.numbers),
    }
    for spec in header.features:
        arrays[f"feature.{spec.name}"] = lambda spec=spec: _column(log, spec, lambda batch: batch.feature(spec))  # type: ignore[misc]
    if (score := header.score) is not None:
        arrays["outcome"] = lambda: _column(log, score, lambda batch: batch.outcomes(score))
    with zipfile.ZipFile(stream, "w") as archive:
        for name, make in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, np.ascontiguousarray(make()), allow_pickle=False)


def _column(log: TrainingLog, spec: TensorSpec, of_batch: Callable[[Batch], AnyArray]) -> AnyArray:
    shape = () if spec.element_count == 1 else spec.shape
    return _joined(log, spec.dtype, shape, lambda batch: of_batch(batch).reshape(len(batch), *shape))


def _joined(
    log: TrainingLog, dtype: np.dtype[np.generic], shape: tuple[int, ...], of_batch: Callable[[Batch], AnyArray]
) -> AnyArray:
    array = np.empty((log.observation_count, *shape), dtype)
    start = 0
    for batch in batches(log):
        array[start : start + len(batch)] = of_batch(batch)
        start += len(batch)
    return array


def export_parquet(log: TrainingLog, stream: BinaryIO) -> None:
    """A table with the columns `context`, `observation`, `feature.<name>` and, with scores, `outcome`.

    A tensor of several elements is a list of fixed size, row-major; its shape is in the column's metadata.

    Raises:
        MissingDependency: pyarrow is not installed.
    """
    pa, parquet = arrow_and_parquet()
    header = log.header
    tensors = {f"feature.{spec.name}": spec for spec in header.features}
    if header.score is not None:
        tensors["outcome"] = header.score
    fields = [pa.field("context", pa.string()), pa.field("observation", pa.int64())]
    for name, spec in tensors.items():
        scalar = pa.from_numpy_dtype(spec.dtype)
        kind = scalar if spec.element_count == 1 else pa.list_(scalar, spec.element_count)
        fields.append(pa.field(name, kind, metadata={"tensor_spec": spec.to_json()}))
    names = np.array([context.name for context in log.contexts], object)
    with parquet.ParquetWriter(stream, pa.schema(fields)) as writer:
        for batch in batches(log):
            arrays = [pa.array(names[batch.contexts()], pa.string()), pa.array(batch.numbers())]
            for field, spec in zip(fields[2:], tensors.values(), strict=True):
                values = batch.outcomes(spec) if field.name == "outcome" else batch.feature(spec)
                flat = pa.array(np.ascontiguousarray(values).reshape(-1))
                one = spec.element_count == 1
                arrays.append(flat if one else pa.FixedSizeListArray.from_arrays(flat, spec.element_count))
            writer.write_batch(pa.record_batch(arrays, schema=pa.schema(fields)))


EXPORTS: Mapping[str, Callable[[TrainingLog, BinaryIO], None]] = MappingProxyType(
    {"jsonl": export_jsonl, "npz": export_npz, "parquet": export_parquet}
)
"""Form to the function that writes a log in it."""
