"""Hostile inputs: nothing crashes, hangs, gets out of the output folder, or disappears without a word."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from corpus_builds import compile_file, small_build, write_database, write_source
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pymlgo.corpus import archive, read_corpus
from pymlgo.corpus.bitcode import BitcodeError, module_info, producer_of, split_modules
from pymlgo.corpus.candidates import Candidate, Reason, Skipped
from pymlgo.corpus.compile_database import candidates_of_entry, json_list, read_compile_database
from pymlgo.corpus.driver_line import DriverLine, argument_groups, expand_response_files, split_shell
from pymlgo.corpus.inputs import extract_corpus
from pymlgo.corpus.link_inputs import read_aquery, read_params
from pymlgo.corpus.make import make_corpus
from pymlgo.corpus.manifest import read_manifest
from pymlgo.corpus.names import is_safe_name
from pymlgo.corpus.naming import resolve_names
from pymlgo.corpus.object_file import MemorySource, ObjectError
from pymlgo.errors import CorpusError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
entries = st.dictionaries(
    st.sampled_from(["directory", "command", "arguments", "file", "output", "x"]),
    json_values
    | st.lists(st.sampled_from(["cc", "-c", "-o", "a.o", "a.c", "../b.o", "/c.o", "", "@r", "\0"]), max_size=6),
)


@given(entries | json_values)
def test_any_entry_is_a_candidate_with_a_safe_name_or_skipped(entry: object) -> None:
    for offer in candidates_of_entry(entry, 0, "/nowhere", None):
        assert isinstance(offer, Candidate | Skipped)
        if isinstance(offer, Candidate):
            assert is_safe_name(offer.name)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.text(alphabet='[]{},:"a1 \\\n', max_size=60).map(str.encode))
def test_any_file_is_a_json_list_or_a_corpus_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with contextlib.suppress(CorpusError):
        for _ in json_list(tmp_path / "x.json"):
            pass


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(json_values, max_size=8), st.sampled_from([None, 1, 4]))
def test_json_lists_are_read_as_the_json_module_reads_them(
    tmp_path: Path, values: list[object], indent: int | None
) -> None:
    text = json.dumps(values, indent=indent)
    (tmp_path / "x.json").write_text(text)
    from pymlgo.corpus import compile_database

    before, compile_database.CHUNK_CHARACTERS = compile_database.CHUNK_CHARACTERS, 3
    try:
        assert json.dumps(list(json_list(tmp_path / "x.json"))) == json.dumps(json.loads(text))
    finally:
        compile_database.CHUNK_CHARACTERS = before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    json_values
    | st.fixed_dictionaries(
        {
            "actions": st.lists(
                st.fixed_dictionaries(
                    {"mnemonic": st.just("CppLink"), "arguments": json_values, "paramFiles": json_values}
                )
            )
        }
    )
)
def test_any_aquery_result_is_read_or_refused(tmp_path: Path, found: object) -> None:
    (tmp_path / "x.json").write_text(json.dumps(found))
    with contextlib.suppress(CorpusError):
        for offer in read_aquery(tmp_path / "x.json", None):
            assert isinstance(offer, Skipped) or is_safe_name(offer.name)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_parameter_file_is_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.params").write_bytes(content)
    for offer in read_params(tmp_path / "x.params", str(tmp_path)):
        assert isinstance(offer, Skipped) or is_safe_name(offer.name)


@given(st.text(alphabet="ab \\\"'\n\t-", max_size=30))
def test_shell_words_are_those_of_shlex(line: str) -> None:
    import shlex

    try:
        expected = shlex.split(line)
    except ValueError:
        with contextlib.suppress(ValueError):
            split_shell(line)
        return
    assert split_shell(line) == expected


@given(st.lists(st.text(max_size=6) | st.sampled_from(["-o", "-x", "c", "--", "-c", "-", "-Xclang", "-I", "a.c"])))
def test_any_command_line_parses_and_no_word_is_lost(arguments: list[str]) -> None:
    DriverLine(["cc", *arguments]).objects()
    words = [word for _, group in argument_groups(arguments) for word in group]
    assert words == [each for number, each in enumerate(arguments) if not is_first_separator(arguments, number)]


def is_first_separator(arguments: list[str], number: int) -> bool:
    if arguments[number] != "--":
        return False
    groups = list(argument_groups(arguments))
    return sum(len(words) for _, words in groups) < len(arguments) and words_before(arguments) == number


def words_before(arguments: list[str]) -> int:
    position = 0
    from pymlgo.corpus.driver_line import VALUE_FLAGS

    while position < len(arguments) and arguments[position] != "--":
        position += 2 if arguments[position] in VALUE_FLAGS else 1
    return position


@given(st.binary(max_size=400) | st.binary(max_size=200).map(lambda rest: b"BC\xc0\xde" + rest))
def test_any_bytes_are_bitcode_or_an_error(data: bytes) -> None:
    for reader in (module_info, producer_of, split_modules):
        with contextlib.suppress(BitcodeError):
            reader(data)


@pytest.mark.llvm
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 3000), value=st.binary(min_size=1, max_size=6))
def test_damaged_bitcode_is_read_or_an_error(place: int, value: bytes, bitcode: bytes) -> None:
    data = bitcode[:place] + value + bitcode[place + len(value) :]
    for reader in (module_info, producer_of, split_modules):
        with contextlib.suppress(BitcodeError):
            reader(data)


@pytest.fixture(scope="module")
def bitcode(tmp_path_factory: pytest.TempPathFactory, clang22: Path) -> bytes:
    folder = tmp_path_factory.mktemp("bitcode")
    write_source(folder, "a.c")
    subprocess.run([clang22, "-c", "-emit-llvm", "a.c", "-o", "a.bc"], cwd=folder, check=True)
    return (folder / "a.bc").read_bytes()


@pytest.mark.llvm
def test_a_modules_own_words_are_read_from_its_bitcode(bitcode: bytes) -> None:
    info = module_info(bitcode)
    assert info.source_filename == "a.c"
    assert info.triple == "x86_64-pc-linux-gnu"
    assert (info.producer or "").startswith("LLVM22")
    assert split_modules(bitcode + bitcode) == [bitcode, bitcode]


@given(
    st.binary(max_size=300).map(lambda rest: b"!<arch>\n" + rest)
    | st.binary(max_size=80).map(lambda rest: b"!<thin>\n" + rest)
)
def test_any_bytes_are_an_archive_or_an_object_error(data: bytes) -> None:
    with contextlib.suppress(ObjectError):
        list(archive.members(MemorySource(data)))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"x.o/            0           0     0     644     999999999 `\n", "of 999999999 bytes"),
        (b"x.o/            0           0     0     644     -1        `\n", "size is"),
        (b"/77             0           0     0     644     0         `\n", "a name at 77"),
        (b"#1/99           0           0     0     644     4         `\nabcd", "a name of 99 bytes"),
        (b"x" * 60, "no member begins"),
    ],
)
def test_archives_with_bad_offsets_are_refused(header: bytes, message: str) -> None:
    with pytest.raises(ObjectError, match=message):
        list(archive.members(MemorySource(b"!<arch>\n" + header)))


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "a/b", "a.bc/b", "a.thinlto", "a~1", "b", "a.cmd"]), st.sampled_from("xyz")),
        max_size=12,
    )
)
def test_modules_never_share_a_file(found: list[tuple[str, str]]) -> None:
    offers = [Candidate(name=name, path=f"/p/{folder}/{name}") for name, folder in found]
    files: set[str] = set()
    for offer in resolve_names(offers):
        if isinstance(offer, Candidate):
            own = {offer.name + suffix for suffix in (".bc", ".cmd", ".thinlto.bc")}
            assert not own & files
            files |= own
    folders = {"/".join(file.split("/")[:count]) for file in files for count in range(1, file.count("/") + 1)}
    assert not folders & files


HOSTILE_NAMES = [
    "a\nb.o",
    "..o",
    "-rf.o",
    "%2e%2e.o",
    "a\\b.o",
    "ä.o",
    "x" * 253 + ".o",
    "\udcff\udcfe.o",
    " .o",
    "'\".o",
]


@pytest.mark.llvm
def test_hostile_file_names_become_modules(tmp_path: Path, clang22: Path) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    write_source(folder, "a.c")
    compile_file(clang22, folder, "a.c", "a.o")
    found = []
    for name in HOSTILE_NAMES:
        (folder / name).hardlink_to(folder / "a.o")
        found.append({"directory": str(folder), "arguments": ["cc", "-c", "a.c", f"-o{name}"], "file": "a.c"})
    # Build systems write file names into JSON as the bytes that they are.
    text = json.dumps(found, ensure_ascii=False).encode("utf-8", "surrogateescape")
    (folder / "compile_commands.json").write_bytes(text)
    result = extract_corpus(folder / "compile_commands.json", tmp_path / "out")
    assert (result.modules, result.skipped) == (len(HOSTILE_NAMES), {})
    corpus = read_corpus(tmp_path / "out")
    assert len(corpus.modules) == len(HOSTILE_NAMES)
    assert corpus.unusable == ()
    directory = extract_corpus(folder, tmp_path / "out2", input_type="directory")
    assert directory.modules == len(HOSTILE_NAMES) + 1


@pytest.mark.llvm
def test_a_planted_link_in_the_output_is_not_followed(tmp_path: Path, clang22: Path) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    database = small_build(clang22, folder, ("a.c", "lib/b.c"))
    (tmp_path / "out").mkdir()
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/file").write_text("mine")
    (tmp_path / "out/lib").symlink_to(tmp_path / "victim")
    (tmp_path / "out/a.c.o.bc").symlink_to(tmp_path / "victim/file")
    result = extract_corpus(database, tmp_path / "out")
    assert (result.modules, dict(result.skipped)) == (1, {"unwritable": 1})
    assert [each.name for each in (tmp_path / "victim").iterdir()] == ["file"]
    assert (tmp_path / "victim/file").read_text() == "mine"


def test_links_out_of_the_input_are_not_followed_and_circles_end(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "outside"
    (inside / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.bc").write_bytes(b"BC\xc0\xde")
    (inside / "leak.bc").symlink_to(outside / "secret.bc")
    (inside / "folder").symlink_to(outside)
    (inside / "sub/circle").symlink_to(inside)
    result = make_corpus(inside, tmp_path / "out")
    assert (result.modules, dict(result.skipped)) == (0, {"link-outside-input": 2})


@pytest.mark.parametrize("kind", ["fifo", "folder", "no permission", "device"])
def test_what_is_no_readable_file_is_skipped(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.o"
    expected = Reason.NOT_AN_OBJECT
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            path.write_bytes(b"\x7fELF")
            path.chmod(0)
            expected = Reason.UNREADABLE if os.geteuid() else Reason.DAMAGED
    database = write_database(tmp_path, [{"directory": str(tmp_path), "command": "cc -c x.c -o x.o", "file": "x.c"}])
    result = extract_corpus(database, tmp_path / "out")
    assert dict(result.skipped) == {expected.value: 1}


def test_a_sparse_object_that_claims_a_giant_section_is_refused(tmp_path: Path) -> None:
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    header[0x28:0x30] = (64).to_bytes(8, "little")
    header[0x3A:0x3C] = (64).to_bytes(2, "little")
    header[0x3C:0x40] = (2).to_bytes(2, "little") + (1).to_bytes(2, "little")
    names = bytearray(64)
    names[4] = 3
    names[24:32] = (4096).to_bytes(8, "little")
    names[32:40] = (1 << 39).to_bytes(8, "little")
    with (tmp_path / "x.o").open("wb") as stream:
        stream.write(header + bytes(64) + names)
        stream.truncate(1 << 40)
    database = write_database(tmp_path, [{"directory": str(tmp_path), "command": "cc -c x.c -o x.o", "file": "x.c"}])
    result = extract_corpus(database, tmp_path / "out")
    assert dict(result.skipped) == {"damaged-object": 1}
    assert "in one piece" in result.examples["damaged-object"]


@pytest.mark.llvm
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs takes root")
def test_a_full_disk_ends_the_run_with_one_line_and_it_goes_on_later(tmp_path: Path, clang22: Path) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    database = small_build(clang22, folder, tuple(f"{number}.c" for number in range(20)))
    output = tmp_path / "out"
    output.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", output], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    try:
        with pytest.raises(CorpusError, match="No space left on device") as caught:
            extract_corpus(database, output)
        assert "again" in str(caught.value.hint)
        assert not (output / "corpus_description.json").exists()
        assert not list(output.rglob("*.part"))
        subprocess.run(["mount", "-o", "remount,size=8m", output], check=True)
        result = extract_corpus(database, output)
        assert result.modules == 20
        assert result.reused > 0
    finally:
        subprocess.run(["umount", output], check=True)


def test_a_read_only_output_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    database = write_database(tmp_path, [])
    with pytest.raises(CorpusError, match="cannot be made"):
        extract_corpus(database, tmp_path / "file" / "out")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[", b"[{}", b'[{"a": ]', b"null", b"[1, 2", b"\xff\xfe[", b"[" * 100_000]
)
def test_databases_of_the_wrong_shape_are_one_clear_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "compile_commands.json").write_bytes(content)
    with pytest.raises(CorpusError) as caught:
        extract_corpus(tmp_path / "compile_commands.json", tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.llvm
def test_a_hundred_thousand_entries_take_little_time_and_memory(tmp_path: Path, clang22: Path) -> None:
    write_source(tmp_path, "a.c")
    compile_file(clang22, tmp_path, "a.c", "a.o")
    with (tmp_path / "compile_commands.json").open("w") as stream:
        stream.write("[")
        for number in range(100_000):
            output = "a.o" if number == 77_777 else f"gone/{number}.o"
            entry = {"directory": str(tmp_path), "command": f"cc -DX{number} -c a.c -o {output}", "file": "a.c"}
            stream.write(("," if number else "") + json.dumps(entry))
        stream.write("]")
    program = (
        "import resource, sys\nfrom pathlib import Path\nfrom pymlgo.corpus.inputs import extract_corpus\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"result = extract_corpus(Path({str(tmp_path / 'compile_commands.json')!r}), Path({str(tmp_path / 'out')!r}))\n"
        "assert (result.modules, dict(result.skipped)) == (1, {'missing-object': 99_999}), result\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    finished = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 60
    assert int(finished.stdout) < 250_000, "KiB for 100,000 entries"
    assert sum(1 for _ in read_manifest(tmp_path / "out")) == 100_000


def test_response_files_that_multiply_end(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number}").write_text(f"@{number + 1} @{number + 1} ")
    started = time.monotonic()
    expand_response_files(["cc", "@0"], str(tmp_path))
    assert time.monotonic() - started < 20


def test_a_database_in_a_folder_of_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_database(tmp_path, [{"directory": ".", "command": "cc -c a.c -o b/a.o", "file": "a.c"}])
    (offer,) = read_compile_database(Path("compile_commands.json"), None)
    assert isinstance(offer, Candidate)
    assert offer.name == "b/a.o"
