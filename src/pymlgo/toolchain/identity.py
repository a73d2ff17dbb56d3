"""The identity of a compiler: what decides its output, as one digest."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from pymlgo.atomic_file import write_text
from pymlgo.errors import ToolchainError
from pymlgo.toolchain.process import run

_COMPILER_LIBRARY = re.compile(r"lib(LLVM|clang|lld|MLIR)")
"""Names of the shared libraries whose content is part of a compiler's identity; libc and the like are not."""

LDD_LIMIT_S = 30.0
"""`ldd` takes 20 ms."""


@dataclass(frozen=True, slots=True)
class _Stamp:
    """What `stat` says of one file: equal stamps are taken for equal content, as make and ccache do."""

    path: str
    device: int
    inode: int
    size_bytes: int
    modified_ns: int

    @classmethod
    def of(cls, path: str) -> _Stamp | None:
        try:
            status = Path(path).stat()
        except OSError:
            return None
        return cls(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def cache_folder(name: str) -> Path:
    """Where this package keeps `name` between runs: `$XDG_CACHE_HOME/pymlgo/<name>`, by default under `~/.cache`."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    # The standard says that a relative path there is to be ignored.
    return Path(root if Path(root).is_absolute() else Path("~/.cache").expanduser(), "pymlgo", name)


def binary_identity(path: Path | str) -> str:
    """The digest (64 hex digits) of a compiler's content: the program and the LLVM and clang libraries it loads.

    Copies of one compiler have one identity, wherever they lie. Hashing an LLVM takes half a second, so the answer is
    kept in the cache folder; it is taken again when device, inode, size or time of one of the files changes, or
    `LD_LIBRARY_PATH` or `LD_PRELOAD` does. Of a script only its own text counts.

    Raises:
        ToolchainError: there is no such program, or it cannot be read.
    """
    located = shutil.which(os.fspath(path))
    if located is None:
        raise ToolchainError(f"no program {os.fspath(path)!r}")
    program = str(Path(located).resolve())
    entry = cache_folder("identity") / _key(program)
    return _cached(entry) or _hashed(program, entry)


def _key(program: str) -> str:
    loader = (os.environ.get(name, "") for name in ("LD_LIBRARY_PATH", "LD_PRELOAD"))
    return hashlib.sha256("\0".join((program, *loader)).encode(errors="surrogateescape")).hexdigest()[:32]


def _cached(entry: Path) -> str | None:
    try:
        known = json.loads(entry.read_text(encoding="utf-8"))
        stamps = [_Stamp(*each) for each in known["files"]]
        unchanged = all(_Stamp.of(each.path) == each for each in stamps)
        return str(known["identity"]) if stamps and unchanged else None
    except (OSError, ValueError, TypeError, KeyError):
        return None  # absent, or written by another version: it is made anew


def _hashed(program: str, entry: Path) -> str:
    files = [program, *_compiler_libraries(program)]
    stamps = [_Stamp.of(file) for file in files]
    try:
        digests = [_digest(file) for file in files]
    except OSError as error:
        raise ToolchainError(f"{error.filename} cannot be read: {error.strerror}") from error
    identity = hashlib.sha256("".join(digests).encode()).hexdigest()
    if None not in stamps:
        known = {"identity": identity, "files": [[getattr(each, key) for key in _Stamp.__slots__] for each in stamps]}
        with contextlib.suppress(OSError, UnicodeError):  # an unwritable cache makes this slow, not wrong
            write_text(entry, json.dumps(known))
    return identity


def _digest(file: str) -> str:
    with Path(file).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _compiler_libraries(program: str) -> list[str]:
    """The LLVM and clang libraries that the loader would give `program`, as `ldd` prints them; sorted by soname."""
    try:
        printed = run(("ldd", program), limit_s=LDD_LIMIT_S).stdout.decode(errors="surrogateescape")
    except ToolchainError:
        return []  # no ldd on this system: the program's own content has to do
    found = dict(re.findall(r"^\s*(\S+) => (/.*) \(0x[0-9a-f]+\)$", printed, re.MULTILINE))
    return [found[name] for name in sorted(found) if _COMPILER_LIBRARY.match(name)]
