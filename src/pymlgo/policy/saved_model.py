"""TensorFlow SavedModels, through a TensorFlow that lives in an environment of its own.

TensorFlow 2.15 wants another numpy than we do and takes 1 GB, so it is never imported here: a script runs under the
Python that PYMLGO_TF_PYTHON names. A SavedModel is a program; convert only those you trust.
"""

from __future__ import annotations

import os
from pathlib import Path

from pymlgo.errors import PolicyError, ToolchainError
from pymlgo.toolchain.process import run

ENVIRONMENT_VARIABLE = "PYMLGO_TF_PYTHON"
CONVERSION_LIMIT_S = 600.0
SCRIPT = Path(__file__).with_name("saved_model_to_tflite.py")


def convert_saved_model(saved_model: Path, output: Path) -> None:
    """Write `model.tflite` and `output_spec.json` for a SavedModel with the signature `action` to `output`.

    Raises:
        ToolchainError: PYMLGO_TF_PYTHON is not set, or TensorFlow failed.
        PolicyError: the model has no decision that LLVM knows.
    """
    python = os.environ.get(ENVIRONMENT_VARIABLE)
    if not python:
        raise ToolchainError(
            f"{saved_model} is a TensorFlow SavedModel, and {ENVIRONMENT_VARIABLE} is not set",
            hint="python3.11 -m venv tf && tf/bin/pip install tensorflow-cpu==2.15.1 && "
            f"export {ENVIRONMENT_VARIABLE}=tf/bin/python",
        )
    command = [python, str(SCRIPT), str(saved_model), str(output)]
    finished = run(command, limit_s=CONVERSION_LIMIT_S, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
    if finished.returncode == 4:
        raise PolicyError(f"{saved_model}: {finished.stderr.decode(errors='replace').strip().splitlines()[-1]}")
    if finished.returncode != 0:
        tail = finished.stderr.decode(errors="replace")[-2000:]
        raise ToolchainError(
            f"TensorFlow could not convert {saved_model}",
            command=command,
            stderr_tail=tail,
            hint=(tail.strip().splitlines() or ["it wrote nothing to stderr"])[-1],
        )
