"""Extraction against mlgo-utils, in one run on the same build: speed, memory, equal bytes; and the cost as it grows.

Then every module is replayed. Prints a table; exits 1 if an output or a replayed object differs. `--objects N` sets the
size of the build.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pymlgo.corpus.verify import verify
from pymlgo.toolchain.llvm import find_llvm

ROOT = Path(__file__).resolve().parent.parent
PEER = "mlgo-utils==19.0.0.dev202407180600"
SOURCES = 40
"""Different sources; the other objects are copies under other names, which cost a reader the same."""


@dataclass(frozen=True)
class Cost:
    """CPU and wall seconds of a command with all its children, and the peak memory of the largest."""

    cpu_s: float
    wall_s: float
    peak_mib: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=600)
    parser.add_argument("--clang", default="clang-22")
    parser.add_argument("--objcopy", default="llvm-objcopy-22")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-extract-") as folder:
        return compare(Path(folder), arguments)


def compare(folder: Path, arguments: argparse.Namespace) -> int:
    sources = compile_sources(folder / "sources", arguments.clang)
    build = make_build(folder / "build", sources, arguments.objects)
    peer_environment = {**os.environ, "PYTHONPATH": str(install_peer())}
    database = f"--input={build}"
    peer = [sys.executable, "-c", "from mlgo.corpus.extract_ir import parse_args_and_run as run; run()", database]
    peer += ["--num_workers=2", f"--llvm_objcopy_path={arguments.objcopy}", f"--output_dir={folder / 'theirs'}"]
    (folder / "theirs").mkdir()
    rows = [("mlgo-utils", measure(peer, peer_environment))]
    for name, extra in (("ours", []), ("ours, with llvm-objcopy", [f"--llvm_objcopy_path={arguments.objcopy}"])):
        script = [sys.executable, ROOT / "scripts/extract_ir.py", database, "--num_workers=2", *extra]
        rows.append((name, measure([*script, f"--output_dir={folder / name}"], dict(os.environ))))
    print(f"{arguments.objects} objects of {size_of(build.parent):.0f} MiB, 2 workers")
    print(f"{'':<26} {'CPU s':>8} {'objects/CPU s':>14} {'wall s':>8} {'peak MiB':>9} {'ratio':>7}")
    theirs = rows[0][1]
    for name, cost in rows:
        speed = arguments.objects / cost.cpu_s
        ratio = theirs.cpu_s / cost.cpu_s
        print(f"{name:<26} {cost.cpu_s:>8.2f} {speed:>14.0f} {cost.wall_s:>8.2f} {cost.peak_mib:>9.0f} {ratio:>6.1f}x")
    equal = all(digest(folder / name) == digest(folder / "theirs") for name, _ in rows[1:])
    print(f"outputs are {'equal to the byte' if equal else 'DIFFERENT'}")
    replayed = replays(folder / "ours", arguments.clang)
    with tempfile.TemporaryDirectory(prefix="bench-extract-", dir=memory_folder()) as quiet:
        growth(Path(quiet), sources)
    return 0 if equal and replayed else 1


def replays(corpus: Path, clang: str) -> bool:
    """True if every module compiles to the object of the build, names of private symbols aside."""
    result = verify(corpus, find_llvm(clang=clang))
    print(
        f"verify: {result.modules} modules, {result.identical} identical, {result.symbol_names_only} but for names of "
        f"private symbols, {result.different} different, {result.failed} failed; {result.cpu_s:.1f} CPU s of clang"
    )
    return result.identical + result.symbol_names_only == result.modules > 0


def memory_folder() -> str | None:
    """A file system in memory, so that the disk's other users do not show in the CPU time of its system calls."""
    shared = Path("/dev/shm")
    enough = shared.is_dir() and os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > 4 << 30
    return str(shared) if enough else None


