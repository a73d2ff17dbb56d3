"""`mlgo corpus fetch RECIPE`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pymlgo.cli.corpus import say
from pymlgo.cli.json_output import print_json

if TYPE_CHECKING:
    from pymlgo.corpus.recipe import ProjectOutcome


def configure_fetch(parser: argparse.ArgumentParser) -> None:
    """The flags of `mlgo corpus fetch`."""
    parser.add_argument("recipe", type=Path, metavar="RECIPE", help="a recipe's TOML file")
    parser.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help="gets train/ and evaluation/")
    parser.add_argument("--work-dir", type=Path, metavar="DIR", help="where to build (default: OUTPUT_DIR.work)")
    parser.add_argument("--project", action="append", default=[], metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--clang", metavar="PATH", help="the clang that compiles (default: the newest)")
    parser.add_argument(
        "--any-version", action="store_true", help="where the pinned version is gone, take what is there"
    )
    parser.add_argument("--keep-sources", action="store_true", help="leave the built projects, for `verify`")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run_fetch(arguments: argparse.Namespace) -> int:
    """0 if every project gave modules, else 1."""
    from pymlgo.corpus.recipe import fetch_recipe, read_recipe
    from pymlgo.toolchain.llvm import find_llvm

    output: Path = arguments.output_dir
    result = fetch_recipe(
        read_recipe(arguments.recipe),
        arguments.work_dir or output.with_name(f"{output.name}.work"),
        output,
        llvm=find_llvm(clang=arguments.clang),
        only=arguments.project,
        any_version=arguments.any_version,
        keep_sources=arguments.keep_sources,
        report=say_outcome,
    )
    if arguments.json:
        print_json("corpus-fetch-1", result)
    for split, folder in result.corpora.items():
        say(f"{split}: {folder}")
    say(f"{result.modules} modules of {len(result.projects)} projects")
    return 1 if result.failures else 0


def say_outcome(outcome: ProjectOutcome) -> None:
    """A line for one project."""
    if outcome.failure:
        say(f"  {outcome.name}: {outcome.failure} failed: {outcome.detail}")
        return
    expected = "" if outcome.modules == outcome.expected else f" (the recipe says {outcome.expected})"
    how = "was there" if outcome.reused else f"{outcome.wall_s:.0f} s"
    say(f"  {outcome.name} {outcome.version}: {outcome.modules} modules{expected}, {how}")
