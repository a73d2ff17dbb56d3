"""`mlgo tune`: search for the best decisions of each module."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pymlgo.cli.executors import add_backend_argument, add_executor_arguments, chosen_executor
from pymlgo.cli.json_output import print_json
from pymlgo.policy.shipped import POLICY_HELP, default_policy, find_policy

if TYPE_CHECKING:
    from pymlgo.policy.policy import Policy
    from pymlgo.rollout import Backend
    from pymlgo.train.tune_result import TuneResult

SCHEMA = "tune-1"


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb's arguments."""
    parser.add_argument("--corpus", type=Path, required=True, help="the corpus whose modules are searched")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="OVERRIDES",
        help="the file of decisions for `mlgo clang --overrides`, for all modules together",
    )
    parser.add_argument("--each", type=Path, metavar="DIR", help="also a file of each module's own decisions, in DIR")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="POLICY",
        help=f"begin with the decisions of {POLICY_HELP} where they are better than LLVM's; 'default' for LLVM's alone "
        "(default: this package's policy for inlining, if it has one that the backend can use)",
    )
    parser.add_argument("--max-compiles", type=int, default=120, metavar="N", help="of each module (120)")
    parser.add_argument("--seed", type=int, default=1, help="of what is flipped when (1)")
    parser.add_argument("--modules", metavar="RE", help="only modules whose name this matches")
    parser.add_argument("--clang", help="clang, or the name of one (default: the newest LLVM)")
    add_backend_argument(parser, "what compiles")
    add_executor_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """0 if every module compiled, 1 if some did not."""
    import re

    from pymlgo.corpus.description import read_corpus
    from pymlgo.errors import ConfigError
    from pymlgo.rollout.choice import chosen_backend
    from pymlgo.toolchain.llvm import find_llvm
    from pymlgo.train.tune import tune

    if arguments.max_compiles < 2:
        raise ConfigError(f"--max-compiles must be at least 2, found {arguments.max_compiles}")
    try:
        wanted = re.compile(arguments.modules or "")
    except re.error as error:
        raise ConfigError(f"--modules is no regular expression: {error}") from error
    if arguments.output.is_dir():
        raise ConfigError(f"{arguments.output} is a folder", hint="name a file; --each DIR takes a file per module")
    corpus = read_corpus(arguments.corpus)
    llvm = find_llvm(clang=arguments.clang)
    backend = chosen_backend(arguments.backend, llvm)
    with chosen_executor(arguments) as executor:
        result = tune(
            [module for module in corpus.modules if wanted.search(module.name)],
            arguments.output,
            backend=backend,
            executor=executor,
            max_compiles=arguments.max_compiles,
            seed=arguments.seed,
            start=_start(arguments.start, backend),
            each_output=arguments.each,
            unusable=[module for module in corpus.unusable if wanted.search(module.name)],
        )
    if arguments.json:
        print_json(SCHEMA, result)
    else:
        _print(result)
    return 1 if result.failed else 0


def _start(named: str | None, backend: Backend) -> Policy | None:
    from pymlgo.policy.directory import load_policy

    if named == "default":
        return None
    if named is not None:
        return load_policy(find_policy(named))
    # The channel has no names for what this package's policy looks at.
    shipped = None if backend.name == "pipes" else default_policy(["-Oz"])
    return load_policy(shipped) if shipped else None


def _print(result: TuneResult) -> None:
    from pymlgo.rollout import change_percent

    print(
        f"{result.output}: .text {result.default_text_bytes:,} -> {result.merged_text_bytes:,} bytes "
        f"({result.text_change_percent:+.3f} %), Berkeley {result.berkeley_change_percent:+.3f} %; "
        f"{result.improved} of {len(result.modules)} modules improved; "
        f"{result.compiles} compiles, {result.cpu_s:.0f} CPU seconds"
    )
    print(
        f"{result.overrides} decisions; {result.left_out} more were good for one module and bad for others "
        f"({result.tuned_change_percent:+.3f} % if each module had its own)"
    )
    for each in sorted(result.modules, key=lambda each: each.merged_text_bytes - each.default_text_bytes):
        if each.merged_text_bytes < each.default_text_bytes:
            change = change_percent(each.default_text_bytes, each.merged_text_bytes)
            print(f"  {each.name}: {each.default_text_bytes:,} -> {each.merged_text_bytes:,} bytes ({change:+.2f} %)")
    for name, why in result.failed_modules.items():
        print(f"  {name} failed: {why}")
