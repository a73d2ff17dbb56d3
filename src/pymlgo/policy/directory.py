"""The policy directory: `policy.json`, the weights beside it, and the TFLite form that LLVM's development mode loads.

Loading reads data only: nothing in a directory is ever executed.
"""

from __future__ import annotations

import os
from pathlib import Path

from pymlgo import atomic_file
from pymlgo.errors import PolicyError
from pymlgo.policy import stored
from pymlgo.policy.policy import Policy

__all__ = ["POLICY_FILE", "Policy", "load_policy", "save_policy"]

POLICY_FILE = "policy.json"
LARGEST_FILE_BYTES = 1 << 29


def save_policy(policy: Policy, directory: Path) -> None:
    """Write the policy to `directory`, which is made; a policy that is there is replaced.

    `policy.json` is written last and names the weights by their content: a reader sees the old policy or the new one.

    Raises:
        PolicyError: the provenance is no JSON, or the directory cannot be written.
    """
    members, weights = stored.to_stored(policy)
    described = members["weights"]
    if not isinstance(described, dict):
        raise TypeError("to_stored describes the weights")
    name = f"weights-{described['sha256'][:12]}.bin"
    members["weights"] = {"file": name, **described}
    text = stored.to_text(members)
    try:
        atomic_file.write_bytes(directory / name, weights)
        atomic_file.write_text(directory / POLICY_FILE, text)
        for old in directory.glob("weights-????????????.bin"):
            if old.name != name:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise PolicyError(f"{directory}: cannot be written: {error.strerror}") from error


def load_policy(directory: Path) -> Policy:
    """The policy in `directory`.

    Raises:
        PolicyError: there is none, it is damaged, or it is not a policy of this version.
    """
    file = directory / POLICY_FILE
    members = stored.from_text(read_limited(file), str(file))
    weights = read_limited(directory / stored.weights_name(members, str(file)))
    return stored.from_stored(members, weights, str(file))


def read_limited(file: Path, limit: int = LARGEST_FILE_BYTES) -> bytes:
    """The bytes of a regular file.

    Raises:
        PolicyError: it is missing, unreadable, no regular file, or larger than `limit`.
    """
    try:
        # A FIFO in the file's place must not stop us; reading a regular file never blocks.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            size = os.fstat(descriptor).st_size
            if not file.is_file():
                raise PolicyError(f"{file}: no regular file")
            if size > limit:
                raise PolicyError(f"{file}: {size} bytes are more than a policy may have ({limit})")
            return stream.read(limit)
    except OSError as error:
        hint = f"a policy directory holds {POLICY_FILE}" if isinstance(error, FileNotFoundError) else None
        raise PolicyError(f"{file}: {error.strerror}", hint=hint) from error
