"""`mlgo eval`: a policy against LLVM's default, on every module of a corpus."""

from __future__ import annotations

import argparse
from pathlib import Path

from pymlgo.cli.executors import add_backend_argument, add_executor_arguments, chosen_executor
from pymlgo.cli.json_output import print_json
from pymlgo.policy.shipped import POLICY_HELP, find_policy

SCHEMA = "eval-1"


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb's arguments."""
    parser.add_argument("policy", help=f"{POLICY_HELP}, or 'default' for LLVM's own decisions (changes nothing)")
    parser.add_argument("--corpus", type=Path, required=True, help="the corpus to measure on")
    parser.add_argument("--clang", help="clang, or the name of one (default: the newest LLVM)")
    add_backend_argument(
        parser, "what compiles with the policy; stock is clang itself, with the plugin if it may", default="stock"
    )
    add_executor_arguments(parser)
    parser.add_argument(
        "--reuse-defaults",
        action="store_true",
        help="take default sizes that earlier runs of this clang measured, instead of compiling and linking again",
    )
    parser.add_argument(
        "--no-linked", action="store_true", help="do not link each program to see what is left of the change"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """0 if every module was measured, 1 if some failed."""
    from pymlgo.corpus.description import read_corpus
    from pymlgo.evaluate import evaluate
    from pymlgo.policy.directory import load_policy
    from pymlgo.rollout import BaselineCache
    from pymlgo.rollout.choice import chosen_backend
    from pymlgo.toolchain.llvm import find_llvm

    policy = None if arguments.policy == "default" else load_policy(find_policy(arguments.policy))
    corpus = read_corpus(arguments.corpus)
    llvm = find_llvm(clang=arguments.clang)
    problem = policy.problem if policy else "inlining"
    with chosen_executor(arguments) as executor:
        result = evaluate(
            policy,
            corpus,
            name=arguments.policy,
            llvm=llvm,
            backend=chosen_backend(arguments.backend, llvm, problem),
            executor=executor,
            cache=BaselineCache.default() if arguments.reuse_defaults else None,
            linked=not arguments.no_linked,
        )
    if arguments.json:
        print_json(SCHEMA, result)
    else:
        from pymlgo.cli.eval_table import print_table

        print_table(result)
    return 1 if result.failed else 0
