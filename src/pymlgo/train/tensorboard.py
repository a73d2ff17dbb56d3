"""A run's events as TensorBoard's scalars, over compiles (the extra `tensorboard`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from pymlgo.optional import need

Log: TypeAlias = Callable[[Mapping[str, object]], None]
"""Told of each event."""


@contextmanager
def tensorboard_log(folder: Path) -> Iterator[Log]:
    """Write the numbers of each event to `folder`, as `<event>/<name>` at the step `compiles`.

    Raises:
        MissingDependency: tensorboardX is not installed.
    """
    tensorboard = need("tensorboardX", extra="tensorboard", purpose="write for TensorBoard")
    with tensorboard.SummaryWriter(str(folder)) as writer:

        def log(event: Mapping[str, object]) -> None:
            step = event.get("compiles", 0)
            for name, value in event.items():
                if isinstance(value, int | float) and not isinstance(value, bool) and name != "compiles":
                    writer.add_scalar(f"{event['event']}/{name}", value, step)
                elif name == "projects" and isinstance(value, Mapping):
                    for project, change in value.items():
                        writer.add_scalar(f"{event['event']}/projects/{project}", change, step)
            writer.flush()

        yield log
