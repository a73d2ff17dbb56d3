"""Sources, policies and compiles for tests of the advisor plugin."""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pymlgo.channel import Advise, HostResult, host
from pymlgo.policy.builder import GraphBuilder
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import eviction_policy, linear, priority_policy
from pymlgo.problem import Problem
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.advisor import AdvisorReport, advisor_flags, advisor_plugin, read_report
from pymlgo.toolchain.llvm import LLVM
from pymlgo.training_log import Header

ADVICE = "inlining_decision"


def scalar(name: str, kind: str = "int64_t") -> TensorSpec:
    return TensorSpec(name, kind, (1,))


def calls_source(seed: int = 1, functions: int = 30) -> str:
    """C in which small functions, static and not, call each other."""
    rng = random.Random(seed)
    parts = ["typedef unsigned u;", "u g[64];"]
    for number in range(functions):
        names = [f"v{each}" for each in range(rng.randint(2, 9))]
        body = ["u " + ", ".join(f"{each} = a * {rng.randint(1, 99)} + b" for each in names) + ";"]
        if rng.random() < 0.5:
            inner = "".join(f"{rng.choice(names)} += {names[0]} * g[{rng.choice(names)} & 63];" for _ in range(4))
            body.append(f"for (u i = 0; i < (a & {rng.randint(3, 31)}); i++) {{ {inner} }}")
        if number:
            for _ in range(rng.randint(0, 3)):
                callee, argument = rng.randint(max(0, number - 12), number - 1), rng.randint(0, 9)
                body.append(f"{rng.choice(names)} += f{callee}({names[0]}, {argument});")
        body.append("return " + " ^ ".join(names) + ";")
        parts.append(f"{rng.choice(['static ', ''])}u f{number}(u a, u b) {{ {' '.join(body)} }}")
    calls = " + ".join(f"f{number}(a, {number})" for number in range(functions))
    parts.append(f"u top(u a) {{ return {calls}; }}")
    return "\n".join(parts)


def pressure_source(values: int = 24, rounds: int = 2) -> str:
    """C with more live values than x86-64 has registers, in three functions."""
    parts = []
    for name, step in (("first", 7), ("second", 5), ("third", 11)):
        start = ", ".join(f"a{each} = p[{each}]" for each in range(values))
        line = " ".join(f"a{each} += a{(each * step + 3) % values} * p[i + {each}];" for each in range(values))
        total = " + ".join(f"a{each}" for each in range(values))
        loop = f"for (long i = 0; i < n; i++) {{ {line * rounds} p[i] = a0 ^ a1; }}"
        parts.append(f"long {name}(long *p, long n) {{ long {start}; {loop} return {total}; }}")
    return "\n".join(parts)


CXX_SOURCE = """
#include <map>
#include <string>
#include <vector>
struct Node { std::string name; std::vector<Node> children; };
static int depth(const Node &node) {
  int deepest = 0;
  for (const Node &each : node.children) { int d = depth(each); if (d > deepest) deepest = d; }
  return deepest + 1;
}
int count(const Node &node, std::map<std::string, int> &names) {
  ++names[node.name];
  int sum = depth(node);
  for (const Node &each : node.children) sum += count(each, names);
  return sum;
}
"""
"""C++ with discardable functions in COMDATs."""


def echo_policy() -> Policy:
    """Answers what LLVM's own heuristic would do."""
    make = GraphBuilder()
    make.output(ADVICE, (make.input(scalar("inlining_default")) >= 1).cast("int64_t"))
    return Policy(problem="inlining", graph=make.build(), advice=ADVICE)


def extension_policy() -> Policy:
    """Inlines calls of functions that vanish by it, by features that only the plugin has."""
    make = GraphBuilder()
    removable = make.input(scalar("callee_is_removable"))
    calls = make.input(scalar("callee_call_sites"))
    size = make.input(scalar("callee_code_size"))
    score = removable.cast("float") * 40.0 - calls.cast("float") * size.cast("float")
    make.output(ADVICE, (score > -20.0).cast("int64_t"))
    return Policy(problem="inlining", graph=make.build(), advice=ADVICE)


def register_policy() -> Policy:
    """A linear eviction policy."""

    def row(name: str, kind: str = "float") -> TensorSpec:
        return TensorSpec(name, kind, (1, 33))

    specs = [row("mask", "int64_t"), row("is_free", "int64_t"), row("nr_broken_hints"), row("hottest_bb_freq_by_max")]
    return eviction_policy(specs, linear(np.array([1.0, -2.0, -3.0], np.float32)))


def queue_policy() -> Policy:
    """A linear priority policy."""
    specs = [scalar("li_size"), scalar("stage"), scalar("weight", "float")]
    return priority_policy(specs, linear(np.array([1.0, 100.0, 3.0], np.float32), 50))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """One compile; `data` is the object, empty where there is none."""

    returncode: int
    data: bytes
    stderr: str
    report: AdvisorReport


def compile_plain(llvm: LLVM, source: Path, *arguments: str) -> bytes:
    output = source.with_suffix(".plain.o")
    subprocess.run([llvm.clang, "-w", *arguments, "-c", source, "-o", output], check=True)
    return output.read_bytes()


def compile_advised(
    llvm: LLVM,
    source: Path,
    *arguments: str,
    policies: tuple[Path, ...] = (),
    overrides: Path | None = None,
    log: Path | None = None,
    problems: tuple[str, ...] = (),
    plugin: Path | None = None,
) -> Compiled:
    output, report = source.with_suffix(".advised.o"), source.with_suffix(".report")
    output.unlink(missing_ok=True)
    report.unlink(missing_ok=True)
    flags = advisor_flags(
        llvm,
        plugin or advisor_plugin(llvm),
        policies=policies,
        overrides=overrides,
        log=log,
        problems=problems,
        report=report,
    )
    command = [llvm.clang, "-w", *flags, *arguments, "-c", source, "-o", output]
    done = subprocess.run(command, capture_output=True, text=True)
    return Compiled(
        returncode=done.returncode,
        data=output.read_bytes() if output.exists() else b"",
        stderr=done.stderr,
        report=read_report(report.read_text() if report.exists() else ""),
    )


def compile_through_pipes(
    llvm: LLVM, problem: Problem, policy: Policy, source: Path, *arguments: str
) -> tuple[HostResult, bytes]:
    output = source.with_suffix(".pipes.o")

    def on_header(header: Header) -> Advise:
        decide = policy.bind(header.features)
        return lambda observation: decide(observation.features)

    done = host(
        [llvm.clang, "-w", *arguments, "-c", source, "-o", output],
        on_header=on_header,
        flags=lambda base: problem.channel_flags(llvm, base),
        check_advice=problem.check_advice,
    )
    return done, output.read_bytes()
