"""`record`: unchanged builds embed bitcode and leave a compile database."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from conftest import require_tool
from pymlgo.corpus import read_corpus
from pymlgo.corpus import record as recording
from pymlgo.corpus.debian import SourcePackages, unpack
from pymlgo.corpus.inputs import extract_corpus
from pymlgo.corpus.record import RecordResult, record
from pymlgo.corpus.subset import dedup
from pymlgo.corpus.verify import verify
from pymlgo.toolchain.llvm import LLVM, find_llvm

pytestmark = pytest.mark.llvm

MAKEFILE = """
SHARED = -O2
all: prog one-step
lib/absolute.o: lib/absolute.c
	/usr/bin/gcc $(SHARED) -MD -MF lib/absolute.d -c $< -o $@
lib/inside.o: lib/inside.c
	cd lib && $(CC) $(SHARED) -c inside.c
spaced.o: main.cpp
	g++ $(SHARED) "-DTEXT=\\"two words\\"" -c main.cpp -o spaced.o
two.o: lib/absolute.c
	env cc -c lib/absolute.c -otwo.o
assembled.o: assembled.S
	clang -c assembled.S
text.i: lib/absolute.c
	cc -E lib/absolute.c -o text.i
text.s: lib/absolute.c
	cc -S lib/absolute.c -o text.s
prog: spaced.o lib/absolute.o lib/inside.o assembled.o text.i text.s two.o
	g++ -o prog spaced.o lib/absolute.o lib/inside.o assembled.o
one-step: one.c
	cc -O2 one.c -o one-step
