"""Linked sizes: copies of one inline function count once, whatever the objects are short of."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from conftest import require_tool
from pymlgo.corpus.description import Corpus, Description, Module, read_corpus, write_description
from pymlgo.corpus.objects import object_sizes
from pymlgo.errors import ToolchainError
from pymlgo.evaluate.language import language_of
from pymlgo.evaluate.linking import LinkedPrograms, TwoObjects, linked_sizes
from tiny_corpus import FLAGS, REPLAY

pytestmark = pytest.mark.llvm

CXX = """
int elsewhere(int);
template <class T> __attribute__((noinline)) T shared(T x) {
  for (int i = 0; i < 9; ++i) x ^= elsewhere(x + i);
  return x;
}
int NAME(int x) { return shared(x) + shared(x + 1); }
int main() { return NAME(3); }
"""


@pytest.fixture(scope="module")
def lld() -> Path:
    return require_tool("ld.lld-22")


def compiled(clang: Path, folder: Path, name: str, *flags: str) -> Path:
    output = folder / f"{name} with blanks.o"
    source = CXX.replace("NAME", name).encode()
    subprocess.run([clang, "-x", "c++", "-Oz", *flags, "-c", "-", "-o", output], input=source, check=True)
    return output


@pytest.mark.parametrize("flag", ["-fPIE", "-fno-pic"])
def test_a_function_in_every_object_counts_once(flag: str, clang22: Path, lld: Path, tmp_path: Path) -> None:
    objects = [compiled(clang22, tmp_path, name, flag) for name in ("first", "second", "third")]
    apart = [object_sizes(each.read_bytes()) for each in objects]
    linked = linked_sizes(lld, objects, tmp_path / "linked")
    one = linked_sizes(lld, objects[:1], tmp_path / "linked")
    assert one.text_bytes < linked.text_bytes < sum(each.text_bytes for each in apart)
    assert linked.berkeley_bytes > linked.text_bytes
    assert not (tmp_path / "linked").exists()


def test_what_cannot_be_linked_is_named(clang22: Path, lld: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.o"
    text.write_text("not an object\n")
    with pytest.raises(ToolchainError, match=r"text\.o"):
        linked_sizes(lld, [text], tmp_path / "linked")
    programs = LinkedPrograms(linker=lld)
    objects = [TwoObjects(default=compiled(clang22, tmp_path, "a"), given=compiled(clang22, tmp_path, "b"))]
    programs.add("whole", objects, tmp_path)
    programs.add("empty", [], tmp_path)
    found = programs.summed()
    assert [each.name for each in found.programs] == ["whole"]
    assert found.failed_programs == {"empty": "no module compiled both ways"}
    assert not objects[0].default.exists()


def test_without_a_linker_every_program_says_so(tmp_path: Path) -> None:
    programs = LinkedPrograms(linker=None)
    programs.add("p", [], tmp_path)
    found = programs.summed()
    assert (found.programs, found.text_change_percent) == ((), 0.0)
    assert "ld.lld" in found.failed_programs["p"]


@pytest.fixture(scope="module")
def two_languages(clang22: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    root = tmp_path_factory.mktemp("languages")
    sources = {"prog/a.cc": CXX.replace("NAME", "a"), "prog/b.cc": CXX.replace("NAME", "b"), "lib/c.c": "int c = 1;"}
    for name, text in sources.items():
        source, bitcode = root / name, root / f"{name}.bc"
        source.parent.mkdir(exist_ok=True)
        source.write_text(text)
        subprocess.run([clang22, *FLAGS, source, "-o", bitcode], check=True)
    write_description(root, Description(modules=tuple(sources), command_override=REPLAY))
    return read_corpus(root)


def test_an_evaluation_has_languages_and_linked_programs(two_languages: Corpus, lld: Path, run_mlgo) -> None:
    arguments = ("eval", "default", "--corpus", two_languages.root, "--backend", "pipes")
    code, out, _ = run_mlgo(*arguments, "--json")
    found = json.loads(out)
    assert code == 0
    assert [(each["name"], each["modules"]) for each in found["languages"]] == [("c", 1), ("c++", 2)]
    linked = found["linked"]
    assert [(each["name"], each["modules"]) for each in linked["programs"]] == [("lib", 1), ("prog", 2)]
    assert linked["default_text_bytes"] == linked["policy_text_bytes"] < found["default_text_bytes"]
    assert linked["failed_programs"] == {}
    assert found["program_interval95"] == [0, 0]
    code, out, _ = run_mlgo(*arguments)
    assert code == 0
    assert ".text, linked" in out
    assert "over programs" in out


@pytest.mark.parametrize("flag", ["--no-linked", "--reuse-defaults"])
def test_linking_can_be_left_out(
    flag: str, two_languages: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_mlgo
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code, out, _ = run_mlgo("eval", "default", "--corpus", two_languages.root, "--backend", "pipes", flag, "--json")
    assert (code, json.loads(out)["linked"]) == (0, None)


def test_the_language_is_that_of_the_source(tmp_path: Path) -> None:
    def module(name: str, *command: bytes) -> Module:
        return Module(name=name, bitcode=tmp_path / "none.bc", command=command, size_bytes=0)

    assert language_of(module("p/a.cc.o")) == "c++"
    assert language_of(module("p/a.o", b"-cc1", b"-main-file-name", b"a.c")) == "c"
    assert language_of(module("p/a.o", b"-main-file-name")) == "unknown"
    assert language_of(module("p/a.o")) == "unknown"
