"""`mlgo deploy`: put a policy into a stock clang, and prove that it is there."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pymlgo.errors import ConfigError
from pymlgo.policy.shipped import POLICY_HELP, find_policy

if TYPE_CHECKING:
    from pymlgo.deploy.check import Check
    from pymlgo.deploy.deployment import Deployment

TARGETS = ("clang-config",)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = (
        "mlgo deploy POLICY… --to clang-config DIR [--overrides FILE] [--clang CLANG] [--link-time] [--json]\n"
        "       mlgo deploy --check DIR [--clang CLANG] [--json]\n"
        "       mlgo deploy --kept DIR [--json]"
    )
    parser.add_argument(
        "policies", nargs="*", type=find_policy, metavar="POLICY", help=f"{POLICY_HELP}, or a compiled policy"
    )
    parser.add_argument(
        "--to", nargs=2, metavar=("FORM", "DIR"), help=f"what to write, and where: {', '.join(TARGETS)}"
    )
    parser.add_argument("--check", type=Path, metavar="DIR", help="compile something with the deployment in DIR")
    parser.add_argument("--kept", type=Path, metavar="DIR", help="the table of what --never-worse compiles kept")
    parser.add_argument("--overrides", type=Path, metavar="FILE", help="decisions by key, which beat the policies")
    parser.add_argument(
        "--problems", default="", metavar="LIST", help="what the overrides are about (default: inlining)"
    )
    parser.add_argument("--vocabulary", type=Path, metavar="FILE", help="of IR2Vec, for policies that take embeddings")
    parser.add_argument(
        "--clang", metavar="CLANG", help="the clang that will use it (default: the newest with a plugin)"
    )
    parser.add_argument("--link-time", action="store_true", help="also advise lld's link-time optimization")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """The exit code: 1 when a checked deployment does not work."""
    if arguments.check is not None:
        return _check(arguments)
    if arguments.kept is not None:
        return _kept(arguments)
    if arguments.to is None:
        raise ConfigError("where to?", hint="mlgo deploy POLICY --to clang-config DIR, or mlgo deploy --check DIR")
    return _deploy(arguments)


def _deploy(arguments: argparse.Namespace) -> int:
    from pymlgo.deploy.deployment import deploy_to_clang_config
    from pymlgo.deploy.wrapper import clang_with_plugin

    form, folder = arguments.to
    if form not in TARGETS:
        raise ConfigError(f"unknown form {form!r}", hint=f"known are {', '.join(TARGETS)}")
    deployment = deploy_to_clang_config(
        Path(folder),
        llvm=clang_with_plugin(arguments.clang),
        policies=arguments.policies,
        overrides=arguments.overrides,
        problems=tuple(filter(None, arguments.problems.split(","))),
        vocabulary=arguments.vocabulary,
        link_time=arguments.link_time,
    )
    if arguments.json:
        from pymlgo.cli.json_output import print_json

        print_json("deploy-1", deployment)
    else:
        _show(deployment)
    return 0


def _show(deployment: Deployment) -> None:
    print(f"deployed for clang {deployment.llvm} in {deployment.folder}")
    print(f"  flag:     --config={deployment.config}")
    print(f"  CMake:    -DCMAKE_TOOLCHAIN_FILE={deployment.cmake_toolchain}")
    print(f"  no flags: export CCC_OVERRIDE_OPTIONS='{deployment.override_options}'")
    print(f"check it with: mlgo deploy --check {deployment.folder}", file=sys.stderr)


def _check(arguments: argparse.Namespace) -> int:
    from pymlgo.deploy.check import check_deployment
    from pymlgo.deploy.deployment import read_deployment
    from pymlgo.toolchain.llvm import find_llvm

    clang = find_llvm(clang=arguments.clang).clang if arguments.clang else None
    check = check_deployment(read_deployment(arguments.check), clang=clang)
    if arguments.json:
        from pymlgo.cli.json_output import print_json

        print_json("deploy-check-1", check)
    else:
        _show_check(check)
    return 0 if check.works else 1


def _kept(arguments: argparse.Namespace) -> int:
    from pymlgo.deploy.never_worse import read_kept

    table = read_kept(arguments.kept)
    default, kept = (sum(sizes) for sizes in zip(*(each.text_bytes for each in table), strict=True))
    if arguments.json:
        from pymlgo.cli.json_output import print_json

        print_json("deploy-kept-1", {"default_text_bytes": default, "kept_text_bytes": kept, "objects": table})
        return 0
    print(f"{'default':>9} {'policy':>9}  {'kept':<7}  object (.text bytes)")
    for each in table:
        print(f"{each.default_text_bytes:>9} {each.policy_text_bytes:>9}  {each.kept:<7}  {each.object}")
    print(f"{default:>9} {kept:>9}  altogether, without and with what was kept")
    return 0


def _show_check(check: Check) -> None:
    print(f"{check.config} with {check.clang}: {'works' if check.works else 'does not work'}")
    for name, each in check.problems.items():
        print(
            f"  {name}: {each.decisions} decisions, {each.by_policy} by policy {each.policy or '-'}, "
            f"{each.by_override} by override, {each.by_default} by LLVM's default"
        )
    for name in check.silent:
        print(f"  {name}: no decision")
    for fallback in check.fallbacks:
        print(f"  {fallback.problem}: LLVM's default decided: {fallback.reason}")
    if check.message:
        print(check.message, file=sys.stderr)
    if check.explanation:
        print(f"hint: {check.explanation}", file=sys.stderr)
