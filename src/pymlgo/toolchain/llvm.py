"""The LLVMs on this machine: `find_llvms` lists them, `find_llvm` picks one."""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pymlgo.errors import ToolchainError
from pymlgo.toolchain.process import run

LLVM_DIR_VARIABLE = "PYMLGO_LLVM_DIR"
"""Environment variable: prefixes (`/usr/lib/llvm-22`) or their bin folders, separated as in PATH; they come first."""

OLDEST_WITH_CHANNEL = 17
"""First major release whose advisors can be asked through named pipes.

Source: `-inliner-interactive-channel-base` entered LLVM's tree in February 2023, after the branch of 16.
"""

VERSION_LIMIT_S = 30.0
"""`clang --version` takes 20 ms; a program that needs longer than this is no clang."""

_VERSIONED = re.compile(r"clang-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LLVM:
    """One installation of LLVM, known by its `clang` (absolute, symbolic links kept)."""

    clang: Path
    version: tuple[int, int, int]

    @property
    def major(self) -> int:
        """The release, e.g. 22."""
        return self.version[0]

    @property
    def version_text(self) -> str:
        """The version as LLVM writes it, e.g. `22.1.8`."""
        return ".".join(map(str, self.version))

    def tool(self, name: str) -> Path | None:
        """The tool `name` ("llvm-objcopy", "opt", "ld.lld") of this very installation; None where it is not installed.

        Looked for beside the real clang, then with this version's suffix beside the given clang and in PATH: the
        plain name in PATH may be another LLVM's.
        """
        versioned = f"{name}-{self.major}"
        candidates = (self.clang.resolve().with_name(name), self.clang.with_name(versioned))
        found = next((each for each in candidates if _is_program(each)), None)
        if found is None and (in_path := shutil.which(versioned)):
            return Path(in_path).absolute()
        return found


def find_llvms() -> tuple[LLVM, ...]:
    """Every LLVM of `PYMLGO_LLVM_DIR`, then those in PATH (`clang-NN`, `clang`), each part newest first.

    Two names of one clang count once. A program that does not say its version is passed over.
    """
    return tuple(_distinct([*_sorted(_clangs_in_variable()), *_sorted(_clangs_in_path())]))


def find_llvm(*, major: int | None = None, clang: Path | str | None = None) -> LLVM:
    """The LLVM to use: the one of `clang` where given, else the first of `find_llvms` (of release `major`).

    Args:
        major: the release wanted, e.g. 22.
        clang: a path, or a name to look up in PATH.

    Raises:
        ToolchainError: there is none, `clang` is no clang, or it is of another release than `major`.
    """
    if clang is not None:
        found = llvm_of(clang)
        if major not in (None, found.major):
            raise ToolchainError(
                f"{found.clang} is LLVM {found.version_text}, wanted is {major}", hint=f"name a clang of LLVM {major}"
            )
        return found
    known = find_llvms()
    for each in known:
        if major in (None, each.major):
            return each
    wanted = f"clang of LLVM {major}" if major else "clang"
    there = f"found are {', '.join(each.version_text for each in known)}" if known else "none is installed"
    raise ToolchainError(
        f"no {wanted} in {LLVM_DIR_VARIABLE} or PATH; {there}",
        hint=f"install clang-{major or 22}, or set {LLVM_DIR_VARIABLE} to the folder of an LLVM",
    )


def llvm_of(clang: Path | str) -> LLVM:
    """The LLVM that a clang belongs to.

    Raises:
        ToolchainError: there is no such program, or it does not answer `--version` as clang does.
    """
    located = shutil.which(os.fspath(clang))
    if located is None:
        raise ToolchainError(f"no program {os.fspath(clang)!r}", hint="name a clang, e.g. clang-22 or its full path")
    path = Path(located).absolute()
    version = _version_of(path)
    if version is None:
        raise ToolchainError(
            f"{path} does not say that it is clang", command=(str(path), "--version"), hint="name a clang"
        )
    return LLVM(clang=path, version=version)


def _clangs_in_variable() -> Iterator[Path]:
    for part in filter(None, os.environ.get(LLVM_DIR_VARIABLE, "").split(os.pathsep)):
        for folder in (Path(part, "bin"), Path(part)):
            found = [each for each in (folder / "clang", *_versioned_clangs(folder)) if _is_program(each)]
            yield from found
            if found:
                break


def _clangs_in_path() -> Iterator[Path]:
    folders = [Path(part) for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if part]
    for folder in folders:
        yield from _versioned_clangs(folder)
    yield from (folder / "clang" for folder in folders if _is_program(folder / "clang"))


def _versioned_clangs(folder: Path) -> list[Path]:
    try:
        return [each for each in folder.iterdir() if _VERSIONED.fullmatch(each.name) and _is_program(each)]
    except OSError:  # PATH may name what is not there, or what we may not read
        return []


def _sorted(clangs: Iterator[Path]) -> list[LLVM]:
    found = [LLVM(clang=path, version=version) for path in clangs if (version := _version_of(path.absolute()))]
    return sorted(found, key=lambda llvm: llvm.version, reverse=True)


def _distinct(llvms: list[LLVM]) -> Iterator[LLVM]:
    seen: set[Path] = set()
    for each in llvms:
        if (real := each.clang.resolve()) not in seen:
            seen.add(real)
            yield each


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _version_of(clang: Path) -> tuple[int, int, int] | None:
    try:
        status = clang.stat()
    except OSError:
        return None
    return _asked_version(clang, status.st_ino, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _asked_version(clang: Path, *_stamp: int) -> tuple[int, int, int] | None:
    # The stamp is part of the key only, so that an upgrade under a running process is seen.
    try:
        said = run((clang, "--version"), limit_s=VERSION_LIMIT_S).stdout
    except ToolchainError:
        return None
    found = re.search(rb"clang version (\d+)\.(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None
