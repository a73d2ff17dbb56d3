"""`mlgo tune`: search for the best decisions of each module."""

from __future__ import annotations

import argparse
from pathlib import Path

from pymlgo.cli.json_output import print_json

SCHEMA = "tune-1"


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb's arguments."""
    parser.add_argument("--corpus", type=Path, required=True, help="the corpus whose modules are searched")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OVERRIDES", help="a folder: a file of overrides per module"
    )
    parser.add_argument("--max-compiles", type=int, default=120, metavar="N", help="of each module (120)")
    parser.add_argument("--seed", type=int, default=1, help="of what is flipped when (1)")
    parser.add_argument("--modules", metavar="RE", help="only modules whose name this matches")
    parser.add_argument("--clang", help="clang, or the name of one (default: the newest LLVM)")
    parser.add_argument(
        "--backend",
        choices=("fastest", "stock", "engine", "plugin", "pipes"),
        default="fastest",
        help="what compiles (default: fastest)",
    )
    parser.add_argument("--jobs", type=int, help="compiles at a time (default: one for each core)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """0 if every module compiled, 1 if some did not."""
    import re

    from pymlgo.corpus.description import read_corpus
    from pymlgo.errors import ConfigError
    from pymlgo.rollout import LocalExecutor
    from pymlgo.rollout.choice import chosen_backend
    from pymlgo.toolchain.llvm import find_llvm
    from pymlgo.train.tune import tune

    if arguments.max_compiles < 2:
        raise ConfigError(f"--max-compiles must be at least 2, found {arguments.max_compiles}")
    if arguments.jobs is not None and arguments.jobs < 1:
        raise ConfigError(f"--jobs must be at least 1, found {arguments.jobs}")
    try:
        wanted = re.compile(arguments.modules or "")
    except re.error as error:
        raise ConfigError(f"--modules is no regular expression: {error}") from error
    corpus = read_corpus(arguments.corpus)
    llvm = find_llvm(clang=arguments.clang)
    with LocalExecutor(arguments.jobs) as executor:
        result = tune(
            [module for module in corpus.modules if wanted.search(module.name)],
            arguments.output,
            backend=chosen_backend(arguments.backend, llvm),
            executor=executor,
            max_compiles=arguments.max_compiles,
            seed=arguments.seed,
        )
    if arguments.json:
        print_json(SCHEMA, result)
    else:
        print(
            f"{result.output}: .text {result.default_text_bytes:,} -> {result.tuned_text_bytes:,} bytes "
            f"({result.text_change_percent:+.3f} %), Berkeley {result.berkeley_change_percent:+.3f} %; "
            f"{result.improved} of {len(result.modules)} modules improved; "
            f"{result.compiles} compiles, {result.cpu_s:.0f} CPU seconds"
        )
        for each in sorted(result.modules, key=lambda each: each.tuned_text_bytes - each.default_text_bytes):
            if each.overrides and each.tuned_text_bytes < each.default_text_bytes:
                print(f"  {each.name}: {each.text_change_percent:+.2f} % with {each.overrides} overrides")
        for name, why in result.failed_modules.items():
            print(f"  {name} failed: {why}")
    return 1 if result.failed else 0
