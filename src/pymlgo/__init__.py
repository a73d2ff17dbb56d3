"""ML-guided optimization (MLGO) for the LLVM you already have.

The rooms of the package are listed in ARCHITECTURE.md; the names here are what most programs need. They load on first
use, so that the compiler wrapper, which needs none of them, starts fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # what type checkers take for true, without an import of typing in every compile of a build
if TYPE_CHECKING:
    from pymlgo.errors import MLGOError
    from pymlgo.runner.interactive import InteractiveModelRunner
    from pymlgo.runner.model_runner import MLModelRunner
    from pymlgo.runner.no_inference import NoInferenceModelRunner
    from pymlgo.runner.release import ReleaseModeModelRunner
    from pymlgo.runner.under_training import ModelUnderTrainingRunner
    from pymlgo.tensor_spec import TensorSpec

__version__ = "0.1.0"

__all__ = [
    "InteractiveModelRunner",
    "MLGOError",
    "MLModelRunner",
    "ModelUnderTrainingRunner",
    "NoInferenceModelRunner",
    "ReleaseModeModelRunner",
    "TensorSpec",
    "__version__",
]

_HOMES = {
    "InteractiveModelRunner": "pymlgo.runner.interactive",
    "MLGOError": "pymlgo.errors",
    "MLModelRunner": "pymlgo.runner.model_runner",
    "ModelUnderTrainingRunner": "pymlgo.runner.under_training",
    "NoInferenceModelRunner": "pymlgo.runner.no_inference",
    "ReleaseModeModelRunner": "pymlgo.runner.release",
    "TensorSpec": "pymlgo.tensor_spec",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'pymlgo' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
