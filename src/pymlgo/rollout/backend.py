"""What runs one job: the protocol, and the parts that every backend shares."""

from __future__ import annotations

import os
import re
import signal
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from pymlgo.corpus.object_file import MemorySource, ObjectError
from pymlgo.corpus.objects import read_object, sizes_of
from pymlgo.rollout.job import Job, Outcome, Sizes

JOB_LIMIT_S = 600.0
"""Longest compile that is waited for; the slowest module of a 1,000-module corpus takes 3 s."""


class Backend(Protocol):
    """One way to compile a module under a policy."""

    @property
    def name(self) -> str:
        """What results call it."""

    def run(self, job: Job) -> Outcome:
        """What came of the job. A module that fails is an outcome.

        Raises:
            MLGOError: no job of this kind can work: no compiler, or a policy that does not fit it.
        """


MEMORY_FOLDER = Path("/dev/shm")
"""Where Linux keeps files in memory: making and removing a folder on a disk takes milliseconds."""

ENOUGH_MEMORY_BYTES = 1 << 30
"""Space that a compile's files are sure to fit into; containers often have 64 MiB there."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for one compile, gone with everything in it when the block ends; in memory where there is room."""
    with tempfile.TemporaryDirectory(prefix="mlgo-rollout-", dir=_in_memory(), ignore_cleanup_errors=True) as name:
        yield Path(name)


def _in_memory() -> Path | None:
    if "TMPDIR" in os.environ:
        return None  # the user said where
    try:
        space = os.statvfs(MEMORY_FOLDER)
    except OSError:
        return None
    roomy = space.f_bavail * space.f_frsize >= ENOUGH_MEMORY_BYTES
    return MEMORY_FOLDER if roomy and os.access(MEMORY_FOLDER, os.W_OK) else None


def read_sizes(file: Path, prefer: Collection[str] = ()) -> tuple[Sizes, dict[str, int]]:
    """The sizes of an object, and of each function body in it by name.

    A body with several names (C++ constructors are often aliases) counts once, under the name that is in `prefer`.

    Raises:
        ObjectError: the file is missing, or no object.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ObjectError(f"the compiler wrote no object: {error.strerror}") from error
    found = read_object(MemorySource(data), with_functions=True)
    bodies: dict[tuple[int, int], tuple[str, int]] = {}
    for each in found.functions:
        place = (each.section, each.address)
        if place not in bodies or (each.name in prefer and bodies[place][0] not in prefer):
            bodies[place] = (each.name, each.size or 0)
    totals = sizes_of(found)
    sizes = Sizes(text_bytes=totals.text_bytes, berkeley_bytes=totals.berkeley_bytes)
    return sizes, dict(bodies.values())


_BITCODE = re.compile(
    rb"error: .*(bitcode|Producer:|Invalid record|Malformed block|Invalid value|Unknown attribute kind"
    rb"|end of file|expected top-level entity|single module|can't skip|Cannot skip)",
    re.IGNORECASE,
)
_CRASH = re.compile(rb"PLEASE submit a bug report|LLVM ERROR:|Stack dump:|the compile server died")


def failure_reason(returncode: int, stderr: bytes) -> tuple[str, str]:
    """Why a compiler that did not return 0 failed: a countable reason, and its own words in one line."""
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    said = next((line for line in lines if "error:" in line.lower()), lines[-1] if lines else "it said nothing")
    if returncode < 0:
        name = signal.Signals(-returncode).name if -returncode in set(signal.Signals) else str(-returncode)
        return "crash", f"ended by {name}: {said}"
    if _CRASH.search(stderr):
        return "crash", said
    return ("bad bitcode" if _BITCODE.search(stderr) else "compiler error"), said
