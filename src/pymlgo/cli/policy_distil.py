"""`mlgo policy distil`: a small policy that decides as a large one does."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pymlgo.cli.executors import add_backend_argument, add_executor_arguments, chosen_executor
from pymlgo.cli.json_output import print_json
from pymlgo.policy.shipped import POLICY_HELP, find_policy

if TYPE_CHECKING:
    from pymlgo.train.distil import Distillation

SCHEMA = "policy-distil-1"


def distil_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `mlgo policy distil`."""
    parser.add_argument("policy", type=find_policy, help=POLICY_HELP)
    parser.add_argument(
        "--corpus",
        type=Path,
        action="append",
        required=True,
        help="modules to watch the policy decide about; may be given several times",
    )
    parser.add_argument("--shape", choices=("small-trees", "mlp"), default="small-trees", help="(small-trees)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="the policy directory to write")
    parser.add_argument("--seed", type=int, default=1, help="of the projects held out, and of the fit (1)")
    parser.add_argument("--clang", help="clang, or the name of one (default: the newest LLVM)")
    add_backend_argument(parser, "what compiles")
    add_executor_arguments(parser)


def run_distil(arguments: argparse.Namespace) -> int:
    """Of `mlgo policy distil`: 0 if every module compiled, 1 if some did not."""
    from pymlgo.corpus.description import read_corpus
    from pymlgo.policy.directory import load_policy
    from pymlgo.rollout.choice import chosen_backend
    from pymlgo.toolchain.llvm import find_llvm
    from pymlgo.train.distil import distil

    teacher = load_policy(arguments.policy)
    corpora = [read_corpus(each) for each in arguments.corpus]
    llvm = find_llvm(clang=arguments.clang)
    with chosen_executor(arguments) as executor:
        result = distil(
            teacher,
            [module for corpus in corpora for module in corpus.modules],
            arguments.output,
            shape=arguments.shape,
            llvm=llvm,
            backend=chosen_backend(arguments.backend, llvm),
            executor=executor,
            seed=arguments.seed,
            unusable=[module for corpus in corpora for module in corpus.unusable],
        )
    if arguments.json:
        print_json(SCHEMA, result)
    else:
        _print(result)
    return 1 if result.failures else 0


def _print(result: Distillation) -> None:
    print(
        f"{result.output}: {result.shape} from {result.decisions} decisions, {result.student_parameters} parameters "
        f"instead of {result.teacher_parameters}; {result.compiles} compiles, {result.cpu_s:.0f} CPU seconds"
    )
    where = "of projects that it was not fitted to" if result.by_project else "of the same project"
    departures = (
        f", {result.departures_agreement_percent:.1f} % where the large one departs from LLVM's default"
        if result.departures_agreement_percent is not None
        else ""
    )
    print(f"{result.held_out} modules {where}: {result.agreement_percent:.1f} % of decisions agree{departures}")
    print(
        f".text {result.student_change_percent:+.3f} % instead of {result.teacher_change_percent:+.3f} %, "
        f"Berkeley {result.student_berkeley_change_percent:+.3f} % instead of "
        f"{result.teacher_berkeley_change_percent:+.3f} %, against LLVM's default"
    )
    for reason, count in result.failures.items():
        print(f"{count} compiles failed: {reason}")
