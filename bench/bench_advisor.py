"""Compiles with the advisor plugin against plain clang and against the pipes, in CPU seconds, in turn in one run.

The sources are generated: a large C file, and a C++ file made of standard containers; where PYMLGO_CORPORA names a
folder of corpora, their largest module of a real project comes third. The policy answers LLVM's default, so that all
three ways make the same object and only the way costs. What LLVM's ML advisor spends on its own features is told apart,
by the wall clock of the compiler: on a busy machine it is too much.
"""

from __future__ import annotations

import dataclasses
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pymlgo.channel import Advise, host
from pymlgo.deploy.known_command import entry_key, remember
from pymlgo.emit import compile_policy
from pymlgo.policy.builder import GraphBuilder
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import eviction_policy, inlining_policy, random_layers
from pymlgo.problem import EVICTION, INLINING, Problem
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.advisor import AdvisedProblem, advisor_flags, advisor_plugin, read_report
from pymlgo.toolchain.flags import mllvm
from pymlgo.toolchain.llvm import LLVM, find_llvm
from pymlgo.training_log import Header

ROUNDS = int(os.environ.get("ROUNDS", "3"))
FUNCTIONS = int(os.environ.get("FUNCTIONS", "1500"))
CLASSES = int(os.environ.get("CLASSES", "25"))
TARGET_RATIO = 1.08
TARGET_US = {"inlining": 1.0, "eviction": 10.0}
TARGET_LAUNCH_MS = 30.0
# The default's object must come out, so LLVM's brake for modules that grow, which only its ML advisor has, is off.
BRAKE_OFF = mllvm(["-ml-advisor-size-increase-threshold=1000"])


def main() -> int:
    llvm = find_llvm(major=22)
    wrong = False
    print(f"clang {llvm.version_text}, {ROUNDS} rounds in turn, medians of CPU seconds, -Oz, the default's decisions")
    print(
        f"{'source':<8} {'decisions':>9} {'plain':>8} {'plugin':>8} {'ratio':>6} {'w/o features':>12} {'pipes':>8} "
        f"{'ratio':>6}   parts of the plugin: LLVM's features, default advice, ours, policy (s)"
        f"   (target: {TARGET_RATIO:g} without features)"
    )
    with tempfile.TemporaryDirectory(prefix="mlgo-bench-") as name:
        folder = Path(name)
        echo = echo_policy()
        library = compile_policy(echo, folder / "echo.so").path
        for file in sources(folder):
            wrong |= compare(llvm, echo, library, file)
        wrong |= per_decision(llvm, folder)
        launch(folder)
    return int(wrong)


# --- whole compiles ---------------------------------------------------------------------------------------------


def compare(llvm: LLVM, policy: Policy, library: Path, source: Path) -> bool:
    """Print one line of the table; whether the objects differ."""
    report = source.with_suffix(".report")
    flags = advisor_flags(llvm, advisor_plugin(llvm), policies=[library], report=report)
    ways: dict[str, Callable[[Path], float]] = {
        "plain": lambda output: compiled(llvm, source, output, BRAKE_OFF),
        "plugin": lambda output: compiled(llvm, source, output, (*BRAKE_OFF, *flags)),
        "pipes": lambda output: sum(through_pipes(llvm, INLINING, policy, source, output, BRAKE_OFF)),
    }
    used: dict[str, list[float]] = {way: [] for way in ways}
    objects = set()
    for _ in range(ROUNDS):
        report.unlink(missing_ok=True)
        for way, run in ways.items():
            output = source.with_suffix(f".{way}.o")
            used[way].append(run(output))
            objects.add(output.read_bytes())
    plain, plugin, pipes = (statistics.median(used[way]) for way in ("plain", "plugin", "pipes"))
    advised = read_report(report.read_text()).problems["inlining"]
    print(
        f"{source.suffix[1:]:<8} {advised.decisions:>9} {plain:>8.2f} {plugin:>8.2f} {plugin / plain:>6.2f} "
        f"{(plugin - features_s(advised)) / plain:>12.2f} {pipes:>8.2f} {pipes / plain:>6.2f}   {_parts(advised)}"
    )
    if len(objects) != 1:
        print("WRONG: the objects differ", file=sys.stderr)
    return len(objects) != 1 or advised.by_policy != advised.decisions


def features_s(advised: AdvisedProblem) -> float:
    """What LLVM's advisor spends on features."""
    return (advised.advice_ns - advised.default_ns - advised.extension_ns - advised.policy_ns) / 1e9


