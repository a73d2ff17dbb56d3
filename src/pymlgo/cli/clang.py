"""`mlgo clang`: compile with a policy, as a drop-in for clang. The short way is `native/launcher`."""

from __future__ import annotations

import argparse

from pymlgo.errors import ConfigError
from pymlgo.policy.shipped import POLICY_HELP


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "mlgo clang [--policy P] [--overrides FILE] [--clang CLANG] [--never-worse] -- ARGS…"
    parser.add_argument(
        "--policy",
        metavar="P",
        help=f"{POLICY_HELP}, or what mlgo deploy left (default: this package's for the optimization level)",
    )
    parser.add_argument("--overrides", metavar="FILE", help="decisions by key, which beat the policy")
    parser.add_argument("--clang", metavar="CLANG", help="the clang to use (default: the newest with a plugin)")
    parser.add_argument(
        "--never-worse", action="store_true", help="compile with and without, and keep the smaller object"
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- ARGS…", help="the arguments of clang")


def run(arguments: argparse.Namespace) -> int:
    """The compiler's exit code."""
    from pymlgo.deploy.wrapper import Advice, compile_advised

    words = arguments.arguments[1:] if arguments.arguments[:1] == ["--"] else arguments.arguments
    if not words:
        raise ConfigError("nothing to compile", hint="mlgo clang --policy P -- -Oz -c x.c")
    advice = Advice.of(words, policy=arguments.policy, overrides=arguments.overrides, clang=arguments.clang)
    return compile_advised(advice, words, never_worse=arguments.never_worse)
