"""`mlgo doctor`: what the LLVMs on this machine can do, and what a clang's message means."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb's command line."""
    parser.add_argument("--clang", metavar="CLANG", help="look at this clang only")
    parser.add_argument("--fresh", action="store_true", help="try everything again, even what is remembered")
    parser.add_argument(
        "--explain", metavar="FILE", help="say what the messages of clang in FILE (`-` for stdin) mean, and do no more"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """The exit code: 0, 1 when no message of `--explain` is known, 3 when no LLVM is found."""
    if arguments.explain is not None:
        return _explain(arguments.explain)
    from pymlgo.toolchain.doctor import examine

    report = examine(clang=arguments.clang, use_cache=not arguments.fresh)
    if arguments.json:
        from pymlgo.cli.json_output import print_json

        print_json("doctor-1", report)
    else:
        print(report.to_text())
    return 0


def _explain(file: str) -> int:
    from pymlgo.errors import ToolchainError
    from pymlgo.toolchain.messages import explain

    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ToolchainError(f"{file} cannot be read: {error.strerror}") from error
    hint = explain(text.decode(errors="replace"))
    if hint is None:
        print("no known message of clang about MLGO", file=sys.stderr)
        return 1
    print(hint)
    return 0
