"""LLVM's own results at full precision, and small modules to compare them on."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from conftest import require_tool
from pymlgo.embed.core import has_core
from pymlgo.embed.entities import EntityTable, ir_entities
from pymlgo.embed.vocabulary import MIRVocabulary, Vocabulary

HERE = Path(__file__).parent
LEVELS = ("function", "block", "instruction")
KINDS = ("symbolic", "flow-aware")

needs_core = pytest.mark.skipif(
    not has_core() and not os.environ.get("CI"), reason="the native core is not built; `make native` builds it"
)


@functools.cache
def oracle(name: str) -> Path:
    """The program built from `name`.cpp and this machine's LLVM 22; kept between test runs while the source stays."""
    require_tool("llvm-config-22")
    config = functools.partial(subprocess.run, capture_output=True, text=True, check=True)
    flags = config(["llvm-config-22", "--cppflags"]).stdout.split()
    library = config(["llvm-config-22", "--libdir"]).stdout.strip()
    version = config(["llvm-config-22", "--version"]).stdout
    source = HERE / f"{name}.cpp"
    key = hashlib.sha256(source.read_bytes() + version.encode()).hexdigest()[:16]
    program = Path(tempfile.gettempdir()) / f"pymlgo-oracles-{os.getuid()}" / f"{name}-{key}"
    if not program.exists():
        program.parent.mkdir(mode=0o700, exist_ok=True)
        part = program.with_suffix(f".{os.getpid()}")
        command = ["g++", "-std=c++17", "-O1", *flags, source, "-o", part, f"-L{library}", "-lLLVM-22"]
        subprocess.run(command, check=True)
        part.replace(program)
    return program


def ir_oracle(vocabulary: Path, modules: list[Path]) -> list[dict[tuple[str, str], np.ndarray]]:
    """For each module, LLVM's rows by (kind, level), flat."""
    command = [oracle("ir2vec_oracle"), f"--ir2vec-vocab-path={vocabulary}", *modules]
    data = subprocess.run(command, capture_output=True, check=True).stdout
    found: list[dict[tuple[str, str], np.ndarray]] = []
    offset = 0
    for _ in modules:
        rows: dict[tuple[str, str], np.ndarray] = {}
        for kind in KINDS:
            for level in LEVELS:
                (count,) = np.frombuffer(data, np.uint64, 1, offset)
                rows[kind, level] = np.frombuffer(data, np.float64, int(count), offset + 8)
                offset += 8 + 8 * int(count)
        found.append(rows)
    assert offset == len(data)
    return found


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    flat = np.ascontiguousarray(left).reshape(-1).view(np.uint64)
    return flat.shape == right.reshape(-1).shape and bool((flat == right.reshape(-1).view(np.uint64)).all())


def random_vocabulary(path: Path, dimension: int = 75, seed: int = 0) -> Vocabulary:
    """A vocabulary with every entity, hostile to sloppy sums: magnitudes differ, some rows are zero or minus zero."""
    return _random(Vocabulary, path, ir_entities(), dimension, seed)


def random_mir_vocabulary(path: Path, entities: EntityTable, dimension: int = 20, seed: int = 0) -> MIRVocabulary:
    return _random(MIRVocabulary, path, entities, dimension, seed)


def _random(made, path: Path, entities: EntityTable, dimension: int, seed: int):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((len(entities), dimension)) * 10.0 ** rng.integers(-3, 4, (len(entities), 1))
    rows[3], rows[5] = -0.0, 0.0
    sections: dict[str, dict[str, object]] = {name: {} for name in made.SECTION_OF_KIND.values()}
    for kind, ids in entities.kinds.items():
        for entity in ids:
            key = entities.names[entity].removeprefix(made.KEY_PREFIX.get(kind, ""))
            sections[made.SECTION_OF_KIND[kind]][key] = rows[entity].tolist()
    path.write_text(json.dumps(sections))
    return made.load(path)


def compiled(clang: Path, source: str, output: Path, *flags: str) -> Path:
    """Bitcode (or text, by the ending) of a C or C++ source text."""
    suffix = ".cpp" if "c++" in flags else ".c"
    file = output.with_suffix(suffix)
    file.write_text(source)
    form = ["-S"] if output.suffix == ".ll" else ["-c"]
    kept = [flag for flag in flags if flag != "c++"]
    subprocess.run([clang, "-emit-llvm", *form, "-w", *kept, file, "-o", output], check=True)
    return output


