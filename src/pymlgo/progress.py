"""Progress on stderr: a live bar with ETA on a terminal, nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Advance: TypeAlias = Callable[[int], None]
"""Call with the number of steps that were finished since the last call."""

Note: TypeAlias = Callable[[str], None]
"""Call with a short text that replaces the one beside the bar."""


@contextmanager
def progress(description: str, total: int | None) -> Iterator[tuple[Advance, Note]]:
    """A progress bar over `total` steps (None: unknown), as two functions: advance it, and annotate it."""
    if not sys.stderr.isatty():
        yield (lambda steps: None), (lambda text: None)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total, note="")
        yield (lambda steps: bar.advance(task, steps)), (lambda text: bar.update(task, note=text))
