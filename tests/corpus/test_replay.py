"""A corpus suffices: modules replay to the objects of their build, ThinLTO of both kinds included."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from corpus_builds import EMBED, compile_file, files_of, run_peer, small_build, write_database, write_source

from conftest import require_tool
from pymlgo.corpus import read_corpus
from pymlgo.corpus.compare import Verdict, compare_objects
from pymlgo.corpus.extract import ExtractOptions
from pymlgo.corpus.extract_result import ExtractResult
from pymlgo.corpus.inputs import extract_corpus
from pymlgo.corpus.make import combine_corpora, make_corpus
from pymlgo.corpus.object_file import ObjectError
from pymlgo.corpus.subset import dedup, scrub, split
from pymlgo.corpus.verify import verify
from pymlgo.errors import ConfigError, CorpusError
from pymlgo.toolchain.llvm import LLVM, find_llvm

pytestmark = pytest.mark.llvm

MAIN = """
int first_a_c(int), second_b_c(int), second_sub_a_c(int);
int other(int x) { return x - 1; }
int main(void) { return first_a_c(1) + second_b_c(2) + second_sub_a_c(3); }
"""


@pytest.fixture(scope="module")
def llvm(clang22: Path) -> LLVM:
    return find_llvm(clang=clang22)


@pytest.mark.spec("corpus.replay")
def test_a_plain_build_replays_to_the_byte(tmp_path: Path, llvm: LLVM) -> None:
    (tmp_path / "b").mkdir()
    database = small_build(llvm.clang, tmp_path / "b")
    extract_corpus(database, tmp_path / "out")
    result = verify(tmp_path / "out", llvm)
    assert (result.modules, result.identical, result.failed) == (3, 3, 0)
    assert verify(tmp_path / "out", llvm, obj_base_dir=tmp_path / "b").identical == 3


def test_mach_o_and_coff_replay_to_the_byte(tmp_path: Path, llvm: LLVM) -> None:
    entries = []
    for target in ("arm64-apple-macos12", "x86_64-pc-windows-msvc"):
        write_source(tmp_path, "a.c")
        command = compile_file(llvm.clang, tmp_path, "a.c", f"{target}.o", *EMBED, f"--target={target}")
        entries.append({"directory": str(tmp_path), "arguments": command, "file": "a.c"})
    extract_corpus(write_database(tmp_path, entries), tmp_path / "out")
    assert verify(tmp_path / "out", llvm).identical == 2
    coff = (tmp_path / "x86_64-pc-windows-msvc.o").read_bytes()
    made_at_another_time = coff[:4] + bytes(4) + coff[8:]
    assert compare_objects(coff, made_at_another_time)[0] is Verdict.IDENTICAL


def test_what_cannot_be_verified_is_counted(tmp_path: Path, llvm: LLVM) -> None:
    (tmp_path / "b").mkdir()
    database = small_build(llvm.clang, tmp_path / "b")
    extract_corpus(database, tmp_path / "out")
    (tmp_path / "b/a.c.o").unlink()
    (tmp_path / "out/lib/b.c.o.bc").write_bytes(b"BC\xc0\xde damaged")
    compile_file(llvm.clang, tmp_path / "b", "lib/b.c", "lib/deep/c.c.o")
    result = verify(tmp_path / "out", llvm)
    assert (result.identical, result.different, result.failed) == (0, 1, 2)
    assert set(result.failures) == {"the build's object is gone", "the replay failed"}
    assert list(result.different_modules) == ["lib/deep/c.c.o"]


def test_private_names_do_not_make_objects_different(tmp_path: Path, llvm: LLVM) -> None:
    text = """
    .text
    .globl f
f:  leaq NAME(%rip), %rax
    callq other
    ret
    .section .rodata.str1.1,"aMS",@progbits,1
    .byte 0
