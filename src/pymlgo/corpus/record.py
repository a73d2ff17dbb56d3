"""Run an unchanged build so that it embeds bitcode, and write its compile database.

The build's processes start with a small library preloaded (`exec_hook.c`, built on the spot) that sends every start of
a compiler to a shim (`compiler_shim.py`), also where it is called by an absolute path. Where the library cannot be
built, shims in front of PATH and in CC and CXX catch what is called by its name.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pymlgo.atomic_file import write_text
from pymlgo.corpus import compiler_shim
from pymlgo.errors import CorpusError, ToolchainError
from pymlgo.toolchain.llvm import LLVM
from pymlgo.toolchain.process import child, run

HOOK_SOURCE = Path(__file__).with_name("exec_hook.c")
SHIM_NAMES = {"cc": ("cc", "gcc", "clang", "c89", "c99"), "c++": ("c++", "g++", "clang++")}
LONGEST_INTERPRETER = 240
"""Linux reads 255 bytes of a `#!` line."""

HOOK_LIMIT_S = 60.0
BUILD_LIMIT_S = 7 * 24 * 3600.0
"""A net, not a judgement: builds of a whole distribution take days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordResult:
    """What a recorded build left.

    Attributes:
        database: the compile database.
        entries: how many compiles it has.
        build_exit_code: of the build's command.
        vanished: compiles whose object is not there any more, or never came to be; they are left out.
        catches_absolute_paths: compilers that were called by an absolute path were caught too.
        hints: what to do where that was not what was wanted.
    """

    database: Path
    entries: int
    build_exit_code: int
    vanished: int
    catches_absolute_paths: bool
    hints: tuple[str, ...] = ()


def record(
    command: Sequence[str],
    database: Path,
    *,
    llvm: LLVM,
    flags: Sequence[str] = (),
    append: bool = False,
    cwd: Path | None = None,
    stdout: int | None = None,
    env: Mapping[str, str] | None = None,
) -> RecordResult:
    """Run the build `command`; every C and C++ compile in it is done by `llvm`'s clang and embeds its bitcode.

    Args:
        command: the build, e.g. `["make", "-j4"]`.
        database: the compile database to write, with `arguments` and `output` for each object.
        llvm: whose clang compiles, whatever compiler the build calls.
        flags: added to every compile after the build's own, e.g. `["-Oz"]`.
        append: keep the entries that the database has for other objects.
        cwd: where to run the build.
        stdout: where the build's stdout goes; ours by default.
        env: the build's environment; ours by default.

    Raises:
        CorpusError: the database cannot be written, or an existing one not be read.
        ToolchainError: the build cannot be started.
    """
    kept = _existing_entries(database) if append else []
    with tempfile.TemporaryDirectory(prefix="mlgo-record-") as temporary:
        folder = Path(temporary)
        hook = _build_hook(llvm, folder)
        objects = database.absolute().with_suffix(".objects")
        environment = _environment(dict(os.environ if env is None else env), folder, hook, llvm, flags, objects)
        with child(command, cwd=cwd, env=environment, stdin=None, stdout=stdout) as build:
            exit_code = build.wait(BUILD_LIMIT_S)
        entries, vanished = _present(_logged(folder / "log"))
    merged = {_object_of(each): each for each in [*kept, *entries]}
    try:
        write_text(database, json.dumps(list(merged.values()), indent=2) + "\n")
    except OSError as error:
        raise CorpusError(f"{database} cannot be written: {error.strerror}") from error
    return RecordResult(
        database=database,
        entries=len(merged),
        build_exit_code=exit_code,
        vanished=vanished,
        catches_absolute_paths=hook is not None,
        hints=_hints(len(merged), hook is not None),
    )


def _hints(entries: int, has_hook: bool) -> tuple[str, ...]:
    hints = []
    if not entries:
        hints.append("nothing was compiled: is everything up to date? `make clean` first, or touch the sources")
    if not has_hook:
        hints.append("compilers called by an absolute path were not caught: the C library's headers are not installed")
    return tuple(hints)


