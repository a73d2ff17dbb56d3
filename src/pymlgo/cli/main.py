"""`mlgo VERB …`: finds the verb's module, runs it, and turns our errors into two lines and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Collection, Sequence
from types import ModuleType

from pymlgo.errors import MLGOError

VERBS = {
    "doctor": "what the LLVMs on this machine can do",
    "corpus": "make and look after corpora of bitcode",
    "log": "show, summarize, export and record training logs",
    "host": "answer a compiler's questions over the interactive channel",
    "policy": "list, inspect, compile, import, export and time policies",
    "embed": "IR2Vec and MIR2Vec embeddings, triplets and vocabularies",
    "train": "learn a policy from a corpus",
    "tune": "search for the best decisions of each module",
    "eval": "measure a policy against LLVM's default",
    "runs": "list, show and compare training runs",
    "deploy": "put a policy into a stock clang",
    "clang": "compile with a policy, as a drop-in for clang",
    "completion": "print the shell's completion script",
}
"""Each verb is the module `pymlgo.cli.<verb>` with `configure(parser)` and `run(arguments) -> int`."""

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0 fine, 1 work failed, 2 usage, 3 the toolchain lacks something, 130 interrupted."""
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()  # here, where a reader that is gone is expected, not while Python shuts down
    except MLGOError as error:
        return report(error)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has what it wanted, as `| head` does; Python would complain once more while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(arguments: list[str]) -> int:
    verb = next((word for word in arguments if not word.startswith("-")), None)
    parser = build_parser([verb] if verb in VERBS else [])
    parsed = parser.parse_args(arguments)
    if parsed.verb is None:
        parser.print_help()
        return EXIT_USAGE
    return int(verb_module(parsed.verb).run(parsed))


def build_parser(configured: Collection[str]) -> argparse.ArgumentParser:
    """The command line, with the arguments of the `configured` verbs only: loading one verb keeps the start cheap."""
    from pymlgo import __version__

    parser = argparse.ArgumentParser(prog="mlgo", description="ML-guided optimization for the LLVM you already have.")
    parser.add_argument("--version", action="version", version=f"mlgo {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    for name, summary in VERBS.items():
        described = verbs.add_parser(name, help=summary, description=summary)
        if name in configured:
            verb_module(name).configure(described)
    return parser


def verb_module(name: str) -> ModuleType:
    """The module that implements a verb."""
    return importlib.import_module(f"pymlgo.cli.{name}")


def report(error: MLGOError) -> int:
    """Print `error:` and `hint:` lines on stderr; the exit code that belongs to the error."""
    print(f"error: {error}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
