"""Reading and writing a corpus: the format of LLVM's document, and what a damaged one says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymlgo.corpus import Corpus, Module, object_sizes, project_of, read_corpus, replay_command
from pymlgo.corpus.description import (
    Description,
    description_from_json,
    join_command,
    read_description,
    split_command,
    write_description,
)
from pymlgo.corpus.names import LONGEST_COMPONENT_BYTES, is_safe_name, safe_name, told_apart
from pymlgo.errors import CorpusError


def small_corpus(root: Path, description: dict[str, object]) -> Path:
    (root / "p").mkdir(parents=True)
    (root / "p/a.o.bc").write_bytes(b"BC\xc0\xde")
    (root / "p/a.o.cmd").write_bytes(b"-cc1\0-Oz\0-fembed-bitcode=all\0")
    (root / "corpus_description.json").write_text(json.dumps(description))
    return root


@pytest.mark.spec("corpus.format")
def test_a_corpus_reads_as_modules_with_their_commands(tmp_path: Path) -> None:
    corpus = read_corpus(small_corpus(tmp_path / "c", {"modules": ["p/a.o"], "has_thinlto": False, "license": "MIT"}))
    (module,) = corpus.modules
    assert module.command == (b"-cc1", b"-Oz", b"-fembed-bitcode=all")
    assert module.size_bytes == 4
    assert corpus.extra == {"license": "MIT"}
    assert corpus.unusable == ()


@pytest.mark.spec("corpus.format")
def test_a_description_is_written_as_mlgo_utils_writes_it(tmp_path: Path) -> None:
    write_description(tmp_path, Description(modules=("b", "a"), has_thinlto=True, command_override=("-cc1", "-O2")))
    written = (tmp_path / "corpus_description.json").read_text()
    assert written == json.dumps(
        {"global_command_override": ["-cc1", "-O2"], "has_thinlto": True, "modules": ["b", "a"]}, indent=2
    )
    assert read_description(tmp_path).to_json() == json.loads(written)


def test_one_unusable_module_does_not_hide_the_others(tmp_path: Path) -> None:
    root = small_corpus(tmp_path / "c", {"modules": ["gone.o", "p/a.o", "../outside", "p/empty.o"]})
    (root / "p/empty.o.bc").touch()
    (root / "p/empty.o.cmd").write_bytes(b"-cc1\0")
    corpus = read_corpus(root)
    assert [each.name for each in corpus.modules] == ["p/a.o"]
    reasons = {each.name: each.reason for each in corpus.unusable}
    assert "No such file" in reasons["gone.o"]
    assert reasons["../outside"] == "its name does not stay inside the corpus"
    assert reasons["p/empty.o"] == "its bitcode is empty"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"[]", "expected a JSON object"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"{}", "'modules' must be a list of strings"),
        (b'{"modules": "a"}', "'modules' must be a list of strings"),
        (b'{"modules": [1]}', "'modules' must be a list of strings"),
        (b'{"modules": [], "has_thinlto": "yes"}', "'has_thinlto' must be true or false"),
        (b'{"modules": [], "global_command_override": "-O2"}', "'global_command_override' must be a list"),
    ],
)
def test_a_damaged_description_is_refused_in_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "corpus_description.json").write_bytes(content)
    with pytest.raises(CorpusError, match=message) as caught:
        read_corpus(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_folder_without_description_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="is not a corpus"):
        read_corpus(tmp_path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | inner,
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["modules", "has_thinlto", "global_command_override", "x"]), json_values))
def test_any_json_object_is_a_description_or_a_corpus_error(found: dict[str, object]) -> None:
    try:
        description = description_from_json(found, Path("x"))
    except CorpusError:
        return
    assert description.to_json()["modules"] == found["modules"]


@given(st.lists(st.binary().map(lambda raw: raw.replace(b"\0", b""))).filter(lambda each: each != [b""]))
def test_commands_survive_their_file(arguments: list[bytes]) -> None:
    assert list(split_command(join_command(arguments))) == arguments


@given(st.text(), st.text())
def test_every_name_is_made_safe_or_refused(left: str, right: str) -> None:
    try:
        name = safe_name(f"{left}/{right}")
    except CorpusError:
        return
    assert is_safe_name(name)
    assert safe_name(name) == name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("lib/bar.o", "lib/bar.o"),
        ("./lib//bar.o", "lib/bar.o"),
        ("../x.o", "x.o"),
        ("a/../../x.o", "x.o"),
        ("/abs/x.o", "abs/x.o"),
        ("a\nb.o", "a%0Ab.o"),
        ("a\udcff.o", "a%FF.o"),
        ("ä b.o", "ä b.o"),
    ],
)
def test_hostile_paths_become_plain_names(path: str, name: str) -> None:
    assert safe_name(path) == name


def test_long_components_keep_their_end_and_stay_apart() -> None:
    names = {safe_name(prefix + "x" * 250 + ".o") for prefix in "ab"}
    assert len(names) == 2
    assert all(name.endswith("x.o") and len(name) <= LONGEST_COMPONENT_BYTES for name in names)


def test_equal_names_are_told_apart() -> None:
    names = [told_apart("d/x.o", origin) for origin in ("/one", "/two", "/three")]
    assert len(set(names)) == 3
    assert all(name.startswith("d/x~") and name.endswith(".o") and is_safe_name(name) for name in names)


def test_the_project_is_the_first_component() -> None:
    assert project_of("zlib/test/example.o") == "zlib"
    assert project_of("x.o") == "x.o"


def module(**changes: object) -> Module:
    fields = {"name": "a", "bitcode": Path("a.bc"), "command": (b"-cc1", b"-fembed-bitcode=all"), "size_bytes": 4}
    return Module(**(fields | changes))  # type: ignore[arg-type]


def test_the_replay_command_ends_with_input_and_output() -> None:
    command = replay_command(module(), "clang", Path("o"), embed=True)
    assert command == ["clang", b"-cc1", b"-fembed-bitcode=all", "-x", "ir", "a.bc", "-o", "o"]
    assert replay_command(module(), "clang", Path("o"), embed=False) == [
        "clang",
        b"-cc1",
        "-x",
        "ir",
        "a.bc",
        "-o",
        "o",
    ]


def test_a_thinlto_index_replaces_the_builds() -> None:
    built = module(command=(b"-cc1", b"-fthinlto-index=/build/a.thinlto.bc"), thinlto_index=Path("a.thinlto.bc"))
    assert replay_command(built, "clang", Path("o"), embed=True)[1:5] == [
        b"-cc1",
        b"-fthinlto-index=a.thinlto.bc",
        b"-mllvm",
        b"-thinlto-assume-merged",
    ]


def test_an_override_of_driver_flags_compiles_without_linking() -> None:
    assert b"-c" in replay_command(module(command=(b"-O2",)), "clang", Path("o"), embed=True)


def test_an_unspecified_override_says_what_to_do() -> None:
    with pytest.raises(CorpusError, match="still <UNSPECIFIED>") as caught:
        replay_command(module(command=(b"<UNSPECIFIED>",)), "clang", Path("o"), embed=True)
    assert "thinlto-build" in str(caught.value.hint)


def test_a_corpus_made_elsewhere_replays(corpora: Path, clang22: Path, tmp_path: Path) -> None:
    for split in ("train", "extra"):
        corpus: Corpus = read_corpus(corpora / split)
        assert corpus.unusable == ()
        smallest = min(corpus.modules, key=lambda each: each.size_bytes)
        subprocess.run(replay_command(smallest, clang22, tmp_path / "o", embed=False), check=True)
        assert object_sizes((tmp_path / "o").read_bytes()).berkeley_bytes > 0
