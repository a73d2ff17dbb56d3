"""`mlgo corpus verify | dedup | scrub | split | index | export`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pymlgo.cli.corpus import say
from pymlgo.cli.json_output import print_json

if TYPE_CHECKING:
    from pymlgo.corpus.subset import SubsetResult


def configure_verify(parser: argparse.ArgumentParser) -> None:
    """The flags of `mlgo corpus verify`."""
    parser.add_argument("corpus", type=Path, metavar="CORPUS")
    parser.add_argument("--clang", metavar="PATH", help="the clang that replays (default: the newest)")
    parser.add_argument(
        "--obj-base-dir", type=Path, metavar="DIR", help="where the build's objects are, by module name"
    )
    parser.add_argument("--num-workers", type=int, metavar="N", help="compilers at once (default: hardware threads)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run_verify(arguments: argparse.Namespace) -> int:
    """0 if no module differs or failed, else 1."""
    from pymlgo.corpus.verify import verify
    from pymlgo.toolchain.llvm import find_llvm

    result = verify(
        arguments.corpus,
        find_llvm(clang=arguments.clang),
        obj_base_dir=arguments.obj_base_dir,
        workers=arguments.num_workers,
    )
    if arguments.json:
        print_json("corpus-verify-1", result)
    say(
        f"{result.modules} modules: {result.identical} identical, {result.symbol_names_only} but for names of private "
        f"symbols, {result.different} different, {result.failed} failed"
    )
    for name, detail in [*result.different_modules.items(), *result.failed_modules.items()]:
        say(f"  {name}: {detail}")
    return 1 if result.different or result.failed or not result.modules else 0


def configure_dedup(parser: argparse.ArgumentParser) -> None:
    """The flags of `mlgo corpus dedup`."""
    _add_corpus_and_output(parser)
    parser.add_argument("--by-source", action="store_true", help="also keep one module of each source file only")


def run_dedup(arguments: argparse.Namespace) -> int:
    """0 if a module is left, else 1."""
    from pymlgo.corpus.subset import dedup

    result = dedup(arguments.corpus, arguments.output_dir, by_source=arguments.by_source)
    return _show_subset("dedup", result, as_json=arguments.json)


def configure_scrub(parser: argparse.ArgumentParser) -> None:
    """The flags of `mlgo corpus scrub`."""
    _add_corpus_and_output(parser)


def run_scrub(arguments: argparse.Namespace) -> int:
    """0 if there is a module, else 1."""
    from pymlgo.corpus.subset import scrub

    return _show_subset("scrub", scrub(arguments.corpus, arguments.output_dir), as_json=arguments.json)


def configure_split(parser: argparse.ArgumentParser) -> None:
    """The flags of `mlgo corpus split`."""
    _add_corpus_and_output(parser)
    parser.add_argument("--evaluation", default="", metavar="A,B", help="the projects to hold out (default: drawn)")
    parser.add_argument("--fraction", type=float, default=0.2, help="of the bitcode to hold out (default: 0.2)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default: 0)")
    parser.add_argument("--by", choices=("project", "module"), default="project", help="what is drawn")


def run_split(arguments: argparse.Namespace) -> int:
    """0: there are two corpora."""
    from pymlgo.corpus.subset import split

    result = split(
        arguments.corpus,
        arguments.output_dir,
        evaluation=[each for each in arguments.evaluation.split(",") if each],
        fraction=arguments.fraction,
        seed=arguments.seed,
        by=arguments.by,
    )
    if arguments.json:
        print_json("corpus-split-1", result)
    for part, projects in ((result.train, result.train_projects), (result.evaluation, result.evaluation_projects)):
        say(f"{part.modules} modules in {part.output_dir} ({', '.join(projects)})")
    return 0


def configure_export(parser: argparse.ArgumentParser) -> None:
    """The flags of `mlgo corpus export`."""
    parser.add_argument("corpus", type=Path, metavar="CORPUS")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="the Parquet file to write")
    parser.add_argument("--without-bitcode", action="store_true", help="leave the bitcode's bytes out")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run_export(arguments: argparse.Namespace) -> int:
    """0 if every module is in the table, else 1."""
    from pymlgo.corpus.export import export

    result = export(arguments.corpus, arguments.output, with_bitcode=not arguments.without_bitcode)
    if arguments.json:
        print_json("corpus-export-1", result)
    say(f"{result.rows} rows in {result.table}" + (f", {result.unusable} unusable" if result.unusable else ""))
    return 1 if result.unusable or not result.rows else 0


def _add_corpus_and_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", type=Path, metavar="CORPUS")
    parser.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help="the new corpus")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _show_subset(verb: str, result: SubsetResult, *, as_json: bool) -> int:
    if as_json:
        print_json(f"corpus-{verb}-1", result)
    say(f"{result.modules} modules in {result.output_dir}")
    for reason, count in result.dropped.items():
        say(f"  dropped {count}: {reason}")
    return 0 if result.modules else 1
