"""The state of a training run in one file of plain arrays, which appears whole or not at all."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from pymlgo import atomic_file
from pymlgo.errors import ConfigError
from pymlgo.train.labels import Labels

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State:
    """Everything that a resumed run needs; whatever it compiles anew is the same again.

    Attributes:
        facts: counters and names, as JSON.
        labels: all that were collected.
        tried: for each module, how often each flip was tried.
    """

    facts: Mapping[str, Any]
    labels: Labels
    tried: Sequence[Counter[int]]


def save_state(path: Path, state: State) -> None:
    """Write `state` to `path`."""
    rows = [(module, key, count) for module, counts in enumerate(state.tried) for key, count in counts.items()]
    arrays: dict[str, Any] = {each.name: getattr(state.labels, each.name) for each in fields(Labels)}
    arrays["tried_module"] = np.array([row[0] for row in rows], np.int64)
    arrays["tried_key"] = np.array([row[1] for row in rows], np.uint64)
    arrays["tried_count"] = np.array([row[2] for row in rows], np.int64)
    facts = json.dumps({"format": FORMAT, "modules": len(state.tried), **state.facts}, allow_nan=False)
    arrays["facts"] = np.frombuffer(facts.encode(), np.uint8)
    memory = io.BytesIO()
    np.savez_compressed(memory, **arrays)
    atomic_file.write_bytes(path, memory.getvalue())


def load_state(path: Path) -> State:
    """The state in `path`.

    Raises:
        ConfigError: it is missing, damaged, or of another version.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            facts = json.loads(arrays["facts"].tobytes())
            labels = Labels(**{each.name: arrays[each.name] for each in fields(Labels)})
            tried: list[Counter[int]] = [Counter() for _ in range(facts["modules"])]
            rows = zip(arrays["tried_module"], arrays["tried_key"], arrays["tried_count"], strict=True)
            for module, key, count in rows:
                tried[module][int(key)] = int(count)
    except (OSError, ValueError, KeyError, IndexError, zipfile.BadZipFile, TypeError) as error:
        raise ConfigError(
            f"no usable checkpoint: {error}", file=path, hint="start a new run; nothing of this one can be reused"
        ) from error
    if facts.get("format") != FORMAT:
        raise ConfigError(f"a checkpoint of format {facts.get('format')}, expected {FORMAT}", file=path)
    return State(facts=facts, labels=labels, tried=tried)
