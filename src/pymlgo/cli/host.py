"""`mlgo host`: answer a compiler's questions over the interactive channel."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pymlgo.policy.shipped import POLICY_HELP, find_policy

if TYPE_CHECKING:
    from pymlgo.channel import Advise, AdviseFor, HostResult, Limits
    from pymlgo.channel.pinning import Core
    from pymlgo.channel.recording import Recorder
    from pymlgo.channel.stranger import Served
    from pymlgo.problem import Problem
    from pymlgo.training_log.header import Header

PROBLEM_NAMES = ("inlining", "eviction", "priority")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = (
        "mlgo host [--policy POLICY | --default] [--problem P] [--record LOG] [options] -- clang ARGS…\n"
        "       mlgo host [--policy POLICY | --default] [--problem P] [--record LOG] --channel-base NAME [options]"
    )
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--policy", metavar="POLICY", help=f"answer with {POLICY_HELP}")
    who.add_argument("--default", action="store_true", help="answer with what LLVM would do itself (inlining only)")
    parser.add_argument("--problem", choices=PROBLEM_NAMES, help="which decision (default: the policy's, or inlining)")
    parser.add_argument("--record", type=Path, metavar="LOG", help="write features and advice to a training log")
    parser.add_argument(
        "--channel-base",
        type=Path,
        metavar="NAME",
        help="serve compilers that somebody else starts, over NAME.in and NAME.out, which are made where missing",
    )
    parser.add_argument("--wait", type=float, default=60.0, metavar="S", help="for the first compiler (default: 60)")
    parser.add_argument(
        "--linger", type=float, default=2.0, metavar="S", help="for another compiler after the last (default: 2)"
    )
    parser.add_argument(
        "--decision-limit",
        type=float,
        default=120.0,
        metavar="S",
        help="longest silence of the compiler (default: 120)",
    )
    parser.add_argument(
        "--compile-limit", type=float, default=600.0, metavar="S", help="for the whole compile (default: 600)"
    )
    parser.add_argument(
        "--core", default="current", metavar="N", help="core of compiler and host: a number, current or none"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON; the compiler's output moves to stderr"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- clang ARGS…", help="the compile")


def run(arguments: argparse.Namespace) -> int:
    """The compiler's exit code; 0 for compilers that we did not start."""
    from pymlgo.channel.recording import Recorder
    from pymlgo.errors import ConfigError

    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if bool(command) == (arguments.channel_base is not None):
        raise ConfigError(
            "either a command after -- or --channel-base is needed, and not both",
            hint="mlgo host --default -- clang-22 -Oz -c x.c",
        )
    problem, on_header = _answers(arguments)
    recorder = Recorder() if arguments.record else None
    result: HostResult | Served
    if command:
        result = hosted = _host(arguments, command, problem, on_header, recorder)
        code = hosted.returncode
    else:
        result = _serve(arguments, problem, on_header, recorder)
        code = 0
    if recorder is not None and code == 0:
        _write_log(arguments.record, recorder)
    _report(arguments, problem, result)
    return code


def _host(
    arguments: argparse.Namespace, command: list[str], problem: Problem, on_header: AdviseFor, recorder: Recorder | None
) -> HostResult:
    from pymlgo.channel import host
    from pymlgo.problem import default_flags
    from pymlgo.toolchain.llvm import find_llvm

    llvm = find_llvm(clang=command[0])

    def flags(base: Path) -> tuple[str, ...]:
        return problem.serving_flags(llvm, base) if arguments.policy else default_flags(problem, llvm, base)

    return host(
        command,
        flags=flags,
        on_header=on_header,
        correct=None if arguments.policy else problem.correction(llvm),
        check_advice=problem.check_advice,
        listener=recorder,
        limits=_limits(arguments),
        core=_core(arguments.core),
        stdin=None,
        stdout=2 if arguments.json else None,
        stderr=None,
    )


def _serve(arguments: argparse.Namespace, problem: Problem, on_header: AdviseFor, recorder: Recorder | None) -> Served:
    from pymlgo.channel.stranger import Patience, serve

    return serve(
        arguments.channel_base,
        on_header=on_header,
        check_advice=problem.check_advice,
        listener=recorder,
        patience=Patience(first_s=arguments.wait, next_s=arguments.linger, decision_s=arguments.decision_limit),
    )


def _answers(arguments: argparse.Namespace) -> tuple[Problem, AdviseFor]:
    """The problem, and who answers."""
    from pymlgo.errors import ConfigError, PolicyError
    from pymlgo.problem import default_advice, problem_named, require_default

    if arguments.policy is None:
        problem = problem_named(arguments.problem or "inlining")
        require_default(problem)
        return problem, lambda header: default_advice(problem, header)
    from pymlgo.policy.directory import load_policy

    policy = load_policy(find_policy(arguments.policy))
    if arguments.problem not in (None, policy.problem):
        raise PolicyError(
            f"{arguments.policy}: the policy decides {policy.problem}, not {arguments.problem}",
            hint=f"leave --problem out, or say --problem {policy.problem}",
        )

    def on_header(header: Header) -> Advise:
        decide = policy.bind(header.features)
        return lambda observation: decide(observation.features)

    try:
        return problem_named(policy.problem), on_header
    except ConfigError as error:
        raise PolicyError(f"{arguments.policy}: {error}", hint=error.hint) from error


def _limits(arguments: argparse.Namespace) -> Limits:
    from pymlgo.channel import Limits

    return Limits(decision_s=arguments.decision_limit, compile_s=arguments.compile_limit)


def _core(text: str) -> Core:
    from pymlgo.errors import ConfigError

    if text == "current":
        return "current"
    if text == "none":
        return None
    if text.isdecimal():
        return int(text)
    raise ConfigError(f"expected a core's number, 'current' or 'none', found {text!r}", key="--core")


def _write_log(path: Path, recorder: Recorder) -> None:
    from pymlgo import atomic_file

    with atomic_file.writing(path) as stream:
        recorder.write(stream)


def _report(arguments: argparse.Namespace, problem: Problem, result: HostResult | Served) -> None:
    import sys

    from pymlgo.cli.json_output import print_json

    if arguments.json:
        print_json("host-1", {"problem": problem.name, "record": arguments.record, **_fields(result)})
        return
    contexts = "context" if result.contexts == 1 else "contexts"
    print(f"{problem.name}: {result.decisions} decisions in {result.contexts} {contexts}", file=sys.stderr)
    if arguments.record:
        print(f"recorded to {arguments.record}", file=sys.stderr)


def _fields(result: HostResult | Served) -> dict[str, object]:
    import dataclasses

    return {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
