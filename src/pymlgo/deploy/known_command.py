"""Entries of the cache by which the program `mlgo` knows a command of `mlgo clang` again, without Python.

An entry is a text file of lines. The first is its key; then come, for each file that the deployment was made from,
`stamp <what tells its content from another> <path>`, for each of the first words of the compiler's command
`word <word>`, and where there is no advice `say <why>`. Whatever is not as it was then takes the long way.
`native/launcher` reads what is written here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pymlgo
from pymlgo.atomic_file import write_bytes
from pymlgo.errors import ToolchainError


def entry_key(*, policy: str, overrides: str, clang: str, arguments: Sequence[str]) -> str:
    """What names a command: what advises it, with paths made absolute, and what decides which clang is found.

    Args:
        policy: as the user named it; "" for none.
        overrides: likewise.
        clang: likewise.
        arguments: of the compiler; their last level stands for a policy where nothing else advises.
    """
    if not policy and not overrides:
        policy = next((word for word in reversed(arguments) if word.startswith("-O")), "")
    found = [os.environ.get(name, "") for name in ("PATH", "PYMLGO_LLVM_DIR", "PYMLGO_PLUGIN_DIR")]
    return "\t".join([_located(policy), _located(overrides), clang, *found])


def _located(path: str) -> str:
    """What is there by this path, made absolute; a word that names no file as it is."""
    return f"{os.getcwd()}/{path}" if path and not os.path.isabs(path) and os.path.exists(path) else path


def entry_file(key: str) -> Path:
    """Where the entry of a key is, or would be: its name is the key's FNV-1a hash."""
    number = 0xCBF29CE484222325
    for byte in os.fsencode(key):
        number = (number ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    named = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(named) if os.path.isabs(named) else Path.home() / ".cache"
    return root / "pymlgo" / "wrapper" / f"{number:016x}"


def stamp(path: Path) -> str:
    """What tells one content of a file from another; "" for no file."""
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def remember(key: str, made_from: Iterable[Path], command: Sequence[str], *, say: str = "") -> None:
    """Write the entry of a command; one with a line break in a name is not kept, and takes the long way each time."""
    lines = [key]
    lines += [f"stamp {stamp(path)} {path}" for path in map(Path.absolute, made_from)]
    lines += [f"word {word}" for word in command]
    lines += [f"say {say}"] if say else []
    if not any("\n" in line for line in lines):
        write_bytes(entry_file(key), os.fsencode("\n".join(lines) + "\n"))


def known_command(key: str) -> list[str]:
    """The first words of the compiler's command, if every file that they were made from is as it was; else nothing."""
    try:
        lines = os.fsdecode(entry_file(key).read_bytes()).split("\n")
    except OSError:
        return []
    if lines[0] != key or lines[-1] != "":
        return []
    stamps = [line.split(" ", 2) for line in lines if line.startswith("stamp ")]
    if any(stamp(Path(path)) != expected for _, expected, path in stamps):
        return []
    return [line.removeprefix("word ") for line in lines[1:] if line.startswith("word ")]


def launcher_program() -> Path:
    """The program `mlgo` as it lies in the package.

    Raises:
        ToolchainError: it was not installed.
    """
    for folder in pymlgo.__path__:
        if (program := Path(folder, "mlgo")).is_file():
            return program
    raise ToolchainError("the program mlgo was not installed with this package", hint="install pymlgo again")
