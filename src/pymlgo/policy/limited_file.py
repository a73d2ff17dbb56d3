"""Reading a file of a policy: all of it, but no more than a policy may have."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pymlgo.errors import PolicyError

LARGEST_FILE_BYTES = 1 << 28


def read_limited(file: Path, limit: int = LARGEST_FILE_BYTES) -> bytes:
    """The bytes of a regular file.

    Raises:
        PolicyError: it is missing, unreadable, no regular file, or larger than `limit`.
    """
    try:
        # Without O_NONBLOCK a FIFO in the file's place would stop us here.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise PolicyError(f"{file}: no regular file")
            if status.st_size > limit:
                raise PolicyError(f"{file}: {status.st_size} bytes are more than a policy may have ({limit})")
            return stream.read(limit)
    except OSError as error:
        raise PolicyError(f"{file}: {error.strerror}") from error
