"""`mlgo policy`: list, inspect, compare, import, export, compile, distil and time policies."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pymlgo.cli import policy_compile, policy_distil
from pymlgo.cli.json_output import print_json
from pymlgo.policy.shipped import POLICY_HELP, find_policy, shipped_policies


def configure(parser: argparse.ArgumentParser) -> None:
    """The sub-verbs and their arguments."""
    verbs = parser.add_subparsers(dest="policy_verb", metavar="WHAT", required=True)
    for name, summary, add_arguments, run_verb in _VERBS:
        described = verbs.add_parser(name, help=summary, description=summary)
        add_arguments(described)
        described.add_argument("--json", action="store_true", help="print JSON")
        described.set_defaults(run_policy_verb=run_verb)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-verb; its exit code."""
    chosen: Callable[[argparse.Namespace], int] = arguments.run_policy_verb
    return chosen(arguments)


# --- list ---------------------------------------------------------------------------------------------------


def _list_arguments(_parser: argparse.ArgumentParser) -> None:
    pass


def _list(arguments: argparse.Namespace) -> int:
    from pymlgo.policy.summary import summarize

    summaries = {name: summarize(folder) for name, folder in shipped_policies().items()}
    if arguments.json:
        print_json("policy-list-1", {"policies": summaries})
        return 0
    for name, summary in summaries.items():
        print(f"{name:<16} {summary.problem:<9} {len(summary.features)} features, {summary.parameters} parameters")
    if not summaries:
        print("this package has no policies of its own", file=sys.stderr)
    return 0


# --- inspect ------------------------------------------------------------------------------------------------


def _inspect_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("policy", type=find_policy, help=POLICY_HELP)


def _inspect(arguments: argparse.Namespace) -> int:
    from pymlgo.policy.summary import summarize

    summary = summarize(arguments.policy)
    if arguments.json:
        print_json("policy-inspect-1", summary)
        return 0
    print(f"problem      {summary.problem}")
    print(f"advice       {_tensor(summary.advice)}")
    print(f"features     {len(summary.features)}: {', '.join(_tensor(each) for each in summary.features)}")
    if summary.defaults:
        print(f"defaults     {', '.join(f'{name}={value}' for name, value in summary.defaults.items())}")
    if summary.extra_outputs:
        print(f"also makes   {', '.join(_tensor(each) for each in summary.extra_outputs)}")
    print(f"operators    {', '.join(f'{count} {op}' for op, count in summary.operators.items())}")
    print(f"parameters   {summary.parameters}")
    print(f"fingerprint  {summary.fingerprint}")
    print(f"TFLite form  {summary.tflite or f'none: {summary.tflite_refusal}'}")
    for name, value in summary.provenance.items():
        print(f"{name:<12} {value}")
    return 0


def _tensor(spec: Mapping[str, object]) -> str:
    return f"{spec['name']} {spec['type']}{spec['shape']}"


# --- diff ---------------------------------------------------------------------------------------------------


def _diff_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", type=find_policy, help=POLICY_HELP)
    parser.add_argument("second", type=find_policy, help="another")
    parser.add_argument("--log", type=Path, help="a training log: how often do both decide alike on its observations?")


def _diff(arguments: argparse.Namespace) -> int:
    from pymlgo.policy.directory import load_policy
    from pymlgo.policy.summary import compare
    from pymlgo.training_log import read_log

    log = read_log(arguments.log) if arguments.log else None
    if log is not None and log.error is not None:
        print(f"warning: {log.error}", file=sys.stderr)
    found = compare(load_policy(arguments.first), load_policy(arguments.second), log)
    if arguments.json:
        print_json("policy-diff-1", found)
        return 0
    if found.same:
        print("same")
    for sign, names in (("+", found.features_added), ("-", found.features_removed), ("!", found.features_changed)):
        for name in names:
            print(f"{sign} feature {name}")
    for name in found.defaults_changed:
        print(f"! default of {name}")
    for op, (before, after) in found.operators.items():
        print(f"! {op}: {before} -> {after}")
    if found.constants_changed:
        print(f"! {found.constants_changed} constants, by at most {found.largest_constant_change:g}")
    if found.decisions:
        share = found.equal_decisions / found.decisions
        print(f"= {found.equal_decisions} of {found.decisions} decisions ({share:.2%})")
    return 0


# --- import and export --------------------------------------------------------------------------------------


def _import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="a directory, .onnx file or archive; or an http, https or file URL of one")
    parser.add_argument("output", type=Path, help="the policy directory to write")
    parser.add_argument("--sha256", help="what the file must have; a URL needs it")
    parser.add_argument("--problem", help="which decision an .onnx model makes, if it does not say so")


def _import(arguments: argparse.Namespace) -> int:
    from pymlgo.policy.directory import save_policy
    from pymlgo.policy.sources import import_policy
    from pymlgo.policy.summary import summarize

    save_policy(import_policy(arguments.source, sha256=arguments.sha256, problem=arguments.problem), arguments.output)
    if arguments.json:
        print_json("policy-inspect-1", summarize(arguments.output))
    else:
        print(arguments.output)
    return 0


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("policy", type=find_policy, help=POLICY_HELP)
    parser.add_argument("output", type=Path, help="the file or folder to write")
    parser.add_argument("--to", required=True, choices=sorted(_EXPORTERS), help="the form")
    policy_compile.compiler_arguments(parser)
    policy_compile.several_arguments(parser)
    parser.add_argument("--class-name", help="of the EmitC class (default: the one that LLVM has for the problem)")


def _export(arguments: argparse.Namespace) -> int:
    return _EXPORTERS[arguments.to](arguments)


def _export_onnx(arguments: argparse.Namespace) -> int:
    from pymlgo.policy.directory import load_policy
    from pymlgo.policy.onnx.writer import write_onnx

    write_onnx(load_policy(arguments.policy), arguments.output)
    if arguments.json:
        print_json("policy-export-1", {"to": "onnx", "files": [arguments.output]})
    else:
        print(arguments.output)
    return 0


_EXPORTERS: dict[str, Callable[[argparse.Namespace], int]] = {
    "emitc": policy_compile.run_export_emitc,
    "llvm-release": policy_compile.run_export_release,
    "onnx": _export_onnx,
}

_VERBS: tuple[tuple[str, str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]], ...] = (
    ("list", "name the policies of this package", _list_arguments, _list),
    ("inspect", "show what a policy takes, computes and comes from", _inspect_arguments, _inspect),
    ("diff", "compare two policies", _diff_arguments, _diff),
    ("import", "make a policy directory from a model of another kind", _import_arguments, _import),
    ("export", "write a policy in another form", _export_arguments, _export),
    (
        "compile",
        "make a shared object of machine code",
        policy_compile.compile_arguments,
        policy_compile.run_compile,
    ),
    (
        "distil",
        "fit a smaller policy to a policy's scores, and measure what is lost",
        policy_distil.distil_arguments,
        policy_distil.run_distil,
    ),
    ("bench", "time a policy's decisions", policy_compile.bench_arguments, policy_compile.run_bench),
)
