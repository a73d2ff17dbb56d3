"""The folder that a corpus is written to: nothing gets out of it, and every file appears whole."""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pymlgo.errors import CorpusError

FATAL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENODEV})
"""Errors of the disk, which the next module would meet too."""

_TEMPORARY = re.compile(r"\.[0-9]+-[0-9]+\.part")
_numbers = itertools.count()


@contextmanager
def disk_errors(root: Path | str) -> Iterator[None]:
    """Turns an OSError of the block into a CorpusError that names the folder it writes to."""
    try:
        yield
    except OSError as error:
        raise write_failure(root, error) from error


def write_failure(root: Path | str, error: OSError) -> CorpusError:
    """The error for a disk that is full, read-only or broken."""
    return CorpusError(
        f"writing to {root} failed: {error.strerror or error}",
        hint="run the same command again once there is room: what is done stays",
    )


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of the corpus: what follows the module's name, and its content's digest."""

    suffix: str
    sha256: str
    size_bytes: int


class Unwritable(Exception):
    """One module's files cannot be written; the next one's may."""


@dataclass(slots=True)
class OutputFolder:
    """Writes files below `root`, never through a symbolic link."""

    root: str
    _checked: set[str] = field(default_factory=set)

    def prepare(self) -> None:
        """Make the folder.

        Raises:
            CorpusError: it cannot be made.
        """
        try:
            Path(self.root).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CorpusError(f"the output folder {self.root} cannot be made: {error.strerror}") from error

    def write(self, module: str, suffix: str, data: bytes) -> WrittenFile:
        """Write `data` as the file `module` + `suffix`.

        Raises:
            Unwritable: this file cannot be written.
            CorpusError: the disk is full, read-only or broken.
        """
        folder, _, base = f"{module}{suffix}".rpartition("/")
        try:
            directory = self._directory(folder)
            self._write(directory, base, data)
        except OSError as error:
            if error.errno in FATAL_ERRNOS:
                raise write_failure(self.root, error) from error
            raise Unwritable(f"{module}{suffix}: {error.strerror}") from error
        return WrittenFile(suffix, hashlib.sha256(data).hexdigest(), len(data))

    def remove_leftovers(self) -> None:
        """Remove the half-written files of a run that was killed."""
        for path in Path(self.root).rglob(".*-*.part"):
            if _TEMPORARY.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def _directory(self, folder: str) -> str:
        path = self.root
        if folder in self._checked:
            return f"{path}/{folder}" if folder else path
        for part in folder.split("/") if folder else []:
            path = f"{path}/{part}"
            try:
                os.mkdir(path)
            except FileExistsError:
                if os.path.islink(path):
                    raise OSError(errno.ELOOP, f"{path} is a symbolic link") from None
        self._checked.add(folder)
        return path

    def _write(self, directory: str, base: str, data: bytes) -> None:
        temporary = f"{directory}/.{os.getpid()}-{next(_numbers)}.part"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(descriptor, left) :]
            finally:
                os.close(descriptor)
            os.rename(temporary, f"{directory}/{base}")
        except BaseException:
            os.unlink(temporary)
            raise
