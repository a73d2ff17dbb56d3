"""The door to pyarrow, which writes Parquet tables."""

from __future__ import annotations

from types import ModuleType

from pymlgo.optional import need


def arrow_and_parquet() -> tuple[ModuleType, ModuleType]:
    """The modules `pyarrow` and `pyarrow.parquet`.

    Raises:
        MissingDependency: they are not installed.
    """
    purpose = "write Parquet tables"
    return need("pyarrow", extra="table", purpose=purpose), need("pyarrow.parquet", extra="table", purpose=purpose)
