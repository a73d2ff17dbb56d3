"""`mlgo corpus record -- BUILD…`."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from pymlgo.cli.corpus import say, say_hints
from pymlgo.cli.json_output import print_json


def configure_record(parser: argparse.ArgumentParser) -> None:
    """The flags of `mlgo corpus record`."""
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("compile_commands.json"),
        metavar="FILE",
        help="the compile database to write (default: compile_commands.json)",
    )
    parser.add_argument("--append", action="store_true", help="keep the database's entries for other objects")
    parser.add_argument("--clang", metavar="PATH", help="the clang that compiles (default: the newest)")
    parser.add_argument("--flags", default="", metavar="FLAGS", help="added to every compile, e.g. --flags=-Oz")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("build", nargs="+", metavar="BUILD", help="the build's command, after --")


def run_record(arguments: argparse.Namespace) -> int:
    """0 if the build succeeded and compiled something, else 1."""
    from pymlgo.corpus.record import record
    from pymlgo.toolchain.llvm import find_llvm

    result = record(
        arguments.build,
        arguments.output,
        llvm=find_llvm(clang=arguments.clang),
        flags=shlex.split(arguments.flags),
        append=arguments.append,
        stdout=sys.stderr.fileno() if arguments.json else None,
    )
    if arguments.json:
        print_json("corpus-record-1", result)
    say(f"{result.entries} compiles in {result.database}")
    if result.vanished:
        say(f"  left out {result.vanished} whose object is not there any more")
    if result.build_exit_code:
        say(f"error: the build failed with exit code {result.build_exit_code}; what it compiled is recorded")
    say_hints(result.hints)
    return 1 if result.build_exit_code or not result.entries else 0
