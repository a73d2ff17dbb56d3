"""Records the golden logs: bytes that a stock clang wrote into its channel, untouched.

Run by hand: `python tests/training_log/record_golden.py`. The answers are the simplest legal ones: do not inline, evict
the last that is allowed (the candidate itself where it may), priority 0.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.flags import eviction_channel_flags, inliner_channel_flags, priority_channel_flags
from pymlgo.toolchain.llvm import LLVM, find_llvm
from pymlgo.toolchain.process import child

GOLDEN = Path(__file__).parent / "golden"

INLINED = """
static int twice(int x) { return x + x; }
static int square(int x) { for (int i = 0; i < x; i++) x += twice(x); return x * x; }
int first(int x) { return square(x) + square(x + 1) + twice(x); }
int second(int x) { return square(x) - twice(first(x)); }
"""


def repeated(line: str) -> str:
    """`line` for each of seven values: `@` is its number, `#` the next one's."""
    return "".join(line.replace("@", str(i)).replace("#", str((i + 1) % 7)) + "\n" for i in range(7))


PRESSED = f"""
void empty(void) {{}}
void pressed(volatile long *p, long n) {{
{repeated("  long v@ = p[@];")}  for (long i = 0; i < n; i++) {{
{repeated("    v@ = v@ * v# + i;")}  }}
{repeated("  p[@] = v@;")}}}
"""

Flags = Callable[[LLVM, Path], tuple[str, ...]]

LOGS: dict[str, tuple[int, str, Flags]] = {
    "inliner-22": (22, INLINED, lambda llvm, base: inliner_channel_flags(llvm, base, include_default=True)),
    "inliner-19": (19, INLINED, lambda llvm, base: inliner_channel_flags(llvm, base, include_default=False)),
    "eviction-22": (22, PRESSED, eviction_channel_flags),
    "eviction-19": (19, PRESSED, eviction_channel_flags),
    "priority-22": (22, PRESSED, priority_channel_flags),
}


def record(llvm: LLVM, source: str, flags: Flags) -> tuple[bytes, list[str]]:
    """What clang said, and its command without folders."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Path(folder, "x.c").write_text(source)
        base = folder / "channel"
        for end in (".in", ".out"):
            os.mkfifo(f"{base}{end}")
        to_compiler = os.open(f"{base}.in", os.O_RDWR)
        command = [str(llvm.clang), "-O2", "-c", f"{folder}/x.c", "-o", f"{folder}/x.o", *flags(llvm, base)]
        with child(command, stderr=subprocess.DEVNULL) as process, Path(f"{base}.out").open("rb") as from_compiler:
            said = answer(from_compiler, to_compiler)
            if process.wait(60):
                raise SystemExit(f"clang failed: {command}")
        os.close(to_compiler)
        return said, [part.replace(f"{folder}/", "") for part in command]


def answer(from_compiler, to_compiler: int) -> bytes:
    said = bytearray(from_compiler.readline())
    header = json.loads(said)
    specs = [TensorSpec.from_dict(each) for each in header["features"]]
    advice = TensorSpec.from_dict(header["advice"])
    while line := from_compiler.readline():
        said += line
        if line.startswith(b'{"context"'):
            continue
        reply = 0
        for spec in specs:
            tensor = from_compiler.read(spec.byte_size)
            said += tensor
            if spec.name == "mask":
                reply = int(np.flatnonzero(spec.view(tensor))[-1])
        said += from_compiler.read(1)
        os.write(to_compiler, advice.array(reply).tobytes())
    return bytes(said)


def main() -> int:
    for name, (major, source, flags) in LOGS.items():
        llvm = find_llvm(major=major)
        said, command = record(llvm, source, flags)
        GOLDEN.joinpath(f"{name}.log").write_bytes(said)
        described = {
            "command": " ".join(command),
            "llvm": llvm.version_text,
            "sha256": hashlib.sha256(said).hexdigest(),
            "observations": said.count(b'{"observation":'),
            "contexts": said.count(b'{"context":'),
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in described.items()]
        GOLDEN.joinpath(f"{name}.toml").write_text("\n".join(lines) + f"\nsource = '''\n{source.lstrip()}'''\n")
        print(name, len(said), described["observations"], described["contexts"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
