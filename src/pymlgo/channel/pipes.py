"""The two named pipes of a channel: `<base>.in` is read by the compiler, `<base>.out` by its host."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pymlgo.errors import ChannelError


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipes:
    """Our ends of a channel, both non-blocking.

    `<base>.in` is opened for reading *and* writing, as Linux allows: the open does not wait for the compiler, in
    whatever order it opens its ends, and a compiler that reads never meets an end of file, where it would spin.
    """

    base: Path
    to_compiler: int
    from_compiler: int


@contextmanager
def made_pipes() -> Iterator[Pipes]:
    """A new channel in a temporary folder, for a compiler that we start ourselves."""
    with tempfile.TemporaryDirectory(prefix="mlgo-") as folder, contextlib.ExitStack() as stack:
        base = Path(folder, "channel")
        for end in (".in", ".out"):
            os.mkfifo(f"{base}{end}", 0o600)
        yield Pipes(
            base=base,
            to_compiler=_opened(stack, f"{base}.in", os.O_RDWR),
            from_compiler=_opened(stack, f"{base}.out", os.O_RDONLY),
        )


@contextmanager
def named_pipes(base: Path) -> Iterator[Pipes]:
    """The channel `base` for a compiler that somebody else starts; pipes that are missing are made, and removed again.

    Raises:
        ChannelError: a path exists and is no pipe, or cannot be made or opened.
    """
    with contextlib.ExitStack() as stack:
        for end in (".in", ".out"):
            _make_if_missing(stack, Path(f"{base}{end}"))
        yield Pipes(
            base=base,
            to_compiler=_opened(stack, f"{base}.in", os.O_RDWR),
            from_compiler=_opened(stack, f"{base}.out", os.O_RDONLY),
        )


def _make_if_missing(stack: contextlib.ExitStack, path: Path) -> None:
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        if not stat.S_ISFIFO(path.stat().st_mode):
            raise ChannelError(f"{path} exists and is no named pipe", hint="choose another --channel-base") from None
    except OSError as error:
        raise ChannelError(f"{path} cannot be made: {error.strerror}") from error
    else:
        stack.callback(path.unlink, missing_ok=True)


def _opened(stack: contextlib.ExitStack, path: str, mode: int) -> int:
    try:
        descriptor = os.open(path, mode | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ChannelError(f"{path} cannot be opened: {error.strerror}") from error
    stack.callback(os.close, descriptor)
    return descriptor