TRIPLES = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "riscv64-unknown-linux-gnu")


def machine_code(clang: Path, folder: Path, triple: str) -> Path:
    """Machine IR of `C_SOURCE` (calls, floating point, loops, a switch), beside the IR `m.ll` that it was made from."""
    ir = compiled(clang, C_SOURCE, folder / "m.ll", f"--target={triple}", "-O2", "-fno-vectorize")
    llc = require_tool("llc-22")
    subprocess.run([llc, "-stop-after=finalize-isel", ir, "-o", folder / "m.mir"], check=True, capture_output=True)
    return folder / "m.mir"


C_SOURCE = """
struct point { int x; double y; char tag[3]; };
extern int putchar(int); extern void *malloc(unsigned long);
static int table[64]; int (*handler)(int);
int classify(int c) {
  switch (c) {
    case 0: return 3; case 1: case 2: return putchar(c); case 9: c += 4; break; case 40: return -c; default: c ^= 1;
  }
  while (c > 100) {
    if (c & 1) c = 3 * c + 1; else c /= 2;
    for (int i = 0; i < c; i++) { if (table[i & 63] > i) continue; table[i & 63]--; }
  }
  return handler ? handler(c) : c;
}
double mix(struct point *p, int n, float f) {
  double s = 0;
  for (int i = 0; i < n; i++) {
    s += p[i].y * f; if (p[i].x < 0 || p[i].tag[1] == 'z') s -= p[i].x; if (s > 1e9) goto out;
  }
  return s / n;
out: return -s;
}
unsigned long long bits(unsigned long long v) {
  unsigned long long r = 0;
  do { r = r << 1 | (v & 1); v >>= 1; } while (v);
  return r % 1000003 + (r >> 40);
}
struct point make(int x) { struct point p = { x, x * 0.5, "ab" }; return p; }
typedef float v4 __attribute__((vector_size(16))); v4 scale(v4 a, v4 b) { return a * b + (v4){1, 2, 3, 4}; }
int atomically(int *p) {
  __atomic_fetch_add(p, 3, 5); int e = 1; __atomic_compare_exchange_n(p, &e, 7, 0, 5, 5); return e;
}
"""

CPP_SOURCE = """
struct Base { virtual ~Base() {} virtual int f(int) = 0; };
struct One : Base { int n; One(int n) : n(n) {} int f(int x) override { if (x > n) throw x; return x - n; } };
int guarded(Base &b, int x) { try { return b.f(x); } catch (int e) { return -e; } catch (...) { return 0; } }
template <typename T> T power(T base, int n) { T r = 1; while (n-- > 0) r *= base; return r; }
double use(int n) { One o(n); return guarded(o, n + 1) + power<double>(1.5, n) + power<long>(3, n); }
"""

HAND_MADE = """
; a use laid out before its definition, an unreachable block, a self reference, phis over a back edge
define i32 @order(i32 %a, i1 %c) {
entry:
  br i1 %c, label %def, label %other
use:
  %u = add i32 %d, 1
  %s = icmp slt i32 %u, %a
  br i1 %s, label %use, label %other
def:
  %d = mul i32 %a, %a
  br label %use
dead:
  %x = add i32 %x, 1
  br label %dead
other:
  %p = phi i32 [ 0, %entry ], [ %u, %use ]
  ret i32 %p
}
define void @empty() { ret void }
declare i32 @outside(i32, ...)
define i32 @loop(ptr %p, i32 %n) {
  br label %1
1:
  %i = phi i32 [ 0, %0 ], [ %next, %1 ]
  %next = add i32 %i, 1
  %q = getelementptr i32, ptr %p, i32 %i
  store i32 %next, ptr %q
  %r = call i32 (i32, ...) @outside(i32 %i, ptr %q, double 1.0) [ "deopt"(i32 %next) ]
  %cmp = fcmp olt float 0.0, undef
  %more = icmp ult i32 %next, %n
  br i1 %more, label %1, label %2
2:
  ret i32 %next
}
"""
