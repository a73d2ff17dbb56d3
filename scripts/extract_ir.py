#!/usr/bin/env python3
"""LLVM's `extract_ir.py` by its own command line, done by `mlgo corpus extract`.

Source: llvm/utils/mlgo-utils/mlgo/corpus/extract_ir.py (LLVM 22); same flags, same meaning. As there, most flags may
stand without a value, which means their default.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pymlgo.cli.corpus import say, say_hints, say_skipped
from pymlgo.cli.main import report
from pymlgo.corpus.embedded import SectionNames
from pymlgo.corpus.extract import ExtractOptions
from pymlgo.corpus.inputs import INPUT_TYPES, MISSPELLED_AQUERY, extract_corpus
from pymlgo.errors import MLGOError


def main() -> int:
    """0 if a module was extracted, else 1; 2 for flags that do not go together."""
    arguments = parser().parse_args()
    if arguments.input_type == MISSPELLED_AQUERY:
        say(f"hint: the input type is spelled bazel_aquery; {MISSPELLED_AQUERY}, the document's slip, is taken for it")
    try:
        result = extract_corpus(
            Path(arguments.input) if arguments.input else None,
            Path(arguments.output_dir or "."),
            input_type=arguments.input_type or "json",
            obj_base_dir=Path(arguments.obj_base_dir) if arguments.obj_base_dir else None,
            options=ExtractOptions(
                cmd_filter=arguments.cmd_filter,
                thinlto=arguments.thinlto_build,
                sections=SectionNames(
                    bitcode=arguments.bitcode_section_name or ".llvmbc",
                    command=arguments.cmd_section_name or ".llvmcmd",
                ),
                objcopy=arguments.llvm_objcopy_path,
                workers=arguments.num_workers,
            ),
        )
    except MLGOError as error:
        return report(error)
    say(f"Converted {result.modules} files; {sum(result.skipped.values())} were skipped")
    say_skipped(result.skipped, result.examples)
    say_hints(result.hints)
    return 0 if result.modules else 1


def parser() -> argparse.ArgumentParser:
    """LLVM's flags."""
    described = argparse.ArgumentParser(description="Extract a corpus of bitcode from a build.")
    described.add_argument("--input", help="compile_commands.json, linker parameter file, folder or aquery result")
    described.add_argument(
        "--input_type", choices=(*INPUT_TYPES, MISSPELLED_AQUERY), default="json", nargs="?", help="default: json"
    )
    described.add_argument("--output_dir", help="the corpus")
    described.add_argument("--num_workers", type=int, nargs="?", help="default: hardware threads")
    described.add_argument("--llvm_objcopy_path", nargs="?", help="read objects with it; default: in process")
    described.add_argument("--obj_base_dir", default="", nargs="?", help="name objects relative to this folder")
    described.add_argument("--cmd_filter", nargs="?", help="keep modules with an argument that matches")
    described.add_argument("--thinlto_build", choices=("distributed", "local"), nargs="?", help="how ThinLTO was used")
    described.add_argument("--cmd_section_name", default=".llvmcmd", nargs="?", help="default: .llvmcmd")
    described.add_argument("--bitcode_section_name", default=".llvmbc", nargs="?", help="default: .llvmbc")
    return described


if __name__ == "__main__":
    sys.exit(main())
