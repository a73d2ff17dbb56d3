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

WRAPPER_LIMIT_S = 30.0
"""What a wrapper may take to pass a question on to its clang, which answers in 20 ms."""


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
    `LD_LIBRARY_PATH` or `LD_PRELOAD` does. Of a script, or of a wrapper like ccache, the compiler that it runs is part.

    Raises:
        ToolchainError: there is no such program, or it cannot be read.
    """
    located = shutil.which(os.fspath(path))
    if located is None:
        raise ToolchainError(f"no program {os.fspath(path)!r}")
    named = Path(located).absolute()
    entry = cache_folder("identity") / _key(named)
    return _cached(entry) or _hashed(named, entry)


def _key(named: Path) -> str:
    # Both names: a wrapper acts by the one that it is called by, and a link may come to lead elsewhere.
    loader = (os.environ.get(name, "") for name in ("LD_LIBRARY_PATH", "LD_PRELOAD"))
    parts = (str(named), str(named.resolve()), *loader)
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:32]


def _cached(entry: Path) -> str | None:
    try:
        known = json.loads(entry.read_text(encoding="utf-8"))
        stamps = [_Stamp(*each) for each in known["files"]]
        unchanged = all(_Stamp.of(each.path) == each for each in stamps)
        return str(known["identity"]) if stamps and unchanged else None
    except (OSError, ValueError, TypeError, KeyError):
        return None  # absent, or written by another version: it is made anew


def _hashed(named: Path, entry: Path) -> str:
    program = str(named.resolve())
    files = [program, *_compiler_libraries(program)]
    if len(files) == 1 and (behind := _compiler_behind(named)):
        files += [behind, *_compiler_libraries(behind)]
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


def is_linked_statically(compiler: Path) -> bool:
    """True where the compiler, or the one behind a wrapper, loads no library of LLVM: it holds its LLVM itself."""
    program = str(compiler.resolve())
    if _compiler_libraries(program):
        return False
    if behind := _compiler_behind(compiler.absolute()):
        return not _compiler_libraries(behind)
    with Path(program).open("rb") as stream:
        return stream.read(4) == b"\x7fELF"


def _compiler_behind(wrapper: Path) -> str | None:
    """The compiler that a wrapper runs, which a clang names when it is asked for its commands."""
    try:
        said = run((wrapper, "-###", "-x", "c", "-c", os.devnull), limit_s=WRAPPER_LIMIT_S).stderr
    except ToolchainError:
        return None
    found = re.search(rb'^ "([^"]+)" "-cc1"', said, re.MULTILINE)
    compiler = os.path.realpath(os.fsdecode(found[1])) if found else None
    return compiler if compiler != str(wrapper.resolve()) else None


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
