"""CPU µs per decision of our host with a constant policy, against a minimal hand-written loop on the same compile.

Both run in this process, pinned to the same core as their compiler, in turn; `process_time` counts user and system time
of this process alone. The minimal loop has what an answer needs and nothing else: it hangs when its compiler dies early,
knows no limit, checks nothing and builds no arrays.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pymlgo.channel import host
from pymlgo.channel.pinning import current_core, pinned
from pymlgo.problem import EVICTION, INLINING, Problem
from pymlgo.toolchain.llvm import LLVM, find_llvm

ROUNDS = 5
CALLS = 4000
TARGET_RATIO = 2.0
BYTES_OF = {"int64_t": 8, "float": 4}


def main() -> int:
    llvm = find_llvm()
    wrong = False
    print(f"clang {llvm.version_text}, medians of {ROUNDS} rounds; CPU µs per decision of the host process")
    print(f"{'problem':<10} {'decisions':>9} {'minimal':>8} {'ours':>8} {'ratio':>6}  (target: at most {TARGET_RATIO:g})")
    with tempfile.TemporaryDirectory(prefix="mlgo-bench-") as folder:
        for problem, source, constant in (
            (INLINING, many_calls(), 0),
            (EVICTION, many_evictions(), EVICT_NONE),
        ):
            file = Path(folder, f"{problem.name}.c")
            file.write_text(source)
            wrong |= compare(llvm, problem, file, constant)
    return int(wrong)


EVICT_NONE = 32
"""The candidate's own column: legal wherever the mask allows it. The benchmark's source has no exception."""


def compare(llvm: LLVM, problem: Problem, source: Path, constant: int) -> bool:
    """Print one line of the table; whether the two hosts gave different objects."""
    command = [str(llvm.clang), "-O2", "-w", "-c", str(source), "-o"]
    outputs = [source.with_suffix(suffix) for suffix in (".minimal.o", ".ours.o")]
    minimal_us, ours_us, decisions = [], [], []
    with pinned(current_core()):
        for _ in range(ROUNDS):
            for output, used_us, run in (
                (outputs[0], minimal_us, run_minimal),
                (outputs[1], ours_us, run_ours),
            ):
                before = time.process_time()
                count = run(llvm, problem, [*command, str(output)], constant)
                used_us.append((time.process_time() - before) / count * 1e6)
                decisions.append(count)
    minimal, ours = sorted(minimal_us)[ROUNDS // 2], sorted(ours_us)[ROUNDS // 2]
    print(f"{problem.name:<10} {decisions[0]:>9} {minimal:>8.2f} {ours:>8.2f} {ours / minimal:>6.2f}")
    same = len(set(decisions)) == 1 and outputs[0].read_bytes() == outputs[1].read_bytes()
    if not same:
        print(f"error: {problem.name}: the two hosts disagree: decisions {sorted(set(decisions))}", file=sys.stderr)
    return not same


def run_ours(llvm: LLVM, problem: Problem, command: list[str], constant: int) -> int:
    result = host(
        command,
        lambda _: constant,
        flags=lambda base: problem.channel_flags(llvm, base),
        check_advice=problem.check_advice,
    )
    if result.returncode:
        raise SystemExit(f"error: clang failed: {result.stderr.decode(errors='replace')}")
    return result.decisions


def run_minimal(llvm: LLVM, problem: Problem, command: list[str], constant: int) -> int:
    answer = constant.to_bytes(8, sys.byteorder)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "channel")
        os.mkfifo(f"{base}.in")
        os.mkfifo(f"{base}.out")
        with subprocess.Popen([*command, *problem.channel_flags(llvm, base)]) as process:
            with open(f"{base}.in", "wb", buffering=0) as to_compiler, open(f"{base}.out", "rb") as from_compiler:  # noqa: PTH123
                count = minimal_loop(from_compiler.readline, from_compiler.read, to_compiler.write, answer)
        if process.returncode:
            raise SystemExit("error: clang failed under the minimal loop")
    return count


def minimal_loop(
    readline: Callable[[], bytes], read: Callable[[int], bytes], write: Callable[[bytes], int | None], answer: bytes
) -> int:
    count = 0
    size = sum(BYTES_OF[spec["type"]] * product(spec["shape"]) for spec in json.loads(readline())["features"])
    while line := readline():
        if line.startswith(b'{"observation"'):
            read(size + 1)
            write(answer)
            count += 1
    return count


def product(shape: list[int]) -> int:
    result = 1
    for each in shape:
        result *= each
    return result


def many_calls() -> str:
    """A C file whose inliner is asked about `CALLS` calls."""
    functions = ["int sink(int);"]
    for index in range(CALLS // 4):
        callees = [f"f{max(index - back, 0)}(x + {back})" for back in (1, 2, 3, 5)] if index else ["1"]
        functions.append(f"static int f{index}(int x) {{ return sink(x ^ {index}) + {' + '.join(callees)}; }}")
    functions.append(f"int entry(int x) {{ return f{CALLS // 4 - 1}(x); }}")
    return "\n".join(functions)


def many_evictions() -> str:
    """A C file with more live values than x86-64 has registers."""
    functions = []
    for index in range(60):
        loads = " ".join(f"long v{each} = p[{each} * n];" for each in range(40))
        sums = " ".join(f"p[{each}] = v{each} * v{(each * 7 + index) % 40} + i;" for each in range(40))
        functions.append(f"void g{index}(long *p, long n) {{ {loads} for (long i = 0; i < n; i++) {{ {sums} p += n; }} }}")
    return "\n".join(functions)


if __name__ == "__main__":
    sys.exit(main())
