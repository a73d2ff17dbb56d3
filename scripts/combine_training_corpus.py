#!/usr/bin/env python3
"""LLVM's `combine_training_corpus.py` by its own command line, done by `mlgo corpus combine`.

Source: llvm/utils/mlgo-utils/mlgo/corpus/combine_training_corpus.py (LLVM 22).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pymlgo.cli.corpus import say
from pymlgo.cli.main import report
from pymlgo.corpus.make import combine_corpora
from pymlgo.errors import MLGOError


def main() -> int:
    """0 if there was a module, else 1."""
    parser = argparse.ArgumentParser(description="Combine the corpora in the sub-folders of a folder.")
    parser.add_argument("--root_dir", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        result = combine_corpora(arguments.root_dir)
    except MLGOError as error:
        return report(error)
    say(f"{result.modules} modules in {result.output_dir}")
    return 0 if result.modules else 1


if __name__ == "__main__":
    sys.exit(main())
