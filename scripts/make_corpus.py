#!/usr/bin/env python3
"""LLVM's `make_corpus.py` by its own command line, done by `mlgo corpus make`.

Source: llvm/utils/mlgo-utils/mlgo/corpus/make_corpus.py (LLVM 22).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pymlgo.cli.corpus import say, say_skipped
from pymlgo.cli.main import report
from pymlgo.corpus.make import make_corpus
from pymlgo.errors import MLGOError


def main() -> int:
    """0 if there was a bitcode file, else 1."""
    parser = argparse.ArgumentParser(description="Make a corpus of a folder of bitcode files.")
    parser.add_argument("--input_dir", type=Path, required=True)
    parser.add_argument("--output_dir", type=Path, required=True)
    parser.add_argument("--default_args", default="", nargs="?", help="flags that all modules are compiled with")
    arguments = parser.parse_args()
    try:
        result = make_corpus(
            arguments.input_dir, arguments.output_dir, default_args=(arguments.default_args or "").split()
        )
    except MLGOError as error:
        return report(error)
    say(f"{result.modules} modules; what a model learns depends on the stage that the bitcode was taken at")
    say_skipped(result.skipped, result.examples)
    return 0 if result.modules else 1


if __name__ == "__main__":
    sys.exit(main())
