"""The one door for optional libraries: `need` imports one or says how to get it."""

from __future__ import annotations

import importlib
from types import ModuleType

from pymlgo.errors import MissingDependency


def need(module: str, *, extra: str, purpose: str) -> ModuleType:
    """The imported `module`, which the extra `extra` of this package installs.

    Args:
        module: dotted import name, e.g. `"pyarrow.parquet"`.
        extra: the extra's name in `pyproject.toml`.
        purpose: what it is wanted for, as the end of "… is needed to ".

    Raises:
        MissingDependency: it is not installed; the hint is the pip line.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependency(
            f"{module.partition('.')[0]} is needed to {purpose}, and it is not installed ({error})",
            hint=f"pip install 'pymlgo[{extra}]'",
        ) from error