def _build_hook(llvm: LLVM, folder: Path) -> Path | None:
    """The library to preload, or None where it cannot be built (no C library headers, no linker)."""
    hook = folder / "exec_hook.so"
    try:
        built = run([llvm.clang, "-shared", "-fPIC", "-O1", HOOK_SOURCE, "-o", hook, "-ldl"], limit_s=HOOK_LIMIT_S)
    except ToolchainError:
        return None
    if built.returncode != 0 or not sys.platform.startswith("linux"):
        return None
    return hook


def _environment(
    env: dict[str, str], folder: Path, hook: Path | None, llvm: LLVM, flags: Sequence[str], objects: Path
) -> dict[str, str]:
    shims = folder / "shims"
    _write_shims(shims, folder)
    env |= {
        compiler_shim.LOG: str(folder / "log"),
        compiler_shim.CLANG: str(llvm.clang),
        compiler_shim.FLAGS: compiler_shim.SEPARATOR.join(flags),
        compiler_shim.OBJECTS: str(objects),
        "CCACHE_DISABLE": "1",  # a hit in a cache compiles nothing, so there is nothing to record
    }
    path = env.get("PATH", os.defpath)
    if hook is None:
        env["PATH"] = f"{shims}{os.pathsep}{path}"
        return env | {"CC": str(shims / "cc"), "CXX": str(shims / "c++")}
    # The hook catches what is found; the shims behind PATH are for names like `clang` that a machine may not have.
    env["PATH"] = f"{path}{os.pathsep}{shims}"
    env["LD_PRELOAD"] = f"{hook}:{env['LD_PRELOAD']}" if env.get("LD_PRELOAD") else str(hook)
    env["MLGO_RECORD_SHIMS"] = str(shims)
    env.setdefault("CC", str(llvm.clang))
    env.setdefault("CXX", str(_cxx_of(llvm)))
    return env


def _cxx_of(llvm: LLVM) -> Path:
    """The C++ driver beside clang; build systems want one name, not a clang with a flag."""
    beside = llvm.clang.with_name(llvm.clang.name.replace("clang", "clang++"))
    return beside if beside.exists() else llvm.clang.resolve().with_name("clang++")


def _write_shims(shims: Path, folder: Path) -> None:
    """The shims, and beside them the few modules that they run, so that they need no installed package."""
    package = folder / "lib" / "pymlgo" / "corpus"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    for name in ("compiler_shim.py", "driver_line.py"):
        shutil.copyfile(Path(__file__).with_name(name), package / name)
    shims.mkdir()
    for kind, names in SHIM_NAMES.items():
        for name in names:
            shim = shims / name
            shim.write_text(_shim_text(kind, folder / "lib"))
            shim.chmod(0o755)


def _shim_text(kind: str, library: Path) -> str:
    program = f"""import sys
sys.path.insert(0, {str(library)!r})
from pymlgo.corpus.compiler_shim import main
main({kind!r}, sys.argv[1:])
"""
    if len(sys.executable) < LONGEST_INTERPRETER and not any(each.isspace() for each in sys.executable):
        return f"#!{sys.executable} -IS\n{program}"
    return f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -IS -c {shlex.quote(program)} "$@"\n'


def _logged(log: Path) -> Iterator[dict[str, object]]:
    if not log.exists():
        return
    with log.open(encoding="utf-8") as stream:
        for line in stream:
            if line.endswith("\n"):  # a compiler that was killed may have left half a line
                yield json.loads(line)


def _present(entries: Iterator[dict[str, object]]) -> tuple[list[dict[str, object]], int]:
    """The entries whose object exists, the last one for each object; and how many have none."""
    last = {_object_of(each): each for each in entries}
    present = [each for path, each in last.items() if os.path.exists(path)]
    return present, len(last) - len(present)


def _object_of(entry: Mapping[str, object]) -> str:
    return os.path.normpath(os.path.join(str(entry["directory"]), str(entry["output"])))


def _existing_entries(database: Path) -> list[dict[str, object]]:
    from pymlgo.corpus.compile_database import json_list

    if not database.exists():
        return []
    return [
        each
        for each in json_list(database)
        if isinstance(each, dict) and isinstance(each.get("directory"), str) and isinstance(each.get("output"), str)
    ]
