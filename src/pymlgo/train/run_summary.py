"""What a run's folder tells, without loading anything but its text files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymlgo.train.run_directory import CONFIG_FILE, RunDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSummary:
    """One policy that the run judged, after so many compiles."""

    round: int
    compiles: int
    cpu_s: float
    text_change_percent: float
    berkeley_change_percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run.

    Attributes:
        state: "ended", "interrupted", or "unfinished" (it runs, or was killed).
        best_text_change_percent: on the validation modules; None if nothing beat LLVM's default (so far), and the run
            started from that.
    """

    name: str
    path: Path
    state: str
    started: str
    seed: int | None
    settings: Mapping[str, object]
    labels: int
    compiles: int
    cpu_s: float
    best_text_change_percent: float | None
    candidates: tuple[CandidateSummary, ...]


def list_runs(root: Path) -> tuple[RunSummary, ...]:
    """All runs under `root`, the newest last; empty if there are none."""
    found = sorted(file.parent for file in root.glob(f"*/{CONFIG_FILE}"))
    return tuple(summarize(RunDirectory(path)) for path in found)


def find_run(name: str, root: Path) -> RunDirectory:
    """The run of this name under `root`, or in the folder `name`.

    Raises:
        ConfigError: there is none.
    """
    under_root = root / name
    return RunDirectory.open(under_root if (under_root / CONFIG_FILE).is_file() else Path(name))


def summarize(run: RunDirectory) -> RunSummary:
    """What `run` was asked, and how far it came."""
    settings, events = run.settings(), run.events()
    judged = [_candidate(each) for each in events if each.get("event") in ("candidate", "best")]
    best = [_candidate(each).text_change_percent for each in events if each.get("event") == "best"]
    last = str(events[-1].get("event")) if events else ""
    seed = settings.get("seed")
    return RunSummary(
        name=run.path.name,
        path=run.path,
        state={"end": "ended", "interrupted": "interrupted"}.get(last, "unfinished"),
        started=str(events[0].get("time")) if events else "",
        seed=seed if isinstance(seed, int) else None,
        settings=settings,
        labels=int(_last(events, "labels")),
        compiles=int(_last(events, "compiles")),
        cpu_s=_last(events, "cpu_s"),
        best_text_change_percent=min(best, default=None),
        candidates=tuple(judged),
    )


def differences(runs: Sequence[RunSummary]) -> dict[str, tuple[object, ...]]:
    """The settings in which `runs` differ, with each run's value (None where it has none)."""
    keys = sorted({key for run in runs for key in run.settings})
    values = {key: tuple(run.settings.get(key) for run in runs) for key in keys}
    return {key: each for key, each in values.items() if any(value != each[0] for value in each)}


def _candidate(event: Mapping[str, Any]) -> CandidateSummary:
    return CandidateSummary(
        round=int(event["round"]),
        compiles=int(event["compiles"]),
        cpu_s=float(event["cpu_s"]),
        text_change_percent=float(event["text_change_percent"]),
        berkeley_change_percent=float(event["berkeley_change_percent"]),
    )


def _last(events: Sequence[Mapping[str, Any]], key: str) -> float:
    return float(next((event[key] for event in reversed(events) if key in event), 0))
