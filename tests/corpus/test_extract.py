"""Extraction: every object that can be a module is one, and everything else is counted with a reason."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_builds import EMBED, compile_file, files_of, small_build, write_database, write_source

from conftest import require_tool
from pymlgo.corpus import extract as extraction
from pymlgo.corpus import read_corpus, replay_command
from pymlgo.corpus.extract import ExtractOptions
from pymlgo.corpus.extract_result import ExtractResult
from pymlgo.corpus.inputs import extract_corpus
from pymlgo.corpus.manifest import ModuleRecord, read_manifest, read_manifest_head
from pymlgo.errors import ConfigError, CorpusError

pytestmark = pytest.mark.llvm

Entry = dict[str, object]


class Build:
    """A folder in which entries of a compile database are made one by one."""

    def __init__(self, folder: Path, clang: Path) -> None:
        self.folder = folder
        self.clang = clang
        self.entries: list[object] = []

    def add(self, source: str, made: str, /, *flags: str, **fields: object) -> Path:
        """Compile `source` to `made` and add the entry, with `fields` in place of the usual ones."""
        if not (self.folder / source).exists():
            write_source(self.folder, source)
        arguments = compile_file(self.clang, self.folder, source, made, *flags)
        entry: Entry = {"directory": str(self.folder), "arguments": arguments, "file": source}
        self.entries.append({key: value for key, value in (entry | fields).items() if value is not None})
        return self.folder / made

    def extract(self, **options: object) -> ExtractResult:
        database = write_database(self.folder, self.entries)
        return extract_corpus(database, self.folder.parent / "out", options=ExtractOptions(**options))  # type: ignore[arg-type]

    def names(self) -> list[str]:
        return [each.name for each in read_corpus(self.folder.parent / "out").modules]


@pytest.fixture
def build(tmp_path: Path, clang22: Path) -> Build:
    (tmp_path / "build").mkdir()
    return Build(tmp_path / "build", clang22)


SPELLINGS: dict[str, Callable[[Path], Entry]] = {
    "quoted blank": lambda folder: {"command": 'cc -c a.c -o "x y.o"', "arguments": None},
    "attached -o": lambda folder: {"arguments": ["cc", "-c", "a.c", "-ox y.o"]},
    "--output=": lambda folder: {"arguments": ["cc", "-c", "a.c", "--output=x y.o"]},
    "output field": lambda folder: {"arguments": ["cc", "-c", "a.c"], "output": "x y.o"},
    "response file": lambda folder: {"arguments": ["cc", "@outer.rsp"]},
    "absolute": lambda folder: {"arguments": ["cc", "-c", "a.c", "-o", str(folder / "x y.o")]},
    "roundabout": lambda folder: {"arguments": ["cc", "-c", "a.c", "-o", "./sub/../x y.o"]},
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_way_to_spell_the_object_is_understood(spelling: str, build: Build) -> None:
    (build.folder / "outer.rsp").write_text("-c @inner.rsp")
    (build.folder / "inner.rsp").write_text('a.c -o "x y.o" @outer.rsp')
    (build.folder / "sub").mkdir()
    build.add("a.c", "x y.o", **SPELLINGS[spelling](build.folder))
    result = build.extract()
    assert (result.modules, result.skipped) == (1, {})
    assert build.names() == ["x y.o"]


def test_without_any_output_the_object_has_the_sources_name(build: Build) -> None:
    build.add("lib/a.c", "a.o", arguments=["cc", "-c", "lib/a.c"])
    assert build.extract().modules == 1
    assert build.names() == ["a.o"]


def test_equal_names_in_two_directories_are_told_apart(build: Build) -> None:
    for folder in ("lib", "src", "src/deep"):
        write_source(build.folder, f"{folder}/a.c")
        compile_file(build.clang, build.folder / folder, "a.c", "a.o")
        entry = {"directory": str(build.folder / folder), "command": "cc -c a.c -o a.o", "file": "a.c"}
        build.entries.append(entry)
    assert build.extract().modules == 3
    assert build.names() == ["lib/a.o", "src/a.o", "src/deep/a.o"]


def test_a_path_that_climbs_out_stays_in_the_corpus(build: Build) -> None:
    (build.folder / "sub").mkdir()
    build.add("a.c", "../outside.o", directory=str(build.folder), arguments=["cc", "-c", "a.c", "-o", "../outside.o"])
    build.add("b.c", "b.o", directory=str(build.folder / "sub"), arguments=["cc", "-c", "b.c", "-o", "../b.o"])
    before = {each for each in build.folder.parent.rglob("*") if each.is_file()}
    assert build.extract().modules == 2
    new = {each for each in build.folder.parent.rglob("*") if each.is_file()} - before
    assert all(each.is_relative_to(build.folder.parent / "out") for each in new if each.name != "compile_commands.json")
    assert build.names() == ["outside.o", "b.o"]


def test_an_object_that_is_named_twice_is_extracted_once(build: Build) -> None:
    build.add("a.c", "a.o")
    build.entries.append({**build.entries[0], "arguments": ["cc", "-c", "a.c", "-o", "./a.o"]})  # type: ignore[dict-item]
    result = build.extract()
    assert (result.modules, result.skipped) == (1, {"duplicate": 1})


REASONS: dict[str, Callable[[Build], object]] = {
    "no-bitcode-section": lambda build: build.add("a.c", "a.o", "-O1"),
    "assembly": lambda build: build.add("a.s", "a.o", "-O1"),
    "empty-bitcode": lambda build: build.add("a.c", "a.o", "-Xclang", "-fembed-bitcode=marker"),
    "no-command-section": lambda build: build.add("a.c", "a.o", "-Xclang", "-fembed-bitcode=bitcode"),
    "post-optimization": lambda build: build.add("a.c", "a.o", "-fembed-bitcode"),
    "missing-object": lambda build: build.add("a.c", "a.o").unlink(),
    "not-an-object": lambda build: build.add("a.c", "a.o").write_text("text"),
    "damaged-object": lambda build: build.add("a.c", "a.o").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(20)),
    "names-no-object": lambda build: build.entries.append(
        {"directory": str(build.folder), "arguments": ["cc", "-E", "a.c"], "file": "a.c"}
    ),
    "malformed-entry": lambda build: build.entries.append({"command": "cc -c a.c -o a.o"}),
    "other-optimization-level": lambda build: build.add("a.c", "a.o", "-O1", *EMBED),
    "filtered": lambda build: build.add("a.c", "a.o", *EMBED, "-DOTHER"),
}


@pytest.mark.parametrize("reason", REASONS)
def test_what_is_no_module_is_counted_and_stops_nothing(reason: str, build: Build) -> None:
    (build.folder / "a.s").write_text('.section .note.GNU-stack,"",@progbits\n')
    REASONS[reason](build)
    build.add("good.c", "good.o", *EMBED, "-DGOOD")
    result = build.extract(cmd_filter="^GOOD$" if reason == "filtered" else None, level="-O2")
    assert dict(result.skipped) == {reason: 1}
    assert result.modules == 1
    assert build.names() == ["good.o"]
    assert result.examples[reason]


def test_optimized_bitcode_is_kept_if_asked(build: Build) -> None:
    build.add("a.c", "a.o", "-fembed-bitcode")
    assert build.extract(keep_optimized=True).modules == 1


def test_mixed_levels_are_reported(build: Build) -> None:
    build.add("a.c", "a.o", "-Oz", *EMBED)
    build.add("b.c", "b.o", "-O1", *EMBED)
    build.add("c.c", "c.o", "-Oz", *EMBED)
    result = build.extract()
    assert dict(result.levels) == {"-Oz": 2, "-O1": 1}
    assert "--level=-Oz" in result.hints[0]


@pytest.mark.spec("corpus.cmd-filter")
def test_arguments_with_newlines_and_foreign_bytes_are_filtered_like_others(build: Build) -> None:
    build.add("a.c", "a.o", *EMBED, '-DX="a\nb"', "-DY=\udcff")
    result = build.extract(cmd_filter="^-O2$")
    assert (result.modules, result.skipped) == (1, {})
    (module,) = read_corpus(build.folder.parent / "out").modules
    assert b'X="a\nb"' in module.command
    assert b"Y=\xff" in module.command


def test_modules_merged_by_the_linker_are_split(build: Build) -> None:
    parts = [build.add(f"{name}.c", f"{name}.o") for name in "abc"]
    build.entries = []
    subprocess.run([require_tool("ld.lld-22"), "-r", *parts, "-o", build.folder / "merged.o"], check=True)
    build.entries.append({"directory": str(build.folder), "arguments": ["ld", "-r", "-o", "merged.o"], "file": ""})
    assert build.extract().modules == 3
    corpus = read_corpus(build.folder.parent / "out")
    for module, part in zip(corpus.modules, parts, strict=True):
        output = build.folder / "replayed.o"
        subprocess.run(replay_command(module, build.clang, output, embed=True), check=True)
        assert output.read_bytes() == part.read_bytes()


def test_merged_modules_that_do_not_pair_up_are_reported(build: Build) -> None:
    parts = [
        build.add("a.c", "a.o"),
        build.add("b.c", "b.o", "-Xclang", "-fembed-bitcode=bitcode"),
        build.add("c.c", "c.o"),
    ]
    subprocess.run([require_tool("ld.lld-22"), "-r", *parts, "-o", build.folder / "a.o.merged"], check=True)
    (build.folder / "a.o.merged").replace(build.folder / "a.o")
    result = build.extract()
    assert result.skipped["merged-beyond-splitting"] == 1
    assert "3 modules, 2 command lines" in result.examples["merged-beyond-splitting"]


def test_a_universal_object_gives_a_module_for_each_target(build: Build) -> None:
    parts = [build.add("a.c", f"{each}.o", *EMBED, f"--target={each}-apple-macos12") for each in ("arm64", "x86_64")]
    build.entries = []
    subprocess.run([require_tool("llvm-lipo-22"), "-create", *parts, "-output", build.folder / "both.o"], check=True)
    build.entries.append({"directory": str(build.folder), "arguments": ["cc", "-c", "a.c", "-o", "both.o"]})
    assert build.extract().modules == 2
    triples = {
        each.command[each.command.index(b"-triple") + 1][:6]
        for each in read_corpus(build.folder.parent / "out").modules
    }
    assert triples == {b"arm64-", b"x86_64"}


@pytest.mark.parametrize("flag", ["-flto", "-flto=thin"])
def test_llvm_ir_objects_get_the_command_line_of_their_compile(flag: str, build: Build) -> None:
    built = build.add("a.c", "a.o", "-Oz", flag, "-march=haswell", "-DUNUSED")
    result = build.extract()
    assert (result.modules, dict(result.levels)) == (1, {"-Oz": 1})
    (module,) = read_corpus(build.folder.parent / "out").modules
    assert module.bitcode.read_bytes() == built.read_bytes()
    assert b"haswell" in module.command
    assert b"UNUSED" not in module.command
    output = build.folder / "replayed.o"
    subprocess.run(replay_command(module, build.clang, output, embed=False), check=True)
    assert output.read_bytes()[:4] == b"\x7fELF"


def test_fat_lto_objects_give_their_llvm_ir(build: Build) -> None:
    build.add("a.c", "a.o", "-Oz", "-flto", "-ffat-lto-objects")
    assert build.extract().modules == 1
    record = next(iter(read_manifest(build.folder.parent / "out")))
    assert isinstance(record, ModuleRecord)
    assert record.lto


@pytest.mark.parametrize("thin", [False, True])
def test_members_of_archives(thin: bool, build: Build) -> None:
    long_name = f"{'n' * 60}.o"
    build.add("a.c", "a.o")
    build.add("b.c", long_name)
    build.add("lib/a.c", "lib/a.o")
    build.add("c.c", "c.o", "-O1")
    members = ["a.o", long_name, "lib/a.o", "c.o"]
    archiver = [require_tool("llvm-ar-22"), "rcS", *(["--thin"] if thin else []), "libx.a", *members]
    subprocess.run(archiver, cwd=build.folder, check=True)
    result = extract_corpus(build.folder / "libx.a", build.folder.parent / "out", input_type="archive")
    assert (result.modules, dict(result.skipped)) == (3, {"no-bitcode-section": 1})
    names = build.names()
    assert names[:2] == ["libx.a/a.o", f"libx.a/{long_name}"]
    assert len(set(names)) == 3
    (build.folder / "link.params").write_text("-o\nprog\nlibx.a\n")
    params = extract_corpus(
        build.folder / "link.params", build.folder.parent / "out2", input_type="params", obj_base_dir=build.folder
    )
    assert params.modules == 3


def test_response_files_in_parameter_files_are_opened(build: Build) -> None:
    for name in "ab":
        build.add(f"{name}.c", f"{name}.o")
    (build.folder / "link.params").write_text("-o\nprog\n@inner.rsp\n")
    (build.folder / "inner.rsp").write_text('a.o "b.o" -lm @inner.rsp')
    result = extract_corpus(
        build.folder / "link.params", build.folder.parent / "out", input_type="params", obj_base_dir=build.folder
    )
    assert (result.modules, result.skipped) == (2, {})


def test_every_link_action_of_an_aquery_counts(build: Build) -> None:
    for name in ("a", "b", "bazel-out/k8-opt/bin/c"):
        build.add(f"{name}.c", f"{name}.o")
    inside = build.folder / "bazel-out/k8-opt/bin"
    actions = [
        {"mnemonic": "CppLink", "arguments": ["clang", "-o", "one", "bazel-out/k8-opt/bin/c.o"]},
        {
            "mnemonic": "CppLink",
            "arguments": ["clang", "@bazel-out/two.params"],
            "paramFiles": [
                {"execPath": "bazel-out/two.params", "arguments": ["-o", "two", "bazel-out/k8-opt/bin/c.o", "d.o"]}
            ],
        },
        {"mnemonic": "CppLink", "arguments": 7},
        "no object",
    ]
    (build.folder / "aquery.json").write_text(json.dumps({"actions": actions}))
    result = extract_corpus(
        build.folder / "aquery.json", build.folder.parent / "out", input_type="bazel-aquery", obj_base_dir=inside
    )
    assert build.names() == ["c.o"]
    assert dict(result.skipped) == {"malformed-entry": 2, "missing-object": 1}
    assert "only what" in result.hints[-1]


def test_the_manifest_tells_where_everything_came_from(build: Build) -> None:
    build.add("a.c", "a.o")
    build.add("b.c", "b.o", "-O1")
    build.extract(license_note="MIT")
    out = build.folder.parent / "out"
    head = read_manifest_head(out)
    assert head["skipped"] == {"no-bitcode-section": 1}
    assert head["license"] == "MIT"
    assert head["modules"] == 1
    record, skipped = read_manifest(out)
    assert isinstance(record, ModuleRecord)
    assert record.source == str(build.folder / "a.c")
    assert record.producer.startswith("LLVM22")
    assert {each.suffix for each in record.files} == {".bc", ".cmd"}
    digests = {each.suffix: each.sha256 for each in record.files}
    summed = subprocess.run(["sha256sum", out / "a.o.bc"], check=True, capture_output=True, text=True)
    assert summed.stdout.split()[0] == digests[".bc"]
    assert not isinstance(skipped, ModuleRecord)


def test_two_runs_give_equal_corpora(tmp_path: Path, clang22: Path) -> None:
    (tmp_path / "b").mkdir()
    database = small_build(clang22, tmp_path / "b")
    for name in ("one", "two"):
        extract_corpus(database, tmp_path / name)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    manifests = [(tmp_path / name / "corpus_manifest.jsonl").read_bytes() for name in ("one", "two")]
    assert manifests[0] == manifests[1]


def test_an_interrupted_run_goes_on_where_it_was(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abcd":
        build.add(f"{name}.c", f"{name}.o")
    calls: list[str] = []
    real = extraction.extract_object

    def stop_at_third(candidate, folder, options):  # type: ignore[no-untyped-def]
        calls.append(candidate.name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(candidate, folder, options)

    monkeypatch.setattr(extraction, "extract_object", stop_at_third)
    with pytest.raises(KeyboardInterrupt):
        build.extract()
    out = build.folder.parent / "out"
    assert not (out / "corpus_description.json").exists()
    assert not list(out.rglob("*.part"))

    calls.clear()
    monkeypatch.setattr(extraction, "extract_object", lambda *given: (calls.append(given[0].name), real(*given))[1])
    result = build.extract()
    assert calls == ["c.o", "d.o"]
    assert (result.modules, result.reused) == (4, 2)
    assert build.names() == ["a.o", "b.o", "c.o", "d.o"]
    assert sorted(each.name for each in out.iterdir() if each.name.startswith(".")) == []


def test_a_changed_object_is_not_reused(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        build.add(f"{name}.c", f"{name}.o")
    real = extraction.extract_object
    monkeypatch.setattr(
        extraction, "extract_object", lambda *given: real(*given) if given[0].name == "a.o" else interrupt()
    )
    with pytest.raises(KeyboardInterrupt):
        build.extract()
    monkeypatch.undo()
    compile_file(build.clang, build.folder, "b.c", "a.o")
    assert build.extract().reused == 0


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_second_extraction_takes_the_first_ones_modules_away(build: Build) -> None:
    build.add("a.c", "a.o")
    build.add("b.c", "b.o")
    build.extract()
    build.entries.pop()
    build.extract()
    assert set(files_of(build.folder.parent / "out")) == {"a.o.bc", "a.o.cmd", "corpus_description.json"}


def test_nothing_extracted_leaves_an_empty_corpus_and_exit_code_1(build: Build, run_mlgo) -> None:
    build.add("a.c", "a.o", "-O1")
    database = write_database(build.folder, build.entries)
    out = build.folder.parent / "deep" / "out"
    code, printed, shown = run_mlgo("corpus", "extract", "--input", database, "--output-dir", out, "--json")
    assert code == 1
    assert json.loads(printed)["skipped"] == {"no-bitcode-section": 1}
    assert "hint: `mlgo corpus record" in shown
    assert json.loads((out / "corpus_description.json").read_text())["modules"] == []


def test_many_objects_are_extracted_by_processes(
    tmp_path: Path, clang22: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pymlgo.corpus import parallel

    monkeypatch.setattr(parallel, "ITEMS_PER_PROCESS", 40)
    write_source(tmp_path, "a.c")
    compile_file(clang22, tmp_path, "a.c", "a.o")
    entries = []
    for number in range(100):
        (tmp_path / f"{number}.o").hardlink_to(tmp_path / "a.o")
        entries.append({"directory": str(tmp_path), "command": f"cc -c a.c -o {number}.o", "file": "a.c"})
    database = write_database(tmp_path, entries)
    result = extract_corpus(database, tmp_path / "out", options=ExtractOptions(workers=2))
    assert result.modules == 100
    assert [each.name for each in read_corpus(tmp_path / "out").modules] == [f"{number}.o" for number in range(100)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"input_path": None}, "an input is needed"),
        ({"input_path": Path("x"), "input_type": "jsn"}, "unknown input type 'jsn'"),
        ({"input_path": Path("x"), "options": {"thinlto": "local"}}, "takes no input"),
        ({"input_path": Path("x"), "options": {"cmd_filter": "("}}, "is no regular expression"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: dict[str, object], message: str, tmp_path: Path) -> None:
    given = dict(arguments)
    options = given.pop("options", {})
    with pytest.raises(ConfigError, match=message):
        extract_corpus(output_dir=tmp_path / "out", options=ExtractOptions(**options), **given)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["json", "params", "directory", "bazel_aquery"])
def test_an_input_that_is_not_there_is_one_clear_line(kind: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError) as caught:
        extract_corpus(tmp_path / "gone", tmp_path / "out", input_type=kind)
    assert "gone" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
