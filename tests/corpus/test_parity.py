"""Where mlgo-utils is right, ours gives the same bytes; by the document's command lines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from corpus_builds import EMBED, compile_file, files_of, run_peer, small_build, write_database, write_source

from conftest import ROOT, require_tool

pytestmark = pytest.mark.llvm


def run_ours(script: str, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts" / f"{script}.py", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)


def both(script: str, *arguments: object, folder: Path, ours: str = "ours", theirs: str = "theirs") -> str:
    """Run both with equal arguments; their outputs must be equal to the byte. Returns our stderr."""
    (folder / ours).mkdir()
    (folder / theirs).mkdir()
    finished = run_ours(script, *arguments, f"--output_dir={ours}", cwd=folder)
    run_peer(script, *arguments, f"--output_dir={theirs}", cwd=folder)
    assert files_of(folder / ours) == files_of(folder / theirs)
    return finished.stderr


def objcopy() -> str:
    return f"--llvm_objcopy_path={require_tool('llvm-objcopy-22')}"


@pytest.mark.spec("corpus.input.json")
@pytest.mark.spec("corpus.output-dir")
@pytest.mark.spec("corpus.num-workers")
@pytest.mark.parametrize("extra", [(), ("--cmd_filter=^-O2$",), ("--cmd_filter=^-Oz$",), ("--num_workers=2",)])
def test_compile_databases(tmp_path: Path, clang22: Path, extra: tuple[str, ...]) -> None:
    database = small_build(clang22, tmp_path)
    entries = json.loads(database.read_text())
    entries.append({"directory": str(tmp_path), "command": "cc -c gone.c -o gone.o", "file": "gone.c"})
    entries.append({"directory": str(tmp_path), "file": "no-command.c"})
    compile_file(clang22, tmp_path, "a.c", "plain.o", "-O1")
    entries.append({"directory": str(tmp_path), "arguments": ["cc", "-c", "a.c", "-o", "plain.o"], "file": "a.c"})
    write_database(tmp_path, entries)
    both("extract_ir", f"--input={database}", "--input_type=json", objcopy(), *extra, folder=tmp_path)


@pytest.mark.spec("corpus.llvm-objcopy-path")
def test_reading_in_process_gives_what_llvm_objcopy_gives(tmp_path: Path, clang22: Path) -> None:
    database = small_build(clang22, tmp_path)
    run_ours("extract_ir", "--input", database, "--output_dir", "in-process", cwd=tmp_path)
    run_ours("extract_ir", "--input", database, "--output_dir", "objcopy", objcopy(), cwd=tmp_path)
    assert files_of(tmp_path / "in-process") == files_of(tmp_path / "objcopy")
    assert len(files_of(tmp_path / "objcopy")) == 7


@pytest.mark.spec("corpus.input.params")
@pytest.mark.spec("corpus.obj-base-dir")
@pytest.mark.parametrize("lines", [["-o", "prog.o", "a.c.o", "-lm", "lib/b.c.o"], ["lib/b.c.o", "a.c.o"]])
def test_parameter_files(tmp_path: Path, clang22: Path, lines: list[str]) -> None:
    build = tmp_path / "build"
    build.mkdir()
    small_build(clang22, build)
    (tmp_path / "link.params").write_text("\n".join(lines) + "\n")
    arguments = ("--input=link.params", "--input_type=params", "--obj_base_dir=build", objcopy())
    both("extract_ir", *arguments, folder=tmp_path)


@pytest.mark.spec("corpus.input.directory")
def test_directories(tmp_path: Path, clang22: Path) -> None:
    build = tmp_path / "build"
    build.mkdir()
    small_build(clang22, build, ("a.c",))
    both("extract_ir", "--input=build", "--input_type=directory", objcopy(), folder=tmp_path)


@pytest.mark.spec("corpus.input.bazel-aquery")
@pytest.mark.spec("corpus.example.bazel")
def test_bazel_aquery_results(tmp_path: Path, clang22: Path) -> None:
    build = tmp_path / "bazel-bin"
    build.mkdir()
    small_build(clang22, build)
    link = {"mnemonic": "CppLink", "arguments": ["clang", "-o", "prog", "a.c.o", "lib/b.c.o", "-lm"]}
    (tmp_path / "aquery.json").write_text(json.dumps({"actions": [{"mnemonic": "CppCompile", "arguments": []}, link]}))
    arguments = ("--input=aquery.json", "--obj_base_dir=./bazel-bin", objcopy())
    both("extract_ir", *arguments, "--input_type=bazel_aquery", folder=tmp_path)
    misspelled = run_ours("extract_ir", *arguments, "--input_type=bazel_aqeury", "--output_dir=./corpus", cwd=tmp_path)
    assert misspelled.returncode == 0
    assert "hint: the input type is spelled bazel_aquery" in misspelled.stderr
    assert files_of(tmp_path / "corpus") == files_of(tmp_path / "ours")


@pytest.mark.spec("corpus.example.cmake")
def test_the_documents_cmake_example_and_its_slips(tmp_path: Path, clang22: Path) -> None:
    build = tmp_path / "build"
    build.mkdir()
    small_build(clang22, build)
    finished = run_ours(
        "extract_ir",
        "--input=./build/compile_commands.json",
        "--input_type=json",
        "--output_dir=./corpus",
        cwd=tmp_path,
    )
    assert finished.returncode == 0, finished.stderr
    assert len(files_of(tmp_path / "corpus")) == 7

    slip = run_ours("extract_ir", "--input=./build/compilation_commands.json", "--output_dir=./x", cwd=tmp_path)
    assert slip.returncode == 1
    assert "hint: CMake calls the file compile_commands.json" in slip.stderr

    write_source(build, "d.cpp")
    refused = {"directory": str(build), "command": "c++ -Xclang -fembed-bitcode-all -c d.cpp -o d.o", "file": "d.cpp"}
    write_database(build, [refused])
    slip = run_ours("extract_ir", "--input=./build/compile_commands.json", "--output_dir=./y", cwd=tmp_path)
    assert slip.returncode == 1
    assert "the flag is -fembed-bitcode=all" in slip.stderr


@pytest.mark.spec("corpus.section-names")
def test_other_section_names(tmp_path: Path, clang22: Path) -> None:
    database = small_build(clang22, tmp_path, ("a.c",))
    renamed = ["--rename-section=.llvmbc=.mybc", "--rename-section=.llvmcmd=.mycmd", tmp_path / "a.c.o"]
    subprocess.run([require_tool("llvm-objcopy-22"), *renamed], check=True)
    names = ("--cmd_section_name=.mycmd", "--bitcode_section_name=.mybc")
    both("extract_ir", f"--input={database}", *names, objcopy(), folder=tmp_path)
    assert set(files_of(tmp_path / "ours")) == {"a.c.o.bc", "a.c.o.cmd", "corpus_description.json"}


@pytest.mark.spec("corpus.section-names")
def test_mach_o_sections_by_their_names_or_by_default(tmp_path: Path, clang22: Path) -> None:
    write_source(tmp_path, "a.c")
    command = compile_file(clang22, tmp_path, "a.c", "a.o", *EMBED, "--target=arm64-apple-macos12")
    database = write_database(tmp_path, [{"directory": str(tmp_path), "arguments": command, "file": "a.c"}])
    names = ("--cmd_section_name=__LLVM,__cmdline", "--bitcode_section_name=__LLVM,__bitcode")
    both("extract_ir", f"--input={database}", *names, objcopy(), folder=tmp_path)
    run_ours("extract_ir", f"--input={database}", "--output_dir=default", cwd=tmp_path)
    assert files_of(tmp_path / "default") == files_of(tmp_path / "ours")
    assert "a.o.bc" in files_of(tmp_path / "ours")


@pytest.mark.spec("corpus.make")
@pytest.mark.parametrize("extra", [(), ("--default_args=-cc1 -Oz",)])
def test_make_corpus(tmp_path: Path, clang22: Path, extra: tuple[str, ...]) -> None:
    write_source(tmp_path, "bitcode/sub/a.c")
    command = [clang22, "-emit-llvm", "-c", "bitcode/sub/a.c", "-o", "bitcode/sub/a.bc"]
    subprocess.run(command, cwd=tmp_path, check=True)
    both("make_corpus", "--input_dir=bitcode", *extra, folder=tmp_path)
    assert set(files_of(tmp_path / "ours")) == {"sub/a.bc", "corpus_description.json"}


@pytest.mark.spec("corpus.combine")
def test_combine_training_corpus(tmp_path: Path, clang22: Path) -> None:
    for name in ("one", "two"):
        build = tmp_path / f"build-{name}"
        build.mkdir()
        small_build(clang22, build, ("a.c",))
        extract = ("--input", build / "compile_commands.json", "--output_dir", tmp_path / "root" / name)
        run_ours("extract_ir", *extract, cwd=tmp_path)
    assert run_ours("combine_training_corpus", "--root_dir=root", cwd=tmp_path).returncode == 0
    ours = json.loads((tmp_path / "root/corpus_description.json").read_text())
    assert run_peer("combine_training_corpus", "--root_dir=root", cwd=tmp_path) == 0
    theirs = json.loads((tmp_path / "root/corpus_description.json").read_text())
    assert ours == {**theirs, "modules": sorted(theirs["modules"])}

    description = tmp_path / "root/two/corpus_description.json"
    description.write_text(json.dumps(json.loads(description.read_text()) | {"has_thinlto": True}))
    refused = run_ours("combine_training_corpus", "--root_dir=root", cwd=tmp_path)
    assert refused.returncode == 1
    assert "differs from root/one by more than modules: has_thinlto is True instead of False" in refused.stderr


def test_flags_may_stand_without_a_value_as_mlgo_utils_lets_them(tmp_path: Path, clang22: Path) -> None:
    small_build(clang22, tmp_path, ("a.c",))
    bare = ("--num_workers", "--cmd_filter", "--obj_base_dir", "--thinlto_build", "--cmd_section_name")
    finished = run_ours(
        "extract_ir", "--input=compile_commands.json", "--input_type", *bare, "--output_dir=out", cwd=tmp_path
    )
    assert finished.returncode == 0, finished.stderr


def test_input_and_local_thinlto_exclude_each_other(tmp_path: Path) -> None:
    for arguments in (("--input=x", "--thinlto_build=local"), ()):
        finished = run_ours("extract_ir", *arguments, "--output_dir=out", cwd=tmp_path)
        assert finished.returncode == 2
        assert finished.stderr.startswith("error: ")
        assert "Traceback" not in finished.stderr
    assert list(tmp_path.iterdir()) == []
