"""Small real builds that the tests of this folder share."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

EMBED = ("-Xclang", "-fembed-bitcode=all")

SOURCE = """
extern int other(int);
static int helper_NAME(int x) { return other(x) * 3 + x; }
int first_NAME(int x) { return helper_NAME(x) + helper_NAME(x + 1); }
int second_NAME(int x) { int s = 0; for (int i = 0; i < x; ++i) s += helper_NAME(i); return s; }
"""


def write_source(folder: Path, path: str) -> str:
    """A C file at `path` below `folder` with functions of its own names."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SOURCE.replace("NAME", "".join(each if each.isalnum() else "_" for each in path)))
    return path


def compile_file(clang: Path, folder: Path, source: str, output: str, *flags: str) -> list[str]:
    """Compile with embedded bitcode unless `flags` say how; returns the command."""
    (folder / output).parent.mkdir(parents=True, exist_ok=True)
    command = [str(clang), "-O2", *(flags or EMBED), "-c", source, "-o", output]
    subprocess.run(command, cwd=folder, check=True)
    return command


def small_build(clang: Path, folder: Path, sources: tuple[str, ...] = ("a.c", "lib/b.c", "lib/deep/c.c")) -> Path:
    """A folder with sources, objects beside them, and a compile database in `command` form."""
    entries = []
    for source in sources:
        write_source(folder, source)
        command = compile_file(clang, folder, source, f"{source}.o")
        entries.append({"directory": str(folder), "command": " ".join(command), "file": source})
    return write_database(folder, entries)


def write_database(folder: Path, entries: object) -> Path:
    """`compile_commands.json` in `folder`."""
    path = folder / "compile_commands.json"
    path.write_text(json.dumps(entries))
    return path


PEER = "mlgo-utils==19.0.0.dev202407180600"
"""The last packaged version of LLVM's own tools."""


@functools.cache
def peer(script: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment of one of mlgo-utils' programs, which is installed below build/ when first wanted."""
    folder = ROOT / "build" / "mlgo-utils"
    if not (folder / "mlgo").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, PEER]
        finished = subprocess.run(command, check=False, capture_output=True, text=True)
        if finished.returncode != 0:
            message = f"{PEER} cannot be installed: {finished.stderr.strip()[-300:]}"
            if os.environ.get("CI"):
                pytest.fail(message)
            pytest.skip(message)
    program = f"from mlgo.corpus.{script} import parse_args_and_run as run; run()"
    return [sys.executable, "-c", program], {**os.environ, "PYTHONPATH": str(folder)}


def run_peer(script: str, *arguments: object, cwd: Path) -> int:
    """The exit code of one of mlgo-utils' programs."""
    command, environment = peer(script)
    return subprocess.run(
        [*command, *map(str, arguments)], cwd=cwd, env=environment, check=False, capture_output=True
    ).returncode


def files_of(corpus: Path) -> dict[str, bytes]:
    """The corpus's files by their relative path, without what only we write."""
    return {
        str(file.relative_to(corpus)): file.read_bytes()
        for file in corpus.rglob("*")
        if file.is_file() and file.name != "corpus_manifest.jsonl"
    }
