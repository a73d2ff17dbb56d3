"""Which processes are left of a test: those that carry its mark in their environment."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MARK = "PYMLGO_TEST_MARK"


def alive_with(mark: str) -> list[int]:
    """Processes (no zombies, not this one) that were started with the environment variable `MARK=mark`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if f"{MARK}={mark}".encode() in environment and state != "Z":
                found.append(int(entry.name))
    return found


def wait_until_gone(mark: str, within_s: float = 5.0) -> list[int]:
    """What is left of `mark` after at most `within_s`."""
    ends_at = time.monotonic() + within_s
    while (left := alive_with(mark)) and time.monotonic() < ends_at:
        time.sleep(0.02)
    return left


@contextmanager
def marked() -> Iterator[str]:
    """Children that are started in the block carry a new mark, which this gives."""
    mark = secrets.token_hex(8)
    os.environ[MARK] = mark
    try:
        yield mark
    finally:
        del os.environ[MARK]