def _parts(advised: AdvisedProblem) -> str:
    ours = (advised.default_ns, advised.extension_ns, advised.policy_ns)
    return " ".join(f"{each:.3f}" for each in (features_s(advised), *(each / 1e9 for each in ours)))


def compiled(llvm: LLVM, source: Path, output: Path, flags: Sequence[str] = (), level: str = "-Oz") -> float:
    """CPU seconds of one clang."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([llvm.clang, "-w", level, *flags, "-c", source, "-o", output], check=True)
    return used_since(before, resource.RUSAGE_CHILDREN)


def through_pipes(
    llvm: LLVM,
    problem: Problem,
    policy: Policy,
    source: Path,
    output: Path,
    flags: Sequence[str] = (),
    level: str = "-Oz",
) -> tuple[float, float]:
    """CPU seconds of one clang, and of this process, its host."""

    def on_header(header: Header) -> Advise:
        decide = policy.bind(header.features)
        return lambda observation: decide(observation.features)

    before = resource.getrusage(resource.RUSAGE_SELF)
    done = host(
        [llvm.clang, "-w", level, *flags, "-c", source, "-o", output],
        on_header=on_header,
        flags=lambda base: problem.channel_flags(llvm, base),
        check_advice=problem.check_advice,
    )
    return done.cpu_s, used_since(before, resource.RUSAGE_SELF)


def used_since(before: resource.struct_rusage, who: int) -> float:
    after = resource.getrusage(who)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# --- one decision -----------------------------------------------------------------------------------------------


def per_decision(llvm: LLVM, folder: Path) -> bool:
    """Print what one decision costs in the plugin, features aside, and over the pipes; whether objects differ."""
    print()
    print(f"{'policy':<22} {'decisions':>9} {'plugin µs':>9} {'target':>7} {'pipes µs':>9}   (pipes: the host's CPU)")
    rng = np.random.default_rng(1)
    names = ["cost_estimate", "callee_users", "callee_basic_block_count", "caller_users", "caller_basic_block_count"]
    *hidden, last = random_layers([5, 32, 16, 1], rng)
    # Its score is far below 0: it never inlines, so that LLVM asks about every call there is.
    layers = (*hidden, dataclasses.replace(last, bias=last.bias - np.float32(1e9)))
    inliner = inlining_policy([TensorSpec(each, "int64_t", (1,)) for each in names], layers)
    rows = ["nr_broken_hints", "weighed_reads_by_max", "hottest_bb_freq_by_max", "liverange_size"]
    specs = [TensorSpec("mask", "int64_t", (1, 33)), *(TensorSpec(each, "float", (1, 33)) for each in rows)]
    evictor = eviction_policy(specs, random_layers([4, 32, 1], rng))
    wrong = False
    for problem, policy, text, level in (
        (INLINING, inliner, many_functions(FUNCTIONS // 3), "-Oz"),
        (EVICTION, evictor, many_values(), "-O2"),
    ):
        source = folder / f"{problem.name}.c"
        source.write_text(text)
        library = compile_policy(policy, folder / f"{problem.name}.so").path
        report = folder / f"{problem.name}.report"
        flags = advisor_flags(llvm, advisor_plugin(llvm), policies=[library], report=report)
        compiled(llvm, source, source.with_suffix(".o"), flags, level)
        advised = read_report(report.read_text()).problems[problem.name]
        _, host_s = through_pipes(llvm, problem, policy, source, source.with_suffix(".pipes.o"), level=level)
        label = f"{problem.name}, small network"
        cost, extra = advised.policy_ns / advised.decisions / 1e3, host_s / advised.decisions * 1e6
        print(f"{label:<22} {advised.decisions:>9} {cost:>9.2f} {TARGET_US[problem.name]:>7.1f} {extra:>9.1f}")
        wrong |= source.with_suffix(".o").read_bytes() != source.with_suffix(".pipes.o").read_bytes()
    if wrong:
        print("WRONG: plugin and pipes made different objects", file=sys.stderr)
    return wrong


# --- the wrapper ------------------------------------------------------------------------------------------------


def launch(folder: Path) -> None:
    """Print the CPU of `mlgo clang` beside its compiler, here /bin/true, once the policy is known."""
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    key = entry_key(policy="policy", overrides="", clang="true", arguments=[])
    remember(key, [Path("/bin/true")], ["/bin/true"])
    script = Path(sys.executable).with_name("mlgo")
    command = [str(script), "clang", "--policy", "policy", "--clang", "true", "--", "-c", "x.c"]
    bare, whole, itself = ([] for _ in range(3))
    for _ in range(15):
        for used, words in ((bare, [sys.executable, "-c", "pass"]), (whole, command), (itself, ["/bin/true"])):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(words, check=True)
            used.append(1e3 * used_since(before, resource.RUSAGE_CHILDREN))
    print()
    print(
        f"mlgo clang before its compiler: {statistics.median(whole) - statistics.median(itself):.1f} ms of CPU; "
        f"an empty Python is {statistics.median(bare):.1f} (target: at most {TARGET_LAUNCH_MS:g})"
    )


# --- sources and policies ---------------------------------------------------------------------------------------


def echo_policy() -> Policy:
    make = GraphBuilder()
    default = make.input(TensorSpec("inlining_default", "int64_t", (1,)))
    make.output("inlining_decision", (default >= 1).cast("int64_t"))
    return Policy(problem="inlining", graph=make.build(), advice="inlining_decision")


def sources(folder: Path) -> list[Path]:
    """What is compiled: two generated files and, where there are corpora, a real module, all in `folder`."""
    made = [folder / "c.c", folder / "cxx.cc"]
    made[0].write_text(many_functions(FUNCTIONS))
    made[1].write_text(many_containers(CLASSES))
    if corpora := os.environ.get("PYMLGO_CORPORA"):
        largest = max(Path(corpora, "train").rglob("*.bc"), key=lambda each: each.stat().st_size)
        made.append(folder / f"{largest.parent.name}.bc")
        shutil.copy(largest, made[-1])
        print(f"{made[-1].name}: {largest.name}")
    return made


def many_functions(count: int) -> str:
    """C functions with loops and branches that call the ones before them."""
    rng = np.random.default_rng(7)
    parts = ["typedef unsigned u; u g[256];"]
    for number in range(count):
        values = [f"v{each}" for each in range(int(rng.integers(2, 12)))]
        pick = [values[int(each)] for each in rng.integers(len(values), size=24)]
        body = ["u " + ", ".join(f"{each} = a * {int(rng.integers(1, 99))} + b" for each in values) + ";"]
        if rng.random() < 0.6:
            inner = " ".join(f"{pick[at]} += {pick[at + 1]} * g[{pick[at + 2]} & 255];" for at in range(0, 18, 3))
            body.append(f"for (u i = 0; i < (a & {int(rng.integers(3, 63))}); i++) {{ {inner} }}")
        if rng.random() < 0.5:
            body.append(f"if ({pick[18]} > {pick[19]} + 7) g[{pick[20]} & 255] = {pick[21]};")
        for _ in range(int(rng.integers(0, 4)) if number else 0):
            body.append(f"{pick[22]} ^= f{int(rng.integers(max(0, number - 40), number))}({pick[23]}, {number});")
        linkage = "static " if rng.random() < 0.6 else ""
        parts.append(f"{linkage}u f{number}(u a, u b) {{ {' '.join(body)} return {' ^ '.join(values)}; }}")
    calls = " + ".join(f"f{number}(a, {number})" for number in range(max(0, count - 200), count))
    return "\n".join([*parts, f"u top(u a) {{ return {calls}; }}"])


CLASS = """
struct T@ { std::string name; int key[SIZE]; std::vector<T@> children; };
int walk@(std::vector<T@> &all, std::map<std::string, T@> &by_name) {
  std::sort(all.begin(), all.end(), [](const T@ &a, const T@ &b) { return a.name < b.name; });
  int sum = 0;
  for (auto &each : all) { by_name[each.name] = each; sum += each.key[0] + walk@(each.children, by_name); }
  all.erase(std::remove_if(all.begin(), all.end(), [](const T@ &a) { return a.key[0] < @; }), all.end());
  return sum;
}
"""


def many_containers(count: int) -> str:
    """C++ that instantiates maps, vectors, strings and algorithms of classes of its own."""
    parts = ["#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>"]
    for number in range(count):
        parts.append(CLASS.replace("@", str(number)).replace("SIZE", str(number % 7 + 1)))
    return "\n".join(parts)


def many_values(functions: int = 12, values: int = 24) -> str:
    """C functions with more live values than there are registers."""
    parts = []
    for number in range(functions):
        start = ", ".join(f"a{each} = p[{each}]" for each in range(values))
        body = " ".join(f"a{each} += a{(each * 7 + number) % values} * p[i + {each}];" for each in range(values))
        total = " + ".join(f"a{each}" for each in range(values))
        loop = f"for (long i = 0; i < n; i++) {{ {body} p[i] = a0; }}"
        parts.append(f"long f{number}(long *p, long n) {{ long {start}; {loop} return {total}; }}")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
