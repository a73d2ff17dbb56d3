"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A binary file that takes the name `path` when the block ends well, and vanishes when it does not.

    The temporary file lies beside `path`, so the last step is one rename. Missing parent folders are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:64]}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_bytes(path: Path, data: bytes) -> None:
    """`path` holds `data`, or what it held before."""
    with writing(path) as stream:
        stream.write(data)


def write_text(path: Path, text: str) -> None:
    """`path` holds `text` as UTF-8, or what it held before."""
    write_bytes(path, text.encode())


def _umask() -> int:
    # The mask can only be read by setting it; Linux shows it in /proc without that race.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022
