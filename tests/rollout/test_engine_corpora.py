"""The compile server's objects are those of the real clang, module after module in one process."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pymlgo.corpus.description import Module, read_corpus
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import threshold_policy
from pymlgo.rollout import Job, Outcome, PlainBackend, PluginBackend, RolloutResult
from pymlgo.toolchain.advisor import advisor_plugin
from pymlgo.toolchain.engine_program import engine_program
from pymlgo.toolchain.llvm import LLVM, find_llvm

pytestmark = pytest.mark.llvm

C_SOURCE = """
static int clamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }
static long sum(const int *values, int count) {
  long total = 0;
  for (int i = 0; i < count; ++i) total += clamp(values[i] * 3, -100, 100);
  return total;
}
long first(const int *values, int count) { return sum(values, count) + clamp(count, 1, 5); }
long second(const int *values, int count) { return sum(values, count) - clamp(count, 0, 9); }
"""
CXX_SOURCE = """
template <typename T> struct List {
  T *items = nullptr;
  int count = 0;
  ~List() { delete[] items; }
  void add(T item) {
    T *grown = new T[count + 1];
    for (int i = 0; i < count; ++i) grown[i] = items[i];
    grown[count++] = item;
    delete[] items;
    items = grown;
  }
};
struct Shape { virtual ~Shape() {} virtual double area() const = 0; };
struct Square : Shape { double side = 2; double area() const override { return side * side; } };
double total(int count) {
  List<double> sizes;
  List<long> ranks;
  for (int i = 0; i < count; ++i) { sizes.add(Square().area()); ranks.add(i); }
  double sum = 0;
  for (int i = 0; i < sizes.count; ++i) sum += sizes.items[i] * ranks.items[i];
  return sum;
}
"""
FLAGS = "-cc1 -triple x86_64-pc-linux-gnu -emit-obj -mrelocation-model pic -pic-level 2 -vectorize-slp"
VARIANTS = ("-Oz", "-O2 -vectorize-loops -ffunction-sections", "-Os -mllvm -inline-threshold=0", "-O3 -vectorize-loops")

POLICIES = [None, threshold_policy(threshold=40)]


@pytest.fixture(scope="module")
def llvm(clang22: Path) -> LLVM:
    return find_llvm(clang=clang22)


@pytest.fixture(scope="module", params=[True, False], ids=["forking", "in its own process"])
def server(request: pytest.FixtureRequest, llvm: LLVM) -> Iterator[PluginBackend]:
    engine = engine_program(llvm)
    assert engine is not None, "the compile server was not built; `make set-up-tests` installs clang's headers"
    backend = PluginBackend(llvm=llvm, plugin=advisor_plugin(llvm), engine=engine, fork=request.param)
    with contextlib.closing(backend):
        yield backend


@pytest.fixture(scope="module")
def own_corpus(clang22: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Module]:
    """C and C++, each with several command lines."""
    folder = tmp_path_factory.mktemp("corpus")
    modules = []
    for language, text in (("c", C_SOURCE), ("cpp", CXX_SOURCE)):
        source = folder / f"m.{language}"
        source.write_text(text)
        for number, variant in enumerate(VARIANTS):
            bitcode = folder / f"{language}{number}.bc"
            flags = [variant.split()[0], "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
            subprocess.run([clang22, *flags, source, "-o", bitcode], check=True)
            command = tuple(f"{FLAGS} {variant}".encode().split())
            modules.append(
                Module(name=bitcode.stem, bitcode=bitcode, command=command, thinlto_index=None, size_bytes=0)
            )
    return modules


@pytest.mark.parametrize("policy", POLICIES, ids=["default", "policy"])
def test_every_module_of_a_small_corpus(
    own_corpus: list[Module], llvm: LLVM, server: PluginBackend, policy: Policy | None
) -> None:
    twice = [*own_corpus, *reversed(own_corpus)]  # each follows another than before
    assert differing(twice, llvm, server, policy) == []


@pytest.mark.full
@pytest.mark.parametrize("policy", POLICIES, ids=["default", "policy"])
def test_every_module_of_a_large_corpus(
    corpora: Path, llvm: LLVM, server: PluginBackend, policy: Policy | None
) -> None:
    modules = read_corpus(corpora / "dev").modules
    assert differing(modules, llvm, server, policy) == []


def differing(modules: Sequence[Module], llvm: LLVM, server: PluginBackend, policy: Policy | None) -> list[str]:
    """The modules whose object from the server is not, byte for byte, the one that clang alone makes."""
    clang = PluginBackend(llvm=llvm, plugin=advisor_plugin(llvm)) if policy else PlainBackend(llvm=llvm)
    found = []
    for module in modules:
        job = Job(module=module, policy=policy, keep_object=True)
        outcome = server.run(job)
        assert isinstance(outcome, RolloutResult), outcome
        if outcome.object_bytes != content(clang.run(job)):
            found.append(module.name)
    return found


def content(outcome: Outcome) -> bytes | None:
    """The object; None where there is none."""
    return outcome.object_bytes if isinstance(outcome, RolloutResult) else None
