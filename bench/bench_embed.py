"""Our embeddings against llvm-ir2vec, and against PyPI's `ir2vec`, on the same modules.

    bench_embed.py                                   a generated C file of 3,000 functions
    bench_embed.py --source sqlite3.c --corpus DIR   a real amalgamation, and a corpus of bitcode
    bench_embed.py --ir2vec-python venv/bin/python   also PyPI's ir2vec, installed in that Python

Time is CPU time of this process and its children, so it includes our reading process and each tool's start. All of ours
is exact (LLVM's bits); what llvm-ir2vec prints goes to /dev/null. Function vectors are compared with the tool's two
decimals: a difference ends the run with exit code 1.

- parse: our reading of the module and nothing else, the floor of everything.
- instructions, functions: 75 dimensions, one vocabulary, symbolic, from the file to an array in memory.
- four at once: symbolic and flow-aware with two vocabularies; we parse once, the tool four times.
- corpus: every module of the corpus, functions; the tool is one process a module.
- machine code: generated integer code for AArch64, from .mir text. The tool crashes on most other code, and looks the
  registers of all functions up in the first one's table, so its numbers are not compared here; the tests do.
- growth: peak memory of `mlgo embed --level instruction` over 8 modules of one size and over 24, IR and machine code.
  Where 24 take 20 MiB more (the vectors of 16 IR modules are 85), the run ends with exit code 1.

With a source, a corpus and PyPI's package it takes four minutes of CPU; `--quick` leaves out the tool's instruction
level, which is most of that.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pymlgo.embed import (
    MIRVocabulary,
    Reader,
    ReadOptions,
    Vocabulary,
    embed,
    ir_entities,
    mir_entities,
    read_ir,
    read_mir,
)
from pymlgo.embed.batch import Failure, sources_of
from pymlgo.embed.corpus_embedding import Request, embeddings_of
from pymlgo.embed.tool import IR2VecTool
from pymlgo.toolchain.llvm import find_llvm

DIMENSION = 75
GROWTH_MIB = 20
FUNCTION = """
static int table_N[16];
int work_N(int *p, int n, double f) {{
  int s = 0;
  for (int i = 0; i < n; i++) {{
    s += p[i] * (int)f; if (s > 1000 + N) {{ s -= table_N[i & 15]; }} else table_N[i & 7] ^= s;
  }}
  switch (s & 7) {{ case 0: return s; case 1: s += 3; break; case 4: s *= 7; default: s -= n; }}
  while (s > N) {{ if (s & 1) s = 3 * s + 1; else s /= 2; f *= 0.5; }} return s + (f > 1.0);
}}
"""


# The tool looks all registers up in the first function's table, so that one must have most of them.
FIRST = (
    "int first(int *p, int n) { int s = n; "
    + "".join(f"s += p[{n}] * n ^ s >> {n % 31}; " for n in range(99))
    + "return s; }"
)
INTEGERS = """
static int table_N[16];
int work_N(int *p, int n) {{
  int s = 0;
  for (int i = 0; i < n; i++) {{ s += p[i]; if (s > 1000 + N) s -= table_N[i & 15]; else table_N[i & 7] ^= s; }}
  switch (s & 7) {{ case 0: return s; case 1: s += 3; break; case 4: s *= 7; default: s -= n; }}
  while (s > N) {{ if (s & 1) s = 3 * s + 1; else s /= 2; }} return s;
}}
"""


def cpu_seconds(work: Callable[[], object], repeat: int = 2) -> float:
    """The least of several runs; children count once they have been waited for."""

    def used() -> float:
        return sum(
            each.ru_utime + each.ru_stime
            for each in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
        )

    times: list[float] = []
    for _ in range(repeat):
        before = used()
        work()
        times.append(used() - before)
    return min(times)


WATCH = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak_mib(*command: str | Path) -> float:
    """Peak memory of a command, started by a small process: a child's peak includes what it was forked from."""
    watched = subprocess.run([sys.executable, "-c", WATCH, *command], capture_output=True, text=True, check=True)
    return int(watched.stdout) / 1024


