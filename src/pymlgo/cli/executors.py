"""What compiles, and where: the same arguments for every verb that runs many compiles."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pymlgo.rollout import LocalExecutor, RayExecutor


def add_backend_argument(parser: argparse.ArgumentParser, purpose: str, *, default: str = "fastest") -> None:
    """`--backend`, for `rollout.choice.chosen_backend`."""
    parser.add_argument(
        "--backend",
        choices=("fastest", "stock", "engine", "plugin", "pipes"),
        default=default,
        help=f"{purpose} (default: {default})",
    )


def add_executor_arguments(parser: argparse.ArgumentParser) -> None:
    """`--executor`, `--address` and `--jobs`."""
    parser.add_argument(
        "--executor",
        choices=("local", "ray"),
        default="local",
        help="this machine's cores, or a Ray cluster (needs the extra 'ray'; default: local)",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="of the Ray cluster, or 'auto' (default: $RAY_ADDRESS, else Ray on this machine alone)",
    )
    parser.add_argument("--jobs", type=_positive, metavar="N", help="compiles at a time (default: one for each core)")


@contextmanager
def chosen_executor(arguments: argparse.Namespace) -> Iterator[LocalExecutor | RayExecutor]:
    """The executor that the arguments ask for.

    Raises:
        ConfigError: no cluster answers at the address, or there is one and no `--executor ray`.
        MissingDependency: Ray is not installed.
    """
    from pymlgo.errors import ConfigError
    from pymlgo.rollout import LocalExecutor, RayExecutor

    if arguments.executor == "local":
        if arguments.address is not None:
            raise ConfigError("--address names a Ray cluster", hint="add --executor ray")
        with LocalExecutor(arguments.jobs) as executor:
            yield executor
        return
    # Ray prints what happens in the cluster to stdout, where the verb's result belongs.
    with contextlib.redirect_stdout(sys.stderr), RayExecutor(arguments.address, arguments.jobs) as cluster:
        yield cluster


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, found {text!r}")
    return int(text)
