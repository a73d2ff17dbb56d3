"""`mlgo train`: learn a policy from a corpus."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pymlgo.cli.executors import add_backend_argument, add_executor_arguments, chosen_executor
from pymlgo.cli.json_output import print_json

if TYPE_CHECKING:
    from pymlgo.policy.policy import Policy
    from pymlgo.train import TrainResult
    from pymlgo.train.algorithms import AlgorithmOptions

SCHEMA = "train-1"
ALGORITHMS = ("flip-regression", "es", "bc-max", "ppo")

SETTINGS = {
    "rounds": ("flip-regression", "bc-max"),
    "sweeps": ("flip-regression", "bc-max"),
    "learner": ("flip-regression", "bc-max"),
    "strategy": ("es",),
    "shape": ("es",),
    "population": ("es",),
    "sigma": ("es",),
    "batch": ("es", "ppo"),
    "epochs": ("ppo",),
}
"""Arguments that only some algorithms have, as they have them; where one is not given, the algorithm's own default."""

EXTREMES = {"never": 0, "always": 1}
"""Starts that nobody would choose, but to see what an algorithm makes of them."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb's arguments."""
    parser.add_argument(
        "--corpus", type=Path, action="append", required=True, help="a corpus to learn from; may be given several times"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="POLICY", help="the policy directory")
    parser.add_argument("--budget", type=_seconds, metavar="TIME", help="stop after this time, e.g. 90s, 20m, 2h")
    parser.add_argument("--max-compiles", type=int, metavar="N", help="plan for N compiles; equal N, equal policy")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is drawn (default: 1)")
    parser.add_argument("--algorithm", choices=ALGORITHMS, default=ALGORITHMS[0], help=f"how ({ALGORITHMS[0]})")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="POLICY",
        help="start from this policy, or from `never` or `always` inlining (default: from LLVM's default)",
    )
    parser.add_argument(
        "--validation-share",
        type=float,
        default=0.25,
        help="of the bitcode, by whole projects, to judge by (0.25); 0: cross-validation by projects",
    )
    parser.add_argument(
        "--without-features", nargs="+", default=[], metavar="NAME", help="features that the policy must not use"
    )
    _configure_algorithms(parser.add_argument_group("algorithms"))
    parser.add_argument("--clang", help="clang, or the name of one (default: the newest LLVM)")
    add_backend_argument(parser, "what compiles; engine and plugin offer more features than the pipes")
    add_executor_arguments(parser)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where runs are kept (default: runs)")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with this run's folder")
    parser.add_argument("--tensorboard", action="store_true", help="also write the run for TensorBoard (its extra)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _configure_algorithms(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--rounds", type=_positive, help="flip-regression, bc-max: around the start, then the best (2)")
    group.add_argument("--sweeps", type=_positive, help="flip-regression, bc-max: compiles of a module each round (6)")
    group.add_argument(
        "--learner",
        choices=("trees", "mlp", "lightgbm"),
        help="flip-regression, bc-max: what is fitted (trees; lightgbm needs the extra 'trees')",
    )
    group.add_argument(
        "--strategy", choices=("cma", "openai"), help="es: CMA-ES (default; needs the extra 'cma') or OpenAI's"
    )
    group.add_argument("--shape", choices=("linear", "mlp"), help="es: of the policy (linear)")
    group.add_argument("--population", type=_positive, help="es: policies in a generation (10)")
    group.add_argument("--sigma", type=float, help="es: how much a first perturbation changes a score (0.3)")
    group.add_argument("--batch", type=_positive, help="es, ppo: modules in a round (8, 24)")
    group.add_argument("--epochs", type=_positive, help="ppo: passes over a round's decisions (6)")


def run(arguments: argparse.Namespace) -> int:
    """0 whether or not something better than the default was found; what came out says so."""
    from pymlgo.errors import ConfigError
    from pymlgo.rollout.choice import chosen_backend
    from pymlgo.toolchain.llvm import find_llvm
    from pymlgo.train import TrainRequest, train

    if not 0 <= arguments.validation_share < 1:
        raise ConfigError(f"--validation-share must be at least 0 and below 1, found {arguments.validation_share}")
    request = TrainRequest(
        corpora=tuple(arguments.corpus),
        options=_options(arguments),
        seed=arguments.seed,
        max_compiles=arguments.max_compiles,
        budget_s=arguments.budget,
        validation_share=arguments.validation_share,
        start=_start(arguments.start),
    )
    llvm = find_llvm(clang=arguments.clang)
    with chosen_executor(arguments) as executor:
        result = train(
            request,
            arguments.output,
            llvm=llvm,
            executor=executor,
            workers=executor.workers,
            runs=arguments.runs,
            backend=chosen_backend(arguments.backend, llvm),
            resume=arguments.resume,
            tensorboard=arguments.tensorboard,
        )
    if arguments.json:
        print_json(SCHEMA, result)
    else:
        _print(result)
    return 0


def _options(arguments: argparse.Namespace) -> AlgorithmOptions:
    from pymlgo.errors import ConfigError
    from pymlgo.train.algorithms import OPTIONS

    given = {name: value for name in SETTINGS if (value := getattr(arguments, name)) is not None}
    for name in given:
        if arguments.algorithm not in SETTINGS[name]:
            raise ConfigError(f"--{name} is not for {arguments.algorithm}, but for {' and '.join(SETTINGS[name])}")
    return OPTIONS[arguments.algorithm](**given, without_features=tuple(arguments.without_features))


def _start(named: str | None) -> Policy | None:
    from pymlgo.policy.directory import load_policy
    from pymlgo.policy.shapes import INLINING_ADVICE, constant_policy
    from pymlgo.policy.shipped import find_policy

    if named is None:
        return None
    if named in EXTREMES:
        return constant_policy("inlining", INLINING_ADVICE, EXTREMES[named])
    return load_policy(find_policy(named))


def _print(result: TrainResult) -> None:
    labels = f"{result.labels} labels from " if result.labels else ""
    print(
        f"{result.policy}: {result.algorithm}, {labels}{result.train_modules} modules; "
        f"{result.compiles} compiles, {result.cpu_s:.0f} CPU seconds, {result.elapsed_s:.0f} s, stopped by the "
        f"{result.stopped_by}; run {result.run}"
    )
    for each in result.candidates:
        details = ", ".join(f"{key} {_shown(value)}" for key, value in each.details.items())
        print(
            f"  round {each.round + 1}, {each.compiles} compiles: .text {each.text_change_percent:+.3f} %, "
            f"Berkeley {each.berkeley_change_percent:+.3f} %" + (f" ({details})" if details else "")
        )
    projects = ", ".join(f"{name} {change:+.2f} %" for name, change in result.validation_projects.items())
    where = (
        f"projects not learned from ({projects})"
        if result.validated_by_project
        else "the same project: the corpus has only one, and what others would gain was not measured"
    )
    verdict = "nothing beat what the run started from: " if result.fell_back else ""
    print(
        f"{verdict}.text {result.text_change_percent:+.3f} %, Berkeley {result.berkeley_change_percent:+.3f} % against "
        f"LLVM's default on {result.validation_modules} modules of {where}"
    )
    if result.failures:
        print("failed compiles: " + ", ".join(f"{reason} {count}" for reason, count in result.failures.items()))


def _shown(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"must be at least 1, found {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not found or not float(found[1]):
        raise argparse.ArgumentTypeError(f"expected a time such as 90s, 20m or 2h, found {text!r}")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]
