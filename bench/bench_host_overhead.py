"""CPU µs per decision of our host with a constant policy, against a minimal hand-written loop on the same compile.

Both run in this process, pinned to the same core as their compiler, in turn; `process_time` counts user and system time
of this process alone. The minimal loop has what an answer needs and nothing else: it hangs when its compiler dies
early, knows no limit, checks nothing and builds no arrays.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pymlgo.channel import host
from pymlgo.channel.pinning import current_core, pinned
from pymlgo.problem import INLINING, PRIORITY, Problem
from pymlgo.toolchain.llvm import LLVM, find_llvm

ROUNDS = 5
CALLS = 3000
TARGET_RATIO = 2.0
BYTES_OF = {"int64_t": 8, "float": 4}


def main() -> int:
    llvm = find_llvm()
    wrong = False
    print(f"clang {llvm.version_text}, {ROUNDS} rounds in turn; CPU µs per decision of the host's process, medians")
    print(
        f"{'problem':<10} {'decisions':>9} {'minimal':>8} {'ours':>8} {'ratio':>6}  (target: at most {TARGET_RATIO:g})"
    )
    with tempfile.TemporaryDirectory(prefix="mlgo-bench-") as folder:
        for problem, source, answer in (
            (INLINING, many_calls(), 0),
            (PRIORITY, many_values(), 1.0),
        ):
            file = Path(folder, f"{problem.name}.c")
            file.write_text(source)
            wrong |= compare(llvm, problem, file, answer)
    return int(wrong)


def compare(llvm: LLVM, problem: Problem, source: Path, answer: float) -> bool:
    """Print one line of the table; whether the two hosts made different objects."""
    command = [str(llvm.clang), "-O2", "-w", "-c", str(source), "-o"]
    hosts = {"minimal": run_minimal, "ours": run_ours}
    used_us: dict[str, list[float]] = {name: [] for name in hosts}
    seen = set()
    with pinned(current_core()):
        for _ in range(ROUNDS):
            for name, run in hosts.items():
                output = source.with_suffix(f".{name}.o")
                before = time.process_time()
                count = run(llvm, problem, [*command, str(output)], answer)
                used_us[name].append((time.process_time() - before) / count * 1e6)
                seen.add((count, output.read_bytes()))
    # Two neighbours meet the same noise of a busy machine, so the ratio is taken round by round.
    ratio = statistics.median(ours / minimal for minimal, ours in zip(*used_us.values(), strict=True))
    minimal_us, ours_us = map(statistics.median, used_us.values())
    print(f"{problem.name:<10} {count:>9} {minimal_us:>8.2f} {ours_us:>8.2f} {ratio:>6.2f}")
    if len(seen) != 1:
        print(f"error: {problem.name}: the two hosts made different decisions or objects", file=sys.stderr)
    return len(seen) != 1


def run_ours(llvm: LLVM, problem: Problem, command: list[str], answer: float) -> int:
    result = host(
        command,
        lambda _: answer,
        flags=lambda base: problem.channel_flags(llvm, base),
        check_advice=problem.check_advice,
    )
    if result.returncode:
        raise SystemExit(f"error: clang failed: {result.stderr.decode(errors='replace')}")
    return result.decisions


def run_minimal(llvm: LLVM, problem: Problem, command: list[str], answer: float) -> int:
    reply = problem.advice.array(answer).tobytes()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "channel")
        os.mkfifo(f"{base}.in")
        os.mkfifo(f"{base}.out")
        with subprocess.Popen([*command, *problem.channel_flags(llvm, base)]) as process:  # noqa: SIM117
            with open(f"{base}.in", "wb", buffering=0) as to_compiler, open(f"{base}.out", "rb") as from_compiler:  # noqa: PTH123
                count = minimal_loop(from_compiler.readline, from_compiler.read, to_compiler.write, reply)
        if process.returncode:
            raise SystemExit("error: clang failed under the minimal loop")
    return count


def minimal_loop(
    readline: Callable[[], bytes], read: Callable[[int], bytes], write: Callable[[bytes], int | None], reply: bytes
) -> int:
    count = 0
    size = sum(BYTES_OF[spec["type"]] * math.prod(spec["shape"]) for spec in json.loads(readline())["features"])
    while line := readline():
        if line.startswith(b'{"observation"'):
            read(size + 1)
            write(reply)
            count += 1
    return count


def many_calls() -> str:
    """A C file whose inliner is asked about `CALLS` calls."""
    functions = ["int sink(int);"]
    for index in range(CALLS // 4):
        callees = [f"f{max(index - back, 0)}(x + {back})" for back in (1, 2, 3, 5)] if index else ["1"]
        functions.append(f"static int f{index}(int x) {{ return sink(x ^ {index}) + {' + '.join(callees)}; }}")
    functions.append(f"int entry(int x) {{ return f{CALLS // 4 - 1}(x); }}")
    return "\n".join(functions)


def many_values() -> str:
    """A C file whose register allocator is asked about thousands of live ranges."""
    functions = []
    for index in range(30):
        loads = " ".join(f"long v{each} = p[{each} * n];" for each in range(24))
        sums = " ".join(
            f"v{each} = v{each} * v{(each * 7 + index) % 24} + i; p[{each}] = v{each};" for each in range(24)
        )
        functions.append(
            f"void g{index}(long *p, long n) {{ {loads} for (long i = 0; i < n; i++) {{ {sums} p += n; }} }}"
        )
    return "\n".join(functions)


if __name__ == "__main__":
    sys.exit(main())
