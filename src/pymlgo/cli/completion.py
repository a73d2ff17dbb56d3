"""`mlgo completion SHELL`: the script that completes mlgo's verbs and options."""

from __future__ import annotations

import argparse

from pymlgo.cli.main import VERBS, build_parser
from pymlgo.optional import need

SHELLS = ("bash", "zsh", "tcsh")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "shell", choices=SHELLS, help="for bash: mlgo completion bash > ~/.local/share/bash-completion/completions/mlgo"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    shtab = need("shtab", extra="completion", purpose="write a completion script")
    print(shtab.complete(build_parser(VERBS), shell=arguments.shell))
    return 0
