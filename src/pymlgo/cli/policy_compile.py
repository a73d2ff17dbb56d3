"""The sub-verbs of `mlgo policy` that make C++: compile, bench, and export to an LLVM tree."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pymlgo.cli.json_output import print_json
from pymlgo.policy.shipped import POLICY_HELP, find_policy

if TYPE_CHECKING:
    from pymlgo.emit.timing import Evaluate
    from pymlgo.policy.policy import Policy


def compiler_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of everything that runs a C++ compiler."""
    parser.add_argument("--cxx", help="the C++ compiler (default: $CXX, g++ or clang++)")
    parser.add_argument("--march", help="instructions to compile for, as GCC names them, e.g. x86-64-v3")


def several_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for several policies in one artefact."""
    parser.add_argument("--name", help="the policy's name, which a model selector takes (default: its folder's)")
    parser.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="put another policy into the artefact; a model selector picks one by its name",
    )


def policies_of(arguments: argparse.Namespace) -> Mapping[str, Policy]:
    """The policy of the command line and those of --add, by name.

    Raises:
        PolicyError: --add is not NAME=DIR, a name comes twice, or a directory is no policy.
    """
    from pymlgo.errors import PolicyError
    from pymlgo.policy.directory import load_policy

    named = [(arguments.name or arguments.policy.resolve().name, arguments.policy)]
    for each in arguments.add:
        name, sign, directory = each.partition("=")
        if not (sign and name and directory):
            raise PolicyError(f"--add {each}: expected NAME=DIR")
        named.append((name, find_policy(directory)))
    found: dict[str, Policy] = {}
    for name, directory in named:
        if name in found:
            raise PolicyError(f"two policies are called {name!r}", hint="--name gives the first another name")
        found[name] = load_policy(directory)
    return found


# --- compile ------------------------------------------------------------------------------------------------


def compile_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `mlgo policy compile`."""
    parser.add_argument("policy", type=find_policy, help=POLICY_HELP)
    parser.add_argument("-o", "--output", type=Path, required=True, help="the shared object to write")
    parser.add_argument("--keep-source", type=Path, metavar="FILE", help="leave the generated C++ here")
    compiler_arguments(parser)
    several_arguments(parser)


def run_compile(arguments: argparse.Namespace) -> int:
    """Of `mlgo policy compile`."""
    from pymlgo.emit import compile_policies

    policies = policies_of(arguments)
    made = compile_policies(
        policies,
        arguments.output,
        name=next(iter(policies)),
        cxx=arguments.cxx,
        march=arguments.march,
        keep_source=arguments.keep_source,
    )
    if arguments.json:
        print_json("policy-compile-1", made)
        return 0
    print(made.path)
    print(
        f"{made.problem}, {made.object_bytes} bytes for {made.isa or 'this architecture'}, "
        f"{made.emit_s:.1f} s to write and {made.compile_s:.1f} s to compile with {made.compiler}",
        file=sys.stderr,
    )
    return 0


# --- bench --------------------------------------------------------------------------------------------------


def bench_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `mlgo policy bench`."""
    parser.add_argument("policy", type=find_policy, help=POLICY_HELP)
    parser.add_argument("--observations", type=int, default=1000, help="random observations (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the observations")
    compiler_arguments(parser)


def run_bench(arguments: argparse.Namespace) -> int:
    """Of `mlgo policy bench`."""
    from pymlgo.emit.timing import time_policy
    from pymlgo.errors import ConfigError
    from pymlgo.policy.directory import load_policy

    if arguments.observations < 1:
        raise ConfigError(f"--observations must be at least 1, found {arguments.observations}")
    timing = time_policy(
        load_policy(arguments.policy),
        others=_litert(arguments.policy),
        observations=arguments.observations,
        seed=arguments.seed,
        cxx=arguments.cxx,
        march=arguments.march,
    )
    if arguments.json:
        print_json("policy-bench-1", timing)
        return 0
    print(f"{'backend':<36} {'ns a decision':>14} {'equal':>8}")
    for each in timing.backends:
        print(f"{each.backend:<36} {each.ns_per_decision:>14.0f} {each.equal_decisions:>8.2%}")
    return 0


def _litert(directory: Path) -> dict[str, Evaluate]:
    """LiteRT on the directory's model, where both are there."""
    from pymlgo.errors import MissingDependency, PolicyError
    from pymlgo.policy.directory import load_policy
    from pymlgo.runner.under_training import litert_of

    try:
        return {"LiteRT, one by one": litert_of(directory, load_policy(directory))}
    except (MissingDependency, PolicyError) as error:
        _say(f"LiteRT is left out: {error}")
        return {}


# --- export -------------------------------------------------------------------------------------------------


def run_export_release(arguments: argparse.Namespace) -> int:
    """Of `mlgo policy export --to llvm-release`."""
    from pymlgo.emit import export_llvm_release
    from pymlgo.emit.llvm_tree import shell_line

    policies = policies_of(arguments)
    made = export_llvm_release(policies, arguments.output, cxx=arguments.cxx, march=arguments.march)
    if arguments.json:
        print_json("policy-export-1", {"to": "llvm-release", "files": [made.header, made.object], "release": made})
        return 0
    print(shell_line("cmake", (*made.cmake, "…", "llvm")).replace("'…'", "…"))
    _say(f"{made.class_name} for {made.isa or 'this architecture'}: {made.header} and {made.object}")
    _say("The tree also wants a library tf_xla_runtime. The empty one in TENSORFLOW_AOT_PATH above will do: the model")
    _say("calls nothing in it. With TensorFlow's pip package instead, name that package's folder there.")
    _say(f"Then compile with: clang {' '.join(made.clang)} …")
    _say_development(arguments.policy, next(iter(policies.values())).problem)
    return 0


def run_export_emitc(arguments: argparse.Namespace) -> int:
    """Of `mlgo policy export --to emitc`."""
    from pymlgo.emit import export_emitc
    from pymlgo.errors import PolicyError

    policies = policies_of(arguments)
    if len(policies) > 1:
        raise PolicyError("the EmitC class holds one policy", hint="export each on its own; LLVM picks by a flag")
    path = export_emitc(next(iter(policies.values())), arguments.output, class_name=arguments.class_name)
    if arguments.json:
        print_json("policy-export-1", {"to": "emitc", "files": [path]})
        return 0
    print(path)
    _say(f"Include it in one file of LLVM and give the class to EmitCModelRunner<{path.stem}>.")
    return 0


def _say_development(directory: Path, problem: str) -> None:
    from pymlgo.emit import development_options

    if not (directory / "model.tflite").exists():
        _say("A clang in development mode cannot load this policy: the directory has no model.tflite.")
        return
    line = " ".join(development_options(problem, directory, Path("training.log")))
    _say(f"A clang in development mode (built with TensorFlow Lite) loads the directory itself: clang {line} …")


def _say(text: str) -> None:
    print(text, file=sys.stderr)