NAME: .asciz "text"
"""
    objects = {}
    for name, changed in {"one": text, "two": text, "three": text.replace('"text"', '"test"')}.items():
        source = tmp_path / f"{name}.s"
        source.write_text(changed.replace("NAME", f".Lstr.{len(name)}"))
        subprocess.run([llvm.clang, "-c", source, "-o", tmp_path / f"{name}.o"], check=True)
        objects[name] = (tmp_path / f"{name}.o").read_bytes()
    calls_another = tmp_path / "four.s"
    calls_another.write_text(text.replace("NAME", ".Lstr.9").replace("other", "another"))
    subprocess.run([llvm.clang, "-c", calls_another, "-o", tmp_path / "four.o"], check=True)
    objects["four"] = (tmp_path / "four.o").read_bytes()
    objects["five"] = objects["one"].replace(b".Lstr.3", b".Lstr.7")
    assert compare_objects(objects["one"], objects["one"])[0] is Verdict.IDENTICAL
    assert compare_objects(objects["one"], objects["five"])[0] is Verdict.SYMBOL_NAMES_ONLY
    assert compare_objects(objects["one"], objects["three"]) == (Verdict.DIFFERENT, "section .rodata.str1.1")
    assert compare_objects(objects["one"], objects["four"]) == (Verdict.DIFFERENT, "relocations of section .text")
    with pytest.raises(ObjectError):
        compare_objects(objects["one"], b"")


def thinlto_sources(folder: Path) -> list[str]:
    sources = [write_source(folder, path) for path in ("a.c", "b.c", "sub/a.c")]
    (folder / "main.c").write_text(MAIN)
    return [*sources, "main.c"]


def linked_in_process(folder: Path, clang: Path, *link_flags: str, prelink: bool = True) -> None:
    """A local ThinLTO build with an archive, its temporary files kept."""
    folder.mkdir(parents=True)
    for source in thinlto_sources(folder):
        compile_file(clang, folder, source, source.replace(".c", ".o"), "-Oz", "-flto=thin", "-fPIC")
    subprocess.run([require_tool("llvm-ar-22"), "rcs", "lib.a", "b.o"], cwd=folder, check=True)
    saved = ["-Wl,--save-temps=import", "-Wl,--thinlto-emit-index-files"] + prelink * ["-Wl,--save-temps=prelink"]
    linker = f"-fuse-ld={require_tool('ld.lld-22')}"
    objects = ["main.o", "a.o", "sub/a.o", "lib.a"]
    subprocess.run(
        [clang, "-Oz", "-flto=thin", linker, *saved, *link_flags, *objects, "-o", "prog"], cwd=folder, check=True
    )


def extract_local(folder: Path, output: Path) -> ExtractResult:
    return extract_corpus(None, output, obj_base_dir=folder, options=ExtractOptions(thinlto="local"))


@pytest.mark.spec("corpus.thinlto.local")
@pytest.mark.spec("corpus.replay")
@pytest.mark.parametrize(
    "link_flags", [(), ("-shared",), ("-no-pie", "-Wl,--lto-O3")], ids=["pie", "shared", "fixed-O3"]
)
def test_the_override_of_local_thinlto_gives_llds_own_objects(
    link_flags: tuple[str, ...], tmp_path: Path, llvm: LLVM
) -> None:
    linked_in_process(tmp_path / "b", llvm.clang, *link_flags)
    result = extract_local(tmp_path / "b", tmp_path / "out")
    assert (result.modules, result.override_checked, result.override_matching) == (4, 4, 4)
    assert result.hints == ()
    corpus = read_corpus(tmp_path / "out")
    assert corpus.has_thinlto
    assert corpus.command_override is not None
    assert corpus.command_override[0] == "-cc1"
    verified = verify(tmp_path / "out", llvm)
    assert verified.identical + verified.symbol_names_only == 4

    (tmp_path / "theirs").mkdir()
    run_peer("extract_ir", "--thinlto_build=local", "--obj_base_dir=b", "--output_dir=theirs", cwd=tmp_path)
    ours, theirs = files_of(tmp_path / "out"), files_of(tmp_path / "theirs")
    assert json.loads(theirs.pop("corpus_description.json"))["global_command_override"] == ["<UNSPECIFIED>"]
    ours.pop("corpus_description.json")
    assert ours == theirs


def test_an_override_that_gives_other_objects_says_so(tmp_path: Path, llvm: LLVM) -> None:
    linked_in_process(tmp_path / "b", llvm.clang, "-Wl,-mllvm,-inline-threshold=0", "-Wl,-mllvm,-align-all-functions=6")
    result = extract_local(tmp_path / "b", tmp_path / "out")
    assert result.modules == result.override_checked == 4
    assert result.override_matching < 4
    assert "must be added to global_command_override by hand" in result.hints[0]


def test_an_unchecked_override_says_so_and_a_missing_index_is_counted(tmp_path: Path, llvm: LLVM) -> None:
    linked_in_process(tmp_path / "b", llvm.clang, prelink=False)
    (tmp_path / "b/a.o.thinlto.bc").unlink()
    result = extract_local(tmp_path / "b", tmp_path / "out")
    assert (result.modules, dict(result.skipped)) == (3, {"no-thinlto-index": 1})
    assert (result.override_checked, result.override_matching) == (0, 0)
    assert "save-temps=prelink" in result.hints[0]


@pytest.mark.spec("corpus.thinlto.distributed")
@pytest.mark.spec("corpus.replay")
def test_a_distributed_thinlto_build(tmp_path: Path, llvm: LLVM) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    linker = f"-fuse-ld={require_tool('ld.lld-22')}"
    objects = []
    for source in thinlto_sources(folder):
        objects.append(source.replace(".c", ".o"))
        compile_file(llvm.clang, folder, source, objects[-1], "-O2", "-flto=thin")
    index = ["-Wl,--thinlto-index-only=prog.params", "-Wl,--thinlto-emit-imports-files"]
    subprocess.run([llvm.clang, "-O2", "-flto=thin", linker, *index, *objects, "-o", "prog"], cwd=folder, check=True)
    entries = []
    for name in objects:
        (folder / "native" / name).parent.mkdir(parents=True, exist_ok=True)
        embed = ["-mllvm", "-lto-embed-bitcode=post-merge-pre-opt"]
        back_end = ["-O2", "-x", "ir", name, f"-fthinlto-index={name}.thinlto.bc", "-c", "-o", f"native/{name}", *embed]
        subprocess.run([llvm.clang, *back_end], cwd=folder, check=True)
        entries.append({"directory": str(folder), "arguments": ["clang", *back_end], "file": name})
    write_database(folder, entries)
    options = ExtractOptions(thinlto="distributed")
    result = extract_corpus(folder / "compile_commands.json", tmp_path / "out", options=options)
    assert (result.modules, result.skipped) == (4, {})
    assert (tmp_path / "out/native/a.o.thinlto.bc").read_bytes() == (folder / "a.o.thinlto.bc").read_bytes()
    verified = verify(tmp_path / "out", llvm)
    assert verified.identical + verified.symbol_names_only == 4, verified

    (tmp_path / "theirs").mkdir()
    objcopy = f"--llvm_objcopy_path={require_tool('llvm-objcopy-22')}"
    given = ("--thinlto_build=distributed", "--input=b/compile_commands.json", objcopy, "--output_dir=theirs")
    run_peer("extract_ir", *given, cwd=tmp_path)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "theirs")

    (folder / "native.params").write_text("\n".join(f"native/{name}" for name in objects))
    listed = extract_corpus(
        folder / "native.params", tmp_path / "listed", input_type="params", obj_base_dir=folder, options=options
    )
    assert listed.modules == 4


def test_a_corpus_of_bitcode_files_is_verified_against_named_objects(tmp_path: Path, llvm: LLVM) -> None:
    source = tmp_path / write_source(tmp_path, "a.c")
    flags = ["-O2", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
    (tmp_path / "bc").mkdir()
    subprocess.run([llvm.clang, *flags, source, "-o", tmp_path / "bc/a.bc"], check=True)
    (tmp_path / "o").mkdir()
    subprocess.run([llvm.clang, "-O2", "-c", source, "-o", tmp_path / "o/a"], check=True)
    make_corpus(tmp_path / "bc", tmp_path / "out", default_args=["-O2"])
    result = verify(tmp_path / "out", llvm, obj_base_dir=tmp_path / "o")
    assert result.identical == 1, result


@pytest.fixture
def corpus(tmp_path: Path, llvm: LLVM) -> Path:
    """A corpus of three projects, one of which compiles a source twice."""
    for project in ("one", "two", "three"):
        folder = tmp_path / project
        folder.mkdir()
        entries = []
        for source in ("a.c", "b.c"):
            for kind, flags in {"static": (), "shared": ("-fPIC", "-DPIC", "-fno-semantic-interposition")}.items():
                if kind == "static" or (project == "one" and source == "a.c"):
                    write_source(folder, source)
                    output = f"{kind}/{source}.o"
                    command = compile_file(llvm.clang, folder, source, output, *EMBED, *flags, f"-I{folder}", "-MD")
                    entries.append({"directory": str(folder), "arguments": command, "file": source})
        extract_corpus(write_database(folder, entries), tmp_path / "corpora" / project)
    assert combine_corpora(tmp_path / "corpora").modules == 7
    return tmp_path / "corpora"


def test_scrubbed_command_lines_name_no_path_and_give_equal_objects(corpus: Path, tmp_path: Path, llvm: LLVM) -> None:
    result = scrub(corpus, tmp_path / "clean")
    assert (result.modules, result.dropped) == (7, {})
    for module in read_corpus(tmp_path / "clean").modules:
        assert not any(str(tmp_path).encode() in each or b"fembed-bitcode" in each for each in module.command)
        assert b"-O2" in module.command
    assert verify(tmp_path / "clean", llvm).identical == 7


def test_dedup_by_content_and_by_source(corpus: Path, tmp_path: Path) -> None:
    # The three projects' sources have equal text and equal relative names, so their bitcode differs by nothing.
    by_content = dedup(corpus, tmp_path / "content")
    assert by_content.modules + by_content.dropped["same content"] == 7
    by_source = dedup(corpus, tmp_path / "source", by_source=True)
    assert by_source.modules <= by_content.modules
    names = [each.name for each in read_corpus(tmp_path / "source").modules]
    assert len([each for each in names if each.endswith("a.c.o")]) == len(
        [each for each in names if each.endswith("b.c.o")]
    )


def test_splits_share_no_project_and_depend_on_the_seed_only(corpus: Path, tmp_path: Path) -> None:
    one, again = (split(corpus, tmp_path / name, seed=3, fraction=0.3) for name in ("one", "again"))
    assert set(one.train_projects) | set(one.evaluation_projects) == {"one", "two", "three"}
    assert not set(one.train_projects) & set(one.evaluation_projects)
    assert one.evaluation_projects == again.evaluation_projects
    drawn = {split(corpus, tmp_path / f"{seed}", seed=seed, fraction=0.3).evaluation_projects for seed in range(8)}
    assert len(drawn) > 1
    named = split(corpus, tmp_path / "named", evaluation=["two"])
    assert named.evaluation_projects == ("two",)
    assert named.evaluation.modules == 2
    assert json.loads((tmp_path / "named/evaluation/corpus_description.json").read_text())["has_thinlto"] is False
    with pytest.raises(ConfigError, match="no project 'four'"):
        split(corpus, tmp_path / "x", evaluation=["four"])
    with pytest.raises(CorpusError, match="cannot be split"):
        split(corpus / "one", tmp_path / "x", evaluation=["static", "shared"])


def test_a_corpus_is_not_overwritten_by_what_is_made_of_it(corpus: Path) -> None:
    with pytest.raises(ConfigError, match="take the place"):
        scrub(corpus, corpus)


def test_the_verbs_print_their_results_as_json(corpus: Path, tmp_path: Path, run_mlgo, llvm: LLVM) -> None:
    clang = ("--clang", llvm.clang)
    for verb, arguments in {
        "describe": (corpus,),
        "verify": (corpus, *clang),
        "dedup": (corpus, "--output-dir", tmp_path / "d"),
        "scrub": (corpus, "--output-dir", tmp_path / "s"),
        "split": (corpus, "--output-dir", tmp_path / "p", "--evaluation", "one"),
        "index": (corpus, *clang),
        "export": (corpus, "--output", tmp_path / "t.parquet"),
        "combine": ("--root-dir", corpus),
        "make": ("--input-dir", corpus, "--output-dir", tmp_path / "m"),
    }.items():
        code, out, err = run_mlgo("corpus", verb, *arguments, "--json")
        assert code == 0, err
        assert json.loads(out)["schema"] == f"pymlgo/corpus-{verb}-1"
    rows = [json.loads(line) for line in (corpus / "index.jsonl").read_text().splitlines()]
    assert len(rows) == 7
    assert set(rows[0]) == {"module", "bc_bytes", "decisions", "default_inlined", "text", "berkeley_text", "cpu_s"}
    assert all(row["decisions"] > 0 for row in rows)


def test_a_parquet_table_has_a_row_for_every_module(corpus: Path, tmp_path: Path, run_mlgo) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run_mlgo("corpus", "export", corpus, "--output", tmp_path / "t.parquet")[0] == 0
    rows = parquet.read_table(tmp_path / "t.parquet").to_pylist()
    modules = read_corpus(corpus).modules
    assert [row["module"] for row in rows] == [each.name for each in modules]
    assert [row["bitcode"] for row in rows] == [each.bitcode.read_bytes() for each in modules]
    assert [tuple(row["command"]) for row in rows] == [each.command for each in modules]
    assert rows[0]["project"] == "one"
