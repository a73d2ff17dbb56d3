"""The policy directory: `policy.json`, the weights beside it, and the TFLite form that LLVM's development mode loads.

Loading reads data only: nothing in a directory is ever executed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from pymlgo import atomic_file
from pymlgo.errors import PolicyError
from pymlgo.policy import stored
from pymlgo.policy.limited_file import read_limited
from pymlgo.policy.policy import Policy
from pymlgo.policy.tflite.development_mode import (
    MODEL_FILE,
    OUTPUT_SPEC_FILE,
    read_development_files,
    write_development_files,
)

__all__ = ["POLICY_FILE", "Policy", "load_policy", "save_policy", "tflite_file"]

POLICY_FILE = "policy.json"


def save_policy(policy: Policy, directory: Path) -> None:
    """Write the policy to `directory`, which is made; a policy that is there is replaced.

    `policy.json` is written last and names the weights by their content: a reader sees the old policy or the new one.
    Where the graph lowers to TFLite builtins, `model.tflite` and `output_spec.json` are written too; where it does not,
    `policy.json` says why.

    Raises:
        PolicyError: the provenance is no JSON, or the directory cannot be written.
    """
    members, weights = stored.to_stored(policy)
    sha256 = hashlib.sha256(weights).hexdigest()
    name = f"weights-{sha256[:12]}.bin"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        members["tflite"] = _write_tflite(policy, directory)
        members["weights"] = {"file": name, "bytes": len(weights), "sha256": sha256}
        text = stored.to_text(members)
        atomic_file.write_bytes(directory / name, weights)
        atomic_file.write_text(directory / POLICY_FILE, text)
        for old in directory.glob("weights-????????????.bin"):
            if old.name != name:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise PolicyError(f"{directory}: cannot be written: {error.strerror}") from error


def load_policy(directory: Path) -> Policy:
    """The policy in `directory`: ours, or `model.tflite` with `output_spec.json` as TensorFlow's converter leaves them.

    Raises:
        PolicyError: there is none, it is damaged, or it is not a policy of this version.
    """
    file = directory / POLICY_FILE
    if file.exists():
        members = stored.from_text(read_limited(file, stored.LARGEST_TEXT_BYTES), str(file))
        weights = read_limited(directory / stored.weights_name(members, str(file)))
        return stored.from_stored(members, weights, str(file))
    if (directory / MODEL_FILE).exists():
        return read_development_files(directory)
    if (directory / "saved_model.pb").exists():
        raise PolicyError(
            f"{directory}: a TensorFlow SavedModel, not a policy directory",
            hint=f"convert it with `mlgo policy import {directory} OUT`",
        )
    raise PolicyError(
        f"{directory}: no policy directory", hint=f"one holds {POLICY_FILE}, or {MODEL_FILE} and {OUTPUT_SPEC_FILE}"
    )


def tflite_file(directory: Path) -> Path:
    """The model that stands for the policy in TFLite's form.

    Raises:
        PolicyError: there is none, or it is not the one that `policy.json` names.
    """
    file = directory / MODEL_FILE
    described = _tflite_of(directory)
    if "reason" in described or not file.exists():
        reason = described.get("reason", f"{file} does not exist")
        raise PolicyError(f"{directory}: the policy has no TFLite form: {reason}")
    if "sha256" in described and hashlib.sha256(read_limited(file)).hexdigest() != described["sha256"]:
        raise PolicyError(
            f"{file} is not the model that {POLICY_FILE} names", hint="save the policy again to bring them together"
        )
    return file


def _tflite_of(directory: Path) -> Mapping[str, object]:
    file = directory / POLICY_FILE
    if not file.exists():
        return {}
    described = stored.from_text(read_limited(file, stored.LARGEST_TEXT_BYTES), str(file)).get("tflite")
    return described if isinstance(described, dict) else {}


def _write_tflite(policy: Policy, directory: Path) -> dict[str, object]:
    try:
        return {"file": MODEL_FILE, "sha256": write_development_files(policy.graph, directory)}
    except PolicyError as error:
        for name in (MODEL_FILE, OUTPUT_SPEC_FILE):  # of a policy that was here before
            (directory / name).unlink(missing_ok=True)
        return {"reason": str(error)}
