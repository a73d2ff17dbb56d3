"""Names of modules: relative, inside the corpus, unique, and short enough for every file system."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re

from pymlgo.errors import CorpusError

LONGEST_COMPONENT_BYTES = 255 - len(".thinlto.bc")
"""Linux's limit for one file name (NAME_MAX), less the longest suffix that a corpus adds."""

LONGEST_NAME_BYTES = 3_000
"""Leaves room for the corpus's own folder under PATH_MAX (4,096)."""


_PLAIN = re.compile(r"[A-Za-z0-9_+=,@-][A-Za-z0-9_+=,@.-]{0,200}(/[A-Za-z0-9_+=,@-][A-Za-z0-9_+=,@.-]{0,200}){0,8}")
"""Names that need no second look; nearly all are like that."""


def project_of(module_name: str) -> str:
    """The project a module belongs to: the first component of its name (of `zlib/test/example.o`, `zlib`)."""
    return module_name.partition("/")[0]


def is_safe_name(name: str) -> bool:
    """True if `name`, joined to a folder, stays in that folder and can be a file's name there."""
    parts = name.split("/")
    return (
        bool(name)
        and "\0" not in name
        and all(part not in ("", ".", "..") for part in parts)
        and all(len(os.fsencode(part)) <= LONGEST_COMPONENT_BYTES for part in parts)
        and len(os.fsencode(name)) <= LONGEST_NAME_BYTES
        and not _has_lone_surrogate(name)
    )


def check_name(name: str, where: str) -> str:
    """`name` itself.

    Raises:
        CorpusError: it is not safe; `where` says whose name it is.
    """
    if is_safe_name(name):
        return name
    raise CorpusError(
        f"{where}: the module name {name[:200]!r} does not stay inside the corpus",
        hint="a module name is a relative path without '.', '..' or empty components",
    )


def safe_name(path: str) -> str:
    """The module name for an object at `path`, which may be absolute, climb out, or be no valid file name.

    A name that is safe as it stands is kept. Leading `/` and `..` go away (`../x.o` becomes `x.o`), bytes that are not
    UTF-8 and control characters become `%XX`, and a component that is too long keeps its end and gets a digest.

    Raises:
        CorpusError: nothing is left that could be a name.
    """
    parts = [part for part in posixpath.normpath(path).split("/") if part not in ("", ".", "..")]
    if not parts:
        raise CorpusError(f"the path {path[:200]!r} names no object")
    name = "/".join(_shorten(_printable(part), LONGEST_COMPONENT_BYTES) for part in parts)
    if len(name.encode()) > LONGEST_NAME_BYTES:
        name = f"{_digest(name)}/{_shorten(_printable(parts[-1]), LONGEST_COMPONENT_BYTES)}"
    return name


def placed_name(path: str, directory: str, base_dir: str | None) -> str:
    """The module name of an object that a command run in `directory` calls `path`.

    That is its place relative to `base_dir` if it lies there; else `path` as spelled if that is relative and stays
    below `directory`; else its place relative to `directory`, or what `safe_name` makes of the whole path.

    Raises:
        CorpusError: nothing is left that could be a name.
    """
    if base_dir is None and _PLAIN.fullmatch(path) and ".." not in path:
        return path
    absolute = posixpath.normpath(posixpath.join(directory, path))
    for folder in (base_dir, directory):
        if folder is not None:
            inside = _below(absolute, posixpath.normpath(folder))
            if inside:
                return safe_name(inside)
    return safe_name(path if base_dir is None else absolute)


def _below(path: str, folder: str) -> str | None:
    prefix = folder if folder.endswith("/") else f"{folder}/"
    return path.removeprefix(prefix) if path.startswith(prefix) else None


def told_apart(name: str, distinguisher: str) -> str:
    """`name` with a digest of `distinguisher` before its extension, for when `name` itself is taken."""
    stem, extension = posixpath.splitext(name)
    folder, _, base = stem.rpartition("/")
    suffix = "~" + _digest(distinguisher) + extension
    base = _shorten(base, LONGEST_COMPONENT_BYTES - len(suffix.encode()))
    return f"{folder}/{base}{suffix}" if folder else f"{base}{suffix}"


def _printable(part: str) -> str:
    raw = os.fsencode(part)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else f"%{byte:02X}" for byte in raw)
    return "".join(each if each.isprintable() else "".join(f"%{byte:02X}" for byte in each.encode()) for each in text)


def _shorten(part: str, limit: int) -> str:
    raw = part.encode()
    if len(raw) <= limit:
        return part
    kept = raw[len(raw) - (limit - 9) :].decode(errors="ignore")
    return f"{_digest(part)}~{kept}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def _has_lone_surrogate(name: str) -> bool:
    # JSON can hold half of a surrogate pair, which no file system can.
    return any(0xD800 <= ord(each) <= 0xDFFF and not 0xDC80 <= ord(each) <= 0xDCFF for each in name)