class Table:
    """Rows of what, ours, theirs and their ratio."""

    def __init__(self) -> None:
        print(f"{'':44}{'ours':>12}{'theirs':>12}{'ratio':>9}")

    def row(self, what: str, ours: float, theirs: float | None = None, note: str = "") -> None:
        """Print one row; the ratio says how many times ours fits into theirs."""
        shown = f"{theirs:12.3f}{theirs / ours:8.1f}x" if theirs is not None else " " * 21
        print(f"{what:44}{ours:12.3f}{shown}  {note}", flush=True)


def vocabulary_file(folder: Path, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    entities = ir_entities()
    sections: dict[str, dict[str, list[float]]] = {"Opcodes": {}, "Types": {}, "Arguments": {}}
    for kind, ids in entities.kinds.items():
        for entity in ids:
            sections[Vocabulary.SECTION_OF_KIND[kind]][entities.names[entity]] = rng.standard_normal(DIMENSION).tolist()
    path = folder / f"v{seed}.json"
    path.write_text(json.dumps(sections))
    return path


def generated(folder: Path, function: str, count: int, first: str = "") -> Path:
    path = folder / f"generated{count}.c"
    text = "".join(function.replace("N", str(number)) for number in range(count))
    path.write_text(first + text.replace("{{", "{").replace("}}", "}"))
    return path


def compile_to(output: Path, source: Path, *flags: str, clang: str = "clang-22") -> Path:
    subprocess.run([clang, "-w", "-c", "-emit-llvm", *flags, source, "-o", output], check=True)
    return output


def run_tool(tool: Path, *arguments: str | Path) -> None:
    subprocess.run([tool, *arguments], check=True, stdout=subprocess.DEVNULL)


def bench_module(table: Table, tool: Path, module: Path, files: list[Path], slow: bool) -> bool:
    vocabularies = [Vocabulary.load(file) for file in files]
    data = module.read_bytes()
    here = ReadOptions(definitions=False, isolated=False)
    both = ReadOptions(isolated=False)
    count = read_ir(data, options=here).walk.instructions
    print(f"\n{module.name}: {count} instructions, {len(data)} bytes")
    table.row("parse, s", cpu_seconds(lambda: read_ir(data, options=here)))

    def embedding(level: str) -> Callable[[], object]:
        return lambda: embed(read_ir(data, options=here), vocabularies[0], level=level)

    arguments = [f"--ir2vec-vocab-path={files[0]}", module]
    seconds = cpu_seconds(embedding("instruction"))
    theirs = cpu_seconds(lambda: run_tool(tool, "embeddings", "--level=inst", *arguments), 1) if slow else None
    table.row("instructions, s", seconds, theirs, f"{count / seconds / 1e6:.2f} M instructions/s")
    theirs = cpu_seconds(lambda: run_tool(tool, "embeddings", *arguments))
    table.row("functions, s", cpu_seconds(embedding("function")), theirs)

    def with_own_process() -> None:
        with Reader() as reader:
            embed(read_ir(data, options=ReadOptions(definitions=False), reader=reader), vocabularies[0])

    table.row("functions, read in a process of its own, s", cpu_seconds(with_own_process), theirs)

    def four() -> None:
        parsed = read_ir(data, options=both)
        for vocabulary in vocabularies:
            for kind in ("symbolic", "flow-aware"):
                embed(parsed, vocabulary, kind=kind)

    def four_theirs() -> None:
        for file in files:
            for kind in ("symbolic", "flow-aware"):
                run_tool(tool, "embeddings", f"--ir2vec-kind={kind}", f"--ir2vec-vocab-path={file}", module)

    table.row("functions, four at once, s", cpu_seconds(four), cpu_seconds(four_theirs))
    printed = IR2VecTool(program=tool).output("embeddings", f"--ir2vec-vocab-path={files[0]}", module)
    numbers = [line.split() for line in re.findall(rb"\[(.*?)\]", printed)]
    return bool(np.allclose(np.array(numbers, float), embed(read_ir(data), vocabularies[0]).vectors, atol=0.00501))


def bench_corpus(table: Table, tool: Path, corpus: Path, files: list[Path]) -> None:
    sources, _ = sources_of([corpus])
    request = Request(vocabulary=Vocabulary.load(files[0]))
    print(f"\ncorpus of {len(sources)} modules")
    failures: list[Failure] = []

    def ours() -> None:
        failures[:] = [each for each in embeddings_of(sources, request, jobs=1) if isinstance(each, Failure)]

    def theirs() -> None:
        for source in sources:
            run_tool(tool, "embeddings", f"--ir2vec-vocab-path={files[0]}", source.path)

    seconds = cpu_seconds(theirs, 1)
    table.row("functions, s", cpu_seconds(ours, 1), seconds, f"{len(failures)} failures")

    def four() -> None:
        for _ in embeddings_of_four(sources, files):
            pass

    table.row("functions, four at once, s", cpu_seconds(four, 1), 4 * seconds, "theirs: 4 x one")


def embeddings_of_four(sources, files: list[Path]):
    vocabularies = [Vocabulary.load(file) for file in files]
    with Reader() as reader:
        for source in sources:
            module = read_ir(source.path, reader=reader)
            for vocabulary in vocabularies:
                for kind in ("symbolic", "flow-aware"):
                    yield embed(module, vocabulary, kind=kind)


PEAK_OURS = """
import sys; from pathlib import Path
from pymlgo.embed import *
embed(read_ir(Path(sys.argv[1]), options=ReadOptions(definitions=False, isolated=False)), Vocabulary.load(sys.argv[2]))
"""
PEAK_THEIRS = """
import sys, ir2vec
o = ir2vec.initEmbedding(sys.argv[1], 'sym', 'f'); ir2vec.getFunctionVectors(o)
"""


def bench_pypi(table: Table, python: str, source: Path, folder: Path, files: list[Path]) -> None:
    module = compile_to(folder / "old.bc", source, "-O0", clang="clang-14")  # LLVM 16, which it bundles, reads 14's
    data = module.read_bytes()
    vocabulary = Vocabulary.load(files[0])
    here = ReadOptions(definitions=False, isolated=False)
    print("\nPyPI's ir2vec 2.1.1 (300 dimensions, its only ones), the same code from bitcode of clang 14")
    start = cpu_seconds(lambda: subprocess.run([python, "-c", "import ir2vec"], check=True))
    theirs = cpu_seconds(
        lambda: subprocess.run([python, "-c", PEAK_THEIRS, module], check=True, stdout=subprocess.DEVNULL), 1
    )
    table.row("functions, s", cpu_seconds(lambda: embed(read_ir(data, options=here), vocabulary)), theirs - start)
    table.row(
        "peak memory, MiB",
        peak_mib(sys.executable, "-c", PEAK_OURS, module, files[0]),
        peak_mib(python, "-c", PEAK_THEIRS, module),
    )


PEAK_OURS_MIR = """
import sys; from pathlib import Path
from pymlgo.embed import *
module = read_mir(Path(sys.argv[1]), options=ReadOptions(isolated=False))
embed(module, MIRVocabulary.load(sys.argv[2]), level="instruction")
"""


def bench_machine_code(table: Table, tool: Path, folder: Path) -> None:
    llc = find_llvm(major=22).tool("llc")
    source = generated(folder, INTEGERS, 500, FIRST)
    ir = compile_to(folder / "m.bc", source, "-O1", "--target=aarch64-linux-gnu", "-ffreestanding")
    whole = folder / "m.mir"
    subprocess.run([llc, "-stop-after=finalize-isel", ir, "-o", whole], check=True)
    file = mir_vocabulary_file(folder)
    vocabulary = MIRVocabulary.load(file)
    here = ReadOptions(isolated=False)
    data = whole.read_bytes()
    count = read_mir(data, options=here).walk.instructions
    print(f"\nmachine code: {count} instructions of AArch64, {len(data)} bytes of .mir, 20 dimensions")
    table.row("parse, s", cpu_seconds(lambda: read_mir(data, options=here), 1))
    arguments = ["embeddings", "--mode=mir", f"--mir2vec-vocab-path={file}", whole]
    for level, flag in (("function", "func"), ("instruction", "inst")):
        seconds = cpu_seconds(lambda level=level: embed(read_mir(data, options=here), vocabulary, level=level), 1)
        theirs = cpu_seconds(lambda flag=flag: run_tool(tool, *arguments, f"--level={flag}"), 1)
        table.row(f"{level}s, s", seconds, theirs, f"{count / seconds / 1e3:.0f} k instructions/s")
    ours = peak_mib(sys.executable, "-c", PEAK_OURS_MIR, whole, file)
    table.row("peak memory, instructions, MiB", ours, peak_mib(tool, *arguments, "--level=inst"))


def bench_growth(folder: Path) -> bool:
    """Whether 24 modules need no more memory than eight of them: a few wait for their turn at any time."""
    module = compile_to(folder / "one.bc", generated(folder, FUNCTION, 100), "-O0")
    print("\npeak memory over modules of one size, read one after the other, MiB")
    bounded = True
    for verb in ("ir", "mir"):
        command = [sys.executable, "-m", "pymlgo.cli.main", "embed", verb, "--level=instruction", "-j1"]
        few, many = (peak_mib(*command, *[module] * count, "-o", folder / "rows.npz") for count in (8, 24))
        print(f"{verb + ': 8 modules, 24 modules':44}{few:12.1f}{many:12.1f}")
        bounded &= many < few + GROWTH_MIB
    return bounded


def mir_vocabulary_file(folder: Path) -> Path:
    entities = mir_entities("aarch64-linux-gnu")
    rng = np.random.default_rng(0)
    sections: dict[str, dict[str, object]] = {name: {} for name in MIRVocabulary.SECTION_OF_KIND.values()}
    for kind, ids in entities.kinds.items():
        prefix = MIRVocabulary.KEY_PREFIX.get(kind, "")
        for entity in ids:
            name = entities.names[entity].removeprefix(prefix)
            sections[MIRVocabulary.SECTION_OF_KIND[kind]][name] = rng.standard_normal(20).tolist()
    path = folder / "mir.json"
    path.write_text(json.dumps(sections))
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, help="a C file (default: a generated one)")
    parser.add_argument("--corpus", type=Path, help="a corpus of bitcode")
    parser.add_argument("--ir2vec-python", help="a Python that has PyPI's ir2vec")
    parser.add_argument("--machine-code", action="store_true", help="only that part")
    parser.add_argument("--quick", action="store_true", help="leave out the tool's instruction level")
    arguments = parser.parse_args()
    tool = IR2VecTool.find().program
    table = Table()
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = (arguments.source or generated(folder, FUNCTION, 3000)).absolute()
        files = [vocabulary_file(folder, seed) for seed in (1, 2)]
        if arguments.machine_code:
            bench_machine_code(table, tool, folder)
            return 0 if bench_growth(folder) else 1
        good &= bench_module(table, tool, compile_to(folder / "O0.bc", source, "-O0"), files, not arguments.quick)
        good &= bench_module(table, tool, compile_to(folder / "O2.bc", source, "-O2"), files, False)
        if arguments.corpus:
            bench_corpus(table, tool, arguments.corpus, files)
        if arguments.ir2vec_python:
            bench_pypi(table, arguments.ir2vec_python, source, folder, files)
        bench_machine_code(table, tool, folder)
        bounded = bench_growth(folder)
    if not bounded:
        print("\nWRONG: memory grows with the number of modules")
    print("\nfunction vectors agree with the tool's" if good else "\nWRONG: function vectors differ from the tool's")
    return 0 if good and bounded else 1


if __name__ == "__main__":
    sys.exit(main())