"""


@pytest.fixture(scope="module")
def llvm(clang22: Path) -> LLVM:
    return find_llvm(clang=clang22)


def project(folder: Path) -> Path:
    (folder / "lib").mkdir(parents=True)
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "lib/absolute.c").write_text("int absolute(int x) { return x + 1; }\n")
    (folder / "lib/inside.c").write_text("int inside(int x) { return x + 2; }\n")
    (folder / "main.cpp").write_text(
        'extern "C" int absolute(int); extern "C" int inside(int);\n'
        "const char *text = TEXT; int main() { return absolute(inside(-3)); }\n"
    )
    (folder / "assembled.S").write_text('.section .note.GNU-stack,"",@progbits\n')
    (folder / "one.c").write_text("int main(void) { return 0; }\n")
    return folder


def recorded(folder: Path, llvm: LLVM, *command: str, flags: tuple[str, ...] = ()) -> RecordResult:
    return record(command, folder / "compile_commands.json", llvm=llvm, cwd=folder, flags=flags)


def test_every_compile_of_a_parallel_make_is_recorded(tmp_path: Path, llvm: LLVM) -> None:
    folder = project(tmp_path / "p")
    result = recorded(folder, llvm, "make", "-j3", flags=("-Oz",))
    assert (result.build_exit_code, result.entries, result.vanished) == (0, 5, 0)
    assert result.catches_absolute_paths
    entries = json.loads((folder / "compile_commands.json").read_text())
    outputs = {entry["output"] for entry in entries}
    assert {"lib/absolute.o", "inside.o", "spaced.o", "two.o"} < outputs
    assert all(isinstance(entry["arguments"], list) and entry["directory"] and entry["file"] for entry in entries)
    assert '-DTEXT="two words"' in next(entry for entry in entries if entry["output"] == "spaced.o")["arguments"]
    assert (folder / "lib/absolute.d").exists()
    assert subprocess.run([folder / "prog"], check=False).returncode == 0

    extracted = extract_corpus(folder / "compile_commands.json", tmp_path / "corpus")
    assert extracted.modules == 5
    assert extracted.skipped == {}
    assert extracted.levels == {"-Oz": 5}
    assert {"lib/absolute.o", "spaced.o"} < {each.name for each in read_corpus(tmp_path / "corpus").modules}


def test_what_makes_no_object_gets_no_bitcode(tmp_path: Path, llvm: LLVM) -> None:
    folder = project(tmp_path / "p")
    recorded(folder, llvm, "make", "text.s", "text.i", "assembled.o", "one-step")
    assert ".llvmbc" not in (folder / "text.s").read_text()
    assert b".llvmbc" not in (folder / "assembled.o").read_bytes()
    assert b".llvmbc" not in (folder / "one-step").read_bytes()
    assert "first" not in (folder / "text.i").read_text()


def test_without_the_hook_shims_in_path_catch_what_is_called_by_name(
    tmp_path: Path, llvm: LLVM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "_build_hook", lambda *_: None)
    folder = project(tmp_path / "p")
    result = recorded(folder, llvm, "make", "lib/inside.o", "two.o", "spaced.o")
    assert result.entries == 3
    assert not result.catches_absolute_paths
    assert "absolute path" in result.hints[0]


def test_a_failing_build_keeps_what_it_compiled(tmp_path: Path, llvm: LLVM) -> None:
    folder = project(tmp_path / "p")
    (folder / "lib/inside.c").write_text("this is no C\n")
    result = recorded(folder, llvm, "make", "lib/absolute.o", "lib/inside.o")
    assert result.build_exit_code != 0
    assert (result.entries, result.vanished) == (1, 1)


def test_appending_keeps_entries_of_other_objects(tmp_path: Path, llvm: LLVM) -> None:
    folder = project(tmp_path / "p")
    recorded(folder, llvm, "make", "two.o", "spaced.o")
    (folder / "two.o").unlink()
    result = record(["make", "two.o"], folder / "compile_commands.json", llvm=llvm, cwd=folder, append=True)
    assert result.entries == 2


def test_cmake_with_ninja(tmp_path: Path, llvm: LLVM) -> None:
    require_tool("cmake"), require_tool("ninja")
    folder = project(tmp_path / "p")
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(p C CXX)\n"
        "add_library(l STATIC lib/absolute.c lib/inside.c)\nadd_executable(prog main.cpp)\n"
        'target_compile_definitions(prog PRIVATE "TEXT=\\"a b\\"")\ntarget_link_libraries(prog l)\n'
    )
    result = recorded(folder, llvm, "sh", "-c", "cmake -G Ninja -S . -B b && ninja -C b")
    assert (result.build_exit_code, result.entries, result.vanished) == (0, 3, 0)
    assert extract_corpus(folder / "compile_commands.json", tmp_path / "corpus").modules == 3


def test_a_configure_script_is_believed_and_its_probes_are_not_recorded(tmp_path: Path, llvm: LLVM) -> None:
    folder = project(tmp_path / "p")
    (folder / "configure").write_text(
        "#!/bin/sh\nset -e\necho 'int main(void){return 0;}' > conftest.c\n${CC:-cc} -c conftest.c -o conftest.o\n"
        "${CC:-cc} conftest.c -o conftest\n./conftest\n"
        "if ${CC:-cc} -fno-such-flag -c conftest.c 2>/dev/null; then exit 1; fi\n"
    )
    result = recorded(folder, llvm, "sh", "-c", "sh configure && make lib/absolute.o")
    assert result.build_exit_code == 0
    entries = json.loads((folder / "compile_commands.json").read_text())
    assert [entry["output"] for entry in entries] == ["lib/absolute.o"]
    assert b".llvmbc" not in (folder / "conftest.o").read_bytes()


@pytest.mark.full
def test_an_autotools_package_with_its_compilers_by_absolute_path(tmp_path: Path, llvm: LLVM) -> None:
    require_tool("apt-get"), require_tool("dpkg-source"), require_tool("make")
    folder = tmp_path / "p"
    unpack(SourcePackages.prepare(tmp_path / "apt").fetch("libconfig", None, tmp_path / "package"), folder)
    build = "./configure CC=/usr/bin/gcc CXX='/usr/bin/g++ -std=gnu++14' && make -j3 -C lib"
    result = recorded(folder, llvm, "sh", "-c", build, flags=("-Oz",))
    assert (result.build_exit_code, result.vanished) == (0, 0)
    entries = json.loads((folder / "compile_commands.json").read_text())
    assert all("-MD" in entry["arguments"] and entry["arguments"][0] == str(llvm.clang) for entry in entries)
    sources = {Path(entry["file"]).stem for entry in entries}
    assert {"libconfig", "libconfigcpp", "grammar", "scanner", "scanctx", "strbuf"} <= sources

    # libtool compiles every source twice, for the shared and for the static library.
    extracted = extract_corpus(folder / "compile_commands.json", tmp_path / "corpus")
    assert (extracted.modules, extracted.skipped) == (len(entries), {})
    verified = verify(tmp_path / "corpus", llvm)
    assert verified.identical + verified.symbol_names_only == len(entries)
    unique = dedup(tmp_path / "corpus", tmp_path / "unique", by_source=True)
    assert unique.modules == len(sources)


def test_lto_objects_are_recorded_as_they_are(tmp_path: Path, llvm: LLVM) -> None:
    folder = project(tmp_path / "p")
    result = recorded(folder, llvm, "sh", "-c", "cc -Oz -flto -c one.c")
    assert result.entries == 1
    assert (folder / "one.o").read_bytes()[:4] == b"BC\xc0\xde"


def test_the_build_sees_its_own_environment_and_arguments(tmp_path: Path, llvm: LLVM) -> None:
    (tmp_path / "compile_commands.json").write_text("[]")
    program = "import os, sys; print(os.environ['MINE'], sys.argv[1:], file=open('seen', 'w'))"
    environment = {**os.environ, "MINE": "kept"}
    command = [os.path.realpath("/proc/self/exe"), "-c", program, "--", "a b"]
    result = record(command, tmp_path / "compile_commands.json", llvm=llvm, cwd=tmp_path, env=environment)
    assert result.build_exit_code == 0
    assert result.entries == 0
    assert "nothing was compiled" in result.hints[0]
    assert (tmp_path / "seen").read_text().strip() == "kept ['--', 'a b']"


def test_the_command_line(tmp_path: Path, run_mlgo, monkeypatch: pytest.MonkeyPatch, llvm: LLVM) -> None:
    monkeypatch.chdir(project(tmp_path / "p"))
    code, out, _ = run_mlgo("corpus", "record", "--clang", llvm.clang, "--json", "--", "make", "two.o")
    assert code == 0
    assert json.loads(out)["schema"] == "pymlgo/corpus-record-1"
    assert json.loads(out)["entries"] == 1
