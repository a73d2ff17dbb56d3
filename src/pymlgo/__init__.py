"""ML-guided optimization (MLGO) for the LLVM you already have.

The rooms of the package are listed in ARCHITECTURE.md; the names here are what most programs need. They load on first
use, so that the compiler wrapper, which needs none of them, starts fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pymlgo.errors import MLGOError
    from pymlgo.tensor_spec import TensorSpec

__version__ = "0.1.0"

__all__ = ["MLGOError", "TensorSpec", "__version__"]

_HOMES = {
    "MLGOError": "pymlgo.errors",
    "TensorSpec": "pymlgo.tensor_spec",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'pymlgo' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
