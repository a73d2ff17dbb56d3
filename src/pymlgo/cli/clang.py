"""`mlgo clang`: compile with a policy, as a drop-in for clang. The short way is `deploy/launcher.py`."""

from __future__ import annotations

import argparse
from pathlib import Path

from pymlgo.errors import ConfigError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "mlgo clang [--policy P] [--overrides FILE] [--clang CLANG] [--never-worse] -- ARGS…"
    parser.add_argument("--policy", type=Path, metavar="P", help="a policy directory, or what mlgo deploy left")
    parser.add_argument("--overrides", type=Path, metavar="FILE", help="decisions by key, which beat the policy")
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
    named = {"--policy": arguments.policy, "--overrides": arguments.overrides, "--clang": arguments.clang}
    options = {name: str(value) for name, value in named.items() if value is not None}
    return compile_advised(Advice.of(options), words, never_worse=arguments.never_worse)