def growth(folder: Path, sources: list[Path]) -> None:
    """The cost of one object in a corpus and in one ten times as large, start-up taken out; the best of three runs."""
    costs = {count: min(grown(folder, sources, count, attempt) for attempt in range(3)) for count in (1, 1000, 10_000)}
    small, large = ((costs[count] - costs[1]) / count for count in (1000, 10_000))
    print(f"CPU per object: {small * 1e6:.0f} us of 1,000, {large * 1e6:.0f} us of 10,000 ({large / small - 1:+.1%})")


def grown(folder: Path, sources: list[Path], count: int, attempt: int) -> float:
    """CPU seconds of one extraction of `count` objects in a fresh process, imports left out."""
    build = make_build(folder / f"build-{count}-{attempt}", sources, count)
    output = folder / f"grown-{count}-{attempt}"
    program = (
        "import time; from pathlib import Path; from pymlgo.corpus.extract import ExtractOptions;"
        "from pymlgo.corpus.inputs import extract_corpus; start = time.process_time();"
        f"extract_corpus(Path({str(build)!r}), Path({str(output)!r}), options=ExtractOptions(workers=1));"
        "print(time.process_time() - start)"
    )
    finished = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    shutil.rmtree(output)
    shutil.rmtree(build.parent)
    return float(finished.stdout)


def compile_sources(folder: Path, clang: str) -> list[Path]:
    folder.mkdir()
    objects = []
    for number in range(SOURCES):
        choice = random.Random(number)
        functions = [
            f"int f{k}(int x, int *p) {{ int s = {k}; for (int j = 0; j < x; ++j) s += p[j] * {choice.randint(2, 99)}"
            f" + {f'f{k - 1}(x - j, p)' if k else 'j'}; return s; }}\n"
            for k in range(choice.randint(10, 120))
        ]
        source = folder / f"{number}.c"
        source.write_text("".join(functions))
        output = folder / f"{number}.o"
        flags = ["-Oz", "-Xclang", "-fembed-bitcode=all", "-c"]
        subprocess.run([clang, *flags, source, "-o", output], check=True)
        objects.append(output)
    return objects


def make_build(folder: Path, sources: list[Path], count: int) -> Path:
    """A compile database over `count` objects, which are copies of the compiled ones."""
    entries = []
    for number in range(count):
        output = folder / f"obj/{number % 50}/{number}.c.o"
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(sources[number % len(sources)], output)
        command = f"clang -Iinclude -DNUMBER={number} -Oz -c src/{number}.c -o obj/{number % 50}/{number}.c.o"
        entries.append({"directory": str(folder), "command": command, "file": f"src/{number}.c"})
    database = folder / "compile_commands.json"
    database.write_text(json.dumps(entries))
    return database


def install_peer() -> Path:
    folder = ROOT / "build" / "mlgo-utils"
    if not (folder / "mlgo").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, PEER]
        subprocess.run(command, check=True)
    return folder


def measure(command: list[object], environment: dict[str, str]) -> Cost:
    """Run a command in a child of its own, so that the peak memory is not that of an earlier one."""
    handle, report = tempfile.mkstemp(prefix="bench-extract-")
    started = time.monotonic()
    child = os.fork()
    if not child:
        code = subprocess.run(
            [str(each) for each in command], env=environment, check=False, stderr=subprocess.DEVNULL
        ).returncode
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        os.write(handle, f"{usage.ru_utime + usage.ru_stime} {usage.ru_maxrss}".encode())
        os._exit(code)
    _, status = os.waitpid(child, 0)
    wall_s = time.monotonic() - started
    said = Path(report).read_text()
    os.close(handle)
    Path(report).unlink()
    if status:
        raise SystemExit(f"failed: {command}")
    cpu_s, peak_kib = said.split()
    return Cost(float(cpu_s), wall_s, int(peak_kib) / 1024)


def digest(corpus: Path) -> str:
    found = hashlib.sha256()
    for file in sorted(corpus.rglob("*")):
        if file.is_file() and file.name != "corpus_manifest.jsonl":
            found.update(f"{file.relative_to(corpus)}\0".encode() + file.read_bytes())
    return found.hexdigest()


def size_of(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*.o")) / (1 << 20)


if __name__ == "__main__":
    sys.exit(main())
