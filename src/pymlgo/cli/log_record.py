"""`mlgo log record`: a training log from a stock clang, through the advisor plugin."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from pymlgo.errors import ConfigError
from pymlgo.policy.shipped import POLICY_HELP, find_policy

PROBLEM_NAMES = ("inlining", "eviction", "priority")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "mlgo log record -o LOG [--problem P] [--policy POLICY] [--overrides FILE] [--json] -- clang ARGS…"
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="LOG", help="the log to write")
    parser.add_argument(
        "--problem", choices=PROBLEM_NAMES, default="inlining", help="what to record (default: inlining)"
    )
    parser.add_argument(
        "--policy", type=find_policy, metavar="POLICY", help=f"who decides: {POLICY_HELP}; LLVM's default without"
    )
    parser.add_argument("--overrides", type=Path, metavar="FILE", help="decisions by key, which beat the policy")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- clang ARGS…", help="the compile")
    parser.set_defaults(work=_record)


def _record(arguments: argparse.Namespace) -> int:
    from pymlgo.deploy.record import record
    from pymlgo.emit import compile_policy
    from pymlgo.policy.directory import load_policy
    from pymlgo.toolchain.llvm import find_llvm

    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise ConfigError("nothing to compile", hint="mlgo log record -o LOG -- clang-22 -Oz -c x.c")
    with tempfile.TemporaryDirectory(prefix="mlgo-record-") as name:
        policies = []
        if arguments.policy is not None:
            policies = [compile_policy(load_policy(arguments.policy), Path(name, "policy.so")).path]
        recorded = record(
            find_llvm(clang=command[0]),
            command[1:],
            arguments.output,
            problem=arguments.problem,
            policies=policies,
            overrides=arguments.overrides,
        )
    if arguments.json:
        from pymlgo.cli.json_output import print_json

        print_json("log-record-1", recorded)
    else:
        print(f"{recorded.observations} decisions of {recorded.modules} modules in {recorded.log}", file=sys.stderr)
    return recorded.returncode
