"""Recipes: what they say, private apt sources, builds without a network, and the real thing in the full run."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT, require_tool
from pymlgo.corpus import read_corpus
from pymlgo.corpus.debian import SourcePackages, os_release, source_stanzas
from pymlgo.corpus.recipe import FetchResult, fetch_recipe, read_recipe
from pymlgo.corpus.recipe_file import Recipe
from pymlgo.errors import ConfigError, CorpusError
from pymlgo.toolchain.llvm import LLVM, find_llvm

SHIPPED = ("small", "large", "inliner")
EVALUATION = {"lua", "libpng", "re2", "libyaml", "jansson", "leveldb", "snappy", "expat"}

RECIPE = """
name = "toy"
release = "bookworm"
flags = ["-Oz"]

[environment]
BUILD = "cc -c"
"""

PROJECT = """
[[project]]
name = "NAME"
package = "NAME"
version = "1.0-1"
license = "MIT"
split = "SPLIT"
build = ["$BUILD a.c", "cd lib && $BUILD b.c"]
modules = 2
"""


def shipped(name: str) -> Recipe:
    return read_recipe(ROOT / "recipes" / f"{name}.toml")


def test_the_shipped_recipes_are_whole_and_hold_the_evaluation_projects_out() -> None:
    large, small = (shipped(name) for name in ("large", "small"))
    assert {each.name for each in large.projects if each.split == "evaluation"} == EVALUATION
    assert len(large.projects) == 28
    assert {each.name for each in small.projects} < {each.name for each in large.projects}
    assert all({"train", "evaluation"} == {each.split for each in recipe.projects} for recipe in (large, small))
    assert large.flags == small.flags == ("-Oz",)


def test_the_inliners_recipe_is_for_training_only_and_shares_no_project_with_the_others() -> None:
    large, inliner = shipped("large"), shipped("inliner")
    assert {each.split for each in inliner.projects} == {"train"}
    assert not {each.name for each in inliner.projects} & {each.name for each in large.projects}
    assert not {each.package for each in inliner.projects} & {each.package for each in large.projects}
    assert (inliner.flags, inliner.release) == (large.flags, large.release)
    assert f"{len(inliner.projects)} " in inliner.description


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"\[\[project\]\] tables"),
        ("name = 1", r"\[\[project\]\] tables"),
        ("x =", "is not TOML"),
        (RECIPE.replace('"bookworm"', "12") + PROJECT, "release: expected str, found 12"),
        (RECIPE + PROJECT.replace("modules = 2", "moduls = 2"), r"project\[0\].moduls: unknown key"),
        (RECIPE + PROJECT.replace("modules = 2", ""), r"project\[0\].modules: expected int, found nothing"),
        (RECIPE + PROJECT.replace('"SPLIT"', '"test"'), r"project\[0\].split: expected train or evaluation"),
        (
            RECIPE + PROJECT.replace("SPLIT", "train").replace('name = "NAME"', 'name = "../x"'),
            "can be no folder's name",
        ),
        (RECIPE + PROJECT.replace("SPLIT", "train").replace('package = "NAME"', 'package = "-o"'), "no source package"),
        (RECIPE + 2 * PROJECT.replace("SPLIT", "train").replace("NAME", "zlib"), "2 projects are called 'zlib'"),
        ('name = "c"\nbase = "c.toml"\nonly = ["zlib"]', "is itself a choice"),
        (f'name = "c"\nbase = "{ROOT}/recipes/large.toml"\nonly = ["zlip"]', "has no project 'zlip'"),
    ],
)
def test_a_wrong_recipe_says_where(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_recipe(tmp_path / "c.toml")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("sources.list", "deb [signed-by=/k arch=amd64] http://a.example/debian bookworm main contrib # note\n"),
        (
            "sources.list.d/debian.sources",
            "Types: deb\nURIs: http://a.example/debian\nSuites: bookworm bookworm-updates\nComponents: main contrib\n"
            "Signed-By: /k\n\n# another\nTypes: deb\nURIs: http://b.example\nSuites: stable\nComponents: main\n\n"
            "Enabled: no\nTypes: deb\nURIs: http://c.example\nSuites: bookworm\nComponents: main\n",
        ),
    ],
)
def test_source_archives_are_those_of_the_machine(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / name).write_text(content)
    (stanza,) = source_stanzas(tmp_path, "bookworm")
    lines = stanza.splitlines()
    assert lines[:2] == ["Types: deb-src", "URIs: http://a.example/debian"]
    assert lines[2].startswith("Suites: bookworm")
    assert lines[3:] == ["Components: main contrib", "Signed-By: /k"]


def test_no_archive_host_is_named_in_the_package() -> None:
    for file in [*(ROOT / "src").rglob("*.py"), *(ROOT / "recipes").rglob("*")]:
        assert "debian.org" not in file.read_text(), file


class Kitchen:
    """Recipes of local packages: what is fetched is a source package that this machine made."""

    def __init__(self, folder: Path, llvm: LLVM, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.llvm = llvm
        self.fetched: list[tuple[str, str | None]] = []
        monkeypatch.setattr(SourcePackages, "prepare", lambda state: SourcePackages(state=state, release="bookworm"))
        monkeypatch.setattr(SourcePackages, "fetch", self.fetch)

    def fetch(self, package: str, version: str | None, folder: Path) -> Path:
        self.fetched.append((package, version))
        if package == "gone" or (package == "moved" and version):
            raise CorpusError("the source package cannot be fetched")
        folder.mkdir(parents=True, exist_ok=True)
        tree = self.folder / f"{package}-1.0"
        (tree / "lib").mkdir(parents=True, exist_ok=True)
        (tree / "debian/source").mkdir(parents=True, exist_ok=True)
        (tree / "debian/source/format").write_text("3.0 (native)\n")
        (tree / "debian/control").write_text(
            f"Source: {package}\nMaintainer: N <n@n.example>\nStandards-Version: 4.6.2\n\nPackage: {package}\n"
            "Architecture: any\nDescription: none\n"
        )
        (tree / "debian/changelog").write_text(
            f"{package} (1.0) stable; urgency=low\n\n  * None.\n\n"
            " -- N <n@n.example>  Mon, 01 Jan 2024 00:00:00 +0000\n"
        )
        (tree / "a.c").write_text("this is no C\n" if package == "broken" else "int a(int x) { return x; }\n")
        (tree / "lib/b.c").write_text("int b(int x) { return x; }\n")
        subprocess.run(["dpkg-source", "-b", tree], cwd=folder, check=True, capture_output=True)
        return next(folder.glob("*.dsc"))

    def run(self, *names: str, **options: bool) -> FetchResult:
        text = RECIPE
        for name in names:
            text += PROJECT.replace("NAME", name).replace("SPLIT", "evaluation" if name == "held-out" else "train")
        recipe = self.folder / "recipe.toml"
        recipe.write_text(text)
        return fetch_recipe(read_recipe(recipe), self.folder / "work", self.folder / "out", llvm=self.llvm, **options)


@pytest.fixture
def kitchen(tmp_path: Path, clang22: Path, monkeypatch: pytest.MonkeyPatch) -> Kitchen:
    require_tool("dpkg-source")
    return Kitchen(tmp_path, find_llvm(clang=clang22), monkeypatch)


@pytest.mark.llvm
def test_a_recipe_gives_a_corpus_a_split(kitchen: Kitchen) -> None:
    result = kitchen.run("first", "held-out")
    assert result.as_expected
    assert result.modules == 4
    assert set(result.corpora) == {"train", "evaluation"}
    train = read_corpus(result.corpora["train"])
    assert {each.name for each in train.modules} == {"first/a.o", "first/lib/b.o"}
    assert all(b"-Oz" in each.command for each in train.modules)
    assert not (kitchen.folder / "work/build/first").exists()


@pytest.mark.llvm
def test_one_failing_project_does_not_stop_the_others(kitchen: Kitchen) -> None:
    result = kitchen.run("gone", "broken", "first")
    outcomes = {each.name: each for each in result.projects}
    assert outcomes["gone"].failure == "source"
    assert outcomes["broken"].failure == "build"
    assert "broken.log" in outcomes["broken"].detail
    assert outcomes["first"].modules == 2
    assert result.failures == {"source": 1, "build": 1}
    assert not result.as_expected


@pytest.mark.llvm
def test_what_is_there_is_not_built_again(kitchen: Kitchen) -> None:
    kitchen.run("first")
    before = digest(kitchen.folder / "out/train/first")
    kitchen.fetched.clear()
    result = kitchen.run("first", "second")
    assert kitchen.fetched == [("second", "1.0-1")]
    assert [each.reused for each in result.projects] == [True, False]
    assert digest(kitchen.folder / "out/train/first") == before


@pytest.mark.llvm
def test_another_version_is_taken_only_if_asked(kitchen: Kitchen) -> None:
    assert kitchen.run("moved").failures == {"source": 1}
    result = kitchen.run("moved", any_version=True)
    assert result.projects[0].version == "1.0"
    assert result.projects[0].modules == 2


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            found.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    return found.hexdigest()


@pytest.mark.full
@pytest.mark.llvm
@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_recipe_gives_what_it_says(name: str, tmp_path: Path, clang22: Path) -> None:
    require_tool("apt-get"), require_tool("dpkg-source")
    if os_release().get("VERSION_CODENAME") != "bookworm":
        pytest.skip("the recipes are pinned for Debian 12")
    recipe = shipped(name)
    result = fetch_recipe(recipe, tmp_path / "work", tmp_path / "out", llvm=find_llvm(clang=clang22))
    assert {each.name: (each.modules, each.detail) for each in result.projects} == {
        each.name: (each.modules, "") for each in recipe.projects
    }
