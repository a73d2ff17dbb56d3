"""The state of a training run in one file of plain arrays, which appears whole or not at all."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pymlgo import atomic_file
from pymlgo.arrays import AnyArray
from pymlgo.errors import ConfigError

FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State:
    """What is kept: `facts` as JSON, and arrays by name."""

    facts: Mapping[str, Any]
    arrays: Mapping[str, AnyArray] = field(default_factory=dict)


def save_state(path: Path, state: State) -> None:
    """Write `state` to `path`.

    Raises:
        ConfigError: the file cannot be written; what was there before still is.
    """
    facts = json.dumps({"format": FORMAT, **state.facts}, allow_nan=False)
    arrays: dict[str, Any] = {"facts": np.frombuffer(facts.encode(), np.uint8)}
    arrays |= {f"array_{name}": array for name, array in state.arrays.items()}
    memory = io.BytesIO()
    np.savez_compressed(memory, **arrays)
    try:
        atomic_file.write_bytes(path, memory.getvalue())
    except OSError as error:
        raise ConfigError(
            f"the checkpoint cannot be written: {error.strerror}; the one before it is whole",
            file=path,
            hint=f"make room, and go on with --resume {path.parent}",
        ) from error


def load_state(path: Path) -> State:
    """The state in `path`.

    Raises:
        ConfigError: it is missing, damaged, or of another version.
    """
    try:
        # From memory: numpy leaves the file open when it finds damage.
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as kept:
            facts = json.loads(kept["facts"].tobytes())
            arrays = {name.removeprefix("array_"): kept[name] for name in kept.files if name != "facts"}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ConfigError(
            f"no usable checkpoint: {error}", file=path, hint="start a new run; nothing of this one can be reused"
        ) from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ConfigError(f"a checkpoint of another format than {FORMAT}", file=path)
    return State(facts=facts, arrays=arrays)
