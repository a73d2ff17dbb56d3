"""Small projects made of generated C, compiled to a corpus: enough decisions to flip, a second to compile."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from pymlgo.corpus.description import Corpus, Description, read_corpus, write_description

FLAGS = ["-Oz", "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c", "-w"]
REPLAY = ("-cc1", "-triple", "x86_64-pc-linux-gnu", "-Oz", "-emit-obj", "-mrelocation-model", "pic", "-pic-level", "2")


def make_corpus(clang: Path, root: Path, *, projects: int = 4, modules: int = 3, seed: int = 1) -> Corpus:
    """A corpus of `projects` * `modules` modules named `p<i>/m<j>`, about 20 decisions each."""
    names = []
    for project in range(projects):
        for number in range(modules):
            name = f"p{project}/m{number}"
            bitcode = root / f"{name}.bc"
            bitcode.parent.mkdir(parents=True, exist_ok=True)
            text = source_text(random.Random(f"{seed} {name}"))
            command = [clang, *FLAGS, "-x", "c", "-", "-o", bitcode]
            subprocess.run(command, input=text.encode(), check=True, capture_output=True)
            names.append(name)
    write_description(root, Description(modules=tuple(names), command_override=REPLAY))
    return read_corpus(root)


def source_text(draw: random.Random, functions: int = 8) -> str:
    """C with static functions that call earlier ones several times, and a few that are exported."""
    lines = ["extern int use(int); extern int table[64];"]
    known: list[str] = []
    for number in range(functions):
        lines.append(f"static int f{number}(int a, int b) {{ int r = a;")
        for _ in range(draw.randrange(1, 7)):
            lines.append(_statement(draw, known))
        lines.append("return r; }")
        known.append(f"f{number}")
    for number in range(4):
        calls = " + ".join(f"{draw.choice(known)}(x + {draw.randrange(9)}, {draw.choice('xy')})" for _ in range(4))
        lines.append(f"int g{number}(int x, int y) {{ return {calls}; }}")
    return "\n".join(lines)


def _statement(draw: random.Random, known: list[str]) -> str:
    choice = draw.randrange(6 if known else 4)
    constant = draw.randrange(1, 60)
    if choice == 0:
        return f"r = r * {constant} + b;"
    if choice == 1:
        return f"if (r > {constant}) r -= table[b & {constant}];"
    if choice == 2:
        return f"for (int i = 0; i < b; ++i) r ^= table[i & 63] + {constant};"
    if choice == 3:
        return f"r += use(r + {constant});"
    return f"r += {draw.choice(known)}(r, {draw.choice(['b', str(constant)])});"
