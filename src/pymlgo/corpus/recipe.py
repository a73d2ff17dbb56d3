"""Recipes: public corpora, rebuilt from a distribution's source packages (`recipe_file.py` has their form)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pymlgo.corpus.debian import SourcePackages, unpack
from pymlgo.corpus.extract import ExtractOptions
from pymlgo.corpus.extract_result import ExtractResult
from pymlgo.corpus.inputs import extract_corpus
from pymlgo.corpus.make import combine_corpora
from pymlgo.corpus.manifest import read_manifest_head
from pymlgo.corpus.recipe_file import SPLITS, Project, Recipe, Split, chosen_projects
from pymlgo.corpus.recipe_file import read_recipe as read_recipe
from pymlgo.corpus.record import record
from pymlgo.errors import CorpusError, MLGOError
from pymlgo.progress import progress
from pymlgo.toolchain.llvm import LLVM, find_llvm


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectOutcome:
    """What became of one project.

    Attributes:
        name: the project.
        split: the corpus it belongs to.
        modules: how many it gave; 0 if it failed.
        expected: how many the recipe names.
        version: of the source package that was built.
        failure: "" or why there are none: `source`, `build` or `extract`.
        detail: a line more.
        reused: it was there from an earlier run.
        skipped: objects that gave no module, by reason.
        wall_s: seconds that fetching, building and extracting took.
    """

    name: str
    split: Split
    modules: int
    expected: int
    version: str = ""
    failure: str = ""
    detail: str = ""
    reused: bool = False
    skipped: Mapping[str, int] = field(default_factory=dict)
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """What a recipe gave.

    Attributes:
        corpora: the corpus of each split that has modules.
        modules: in all.
        projects: the outcome of each project, in the recipe's order.
        failures: projects without modules, by reason.
        as_expected: every project gave as many modules as the recipe names.
    """

    corpora: Mapping[str, Path]
    modules: int
    projects: tuple[ProjectOutcome, ...]
    failures: Mapping[str, int]
    as_expected: bool


def fetch_recipe(
    recipe: Recipe,
    work_dir: Path,
    output_dir: Path,
    *,
    llvm: LLVM | None = None,
    only: Sequence[str] = (),
    any_version: bool = False,
    keep_sources: bool = False,
    report: Callable[[ProjectOutcome], None] = lambda _: None,
) -> FetchResult:
    """Fetch, build and extract a recipe's projects into `output_dir/train` and `output_dir/evaluation`.

    A project that fails does not stop the others. Interrupted, the next call goes on with the project it was at: what
    is extracted stays.

    Args:
        recipe: from `read_recipe`.
        work_dir: where packages are fetched and built.
        output_dir: where the corpora go, a folder a split, and in it a folder a project.
        llvm: whose clang compiles; the newest by default.
        only: names of projects; all by default.
        any_version: where the archive has not the pinned version any more, take the one it has.
        keep_sources: leave the built projects in `work_dir`, for `verify`.
        report: called with each project's outcome as soon as it is known.

    Raises:
        ConfigError: `only` names a project that the recipe has not.
        CorpusError: no archive of source packages is known, or a folder cannot be written.
        ToolchainError: no clang or no apt.
    """
    chosen = chosen_projects(recipe, only)
    compiler = llvm or find_llvm()
    kitchen = _Kitchen(
        recipe=recipe,
        work_dir=work_dir.absolute(),
        output_dir=output_dir.absolute(),
        llvm=compiler,
        any_version=any_version,
        keep_sources=keep_sources,
    )
    outcomes: list[ProjectOutcome] = []
    with progress(recipe.name, len(chosen)) as (advance, note):
        for project in chosen:
            note(project.name)
            outcomes.append(kitchen.cook(project))
            report(outcomes[-1])
            advance(1)
    corpora: dict[str, Path] = {}
    for split in SPLITS:
        folder = output_dir / split
        if folder.is_dir() and combine_corpora(folder).modules:
            corpora[split] = folder
    return FetchResult(
        corpora=corpora,
        modules=sum(each.modules for each in outcomes),
        projects=tuple(outcomes),
        failures=dict(Counter(each.failure for each in outcomes if each.failure)),
        as_expected=all(each.modules == each.expected for each in outcomes),
    )


@dataclass(slots=True, kw_only=True)
class _Kitchen:
    """Where a recipe's projects are made."""

    recipe: Recipe
    work_dir: Path
    output_dir: Path
    llvm: LLVM
    any_version: bool
    keep_sources: bool
    packages: SourcePackages | None = None

    def cook(self, project: Project) -> ProjectOutcome:
        """One project, from its package to its corpus; failures are data."""
        start = time.monotonic()
        corpus = self.output_dir / project.split / project.name
        known = self._known(project, corpus)
        if known is not None:
            return known
        stage = "source"
        try:
            version = self._unpack(project)
            stage = "build"
            self._build(project)
            stage = "extract"
            result = self._extract(project, corpus, version)
        except MLGOError as error:
            return self._failed(project, stage, str(error), time.monotonic() - start)
        if not result.modules:
            return self._failed(project, stage, f"skipped {dict(result.skipped)}", time.monotonic() - start)
        if not self.keep_sources:
            shutil.rmtree(self._folder(project), ignore_errors=True)
        return ProjectOutcome(
            name=project.name,
            split=project.split,
            modules=result.modules,
            expected=project.modules,
            version=version,
            skipped=result.skipped,
            wall_s=time.monotonic() - start,
        )

    def _folder(self, project: Project) -> Path:
        return self.work_dir / "build" / project.name

    def _unpack(self, project: Project) -> str:
        """Unpack the source package; its version."""
        if self.packages is None:
            self.packages = SourcePackages.prepare(self.work_dir / "apt")
        downloads = self.work_dir / "packages" / project.name
        try:
            dsc = self.packages.fetch(project.package, project.version, downloads)
        except CorpusError:
            if not self.any_version:
                raise
            dsc = self.packages.fetch(project.package, None, downloads)
        folder = self._folder(project)
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        unpack(dsc, folder)
        return _version_of(dsc)

    def _build(self, project: Project) -> None:
        folder = self._folder(project)
        script = "\n".join(f"( {line}\n)" for line in project.build)
        log_path = self.work_dir / "logs" / f"{project.name}.log"
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("wb") as log:
            result = record(
                ["sh", "-c", f"exec 2>&1\nset -eu\n{script}"],
                folder / "compile_commands.json",
                llvm=self.llvm,
                flags=self.recipe.flags,
                cwd=folder,
                stdout=log.fileno(),
                env={**os.environ, **self.recipe.environment},
            )
        # A project's last program may fail to link where all its objects are fine; the count of modules will tell.
        if not result.entries:
            raise CorpusError(f"nothing was compiled (exit code {result.build_exit_code}); see {log_path}")

    def _extract(self, project: Project, corpus: Path, version: str) -> ExtractResult:
        folder = self._folder(project)
        options = ExtractOptions(license_note=project.license, only_sources=project.only or None)
        return extract_corpus(
            folder / "compile_commands.json",
            corpus,
            obj_base_dir=folder,
            options=options,
            about=self._about(project) | {"built_version": version},
        )

    def _about(self, project: Project) -> dict[str, object]:
        """What a corpus's manifest says of its recipe; if that is unchanged, so is the corpus."""
        wanted = json.dumps(
            [asdict(project), self.recipe.flags, dict(self.recipe.environment), self.llvm.version_text], sort_keys=True
        )
        return {
            "recipe": self.recipe.name,
            "package": project.package,
            "version": project.version,
            "recipe_digest": hashlib.sha256(wanted.encode()).hexdigest(),
        }

    def _known(self, project: Project, corpus: Path) -> ProjectOutcome | None:
        head = read_manifest_head(corpus)
        source = head.get("source")
        modules = head.get("modules")
        if not isinstance(source, dict) or not isinstance(modules, int):
            return None
        if source.get("recipe_digest") != self._about(project)["recipe_digest"]:
            return None
        return ProjectOutcome(
            name=project.name,
            split=project.split,
            modules=modules,
            expected=project.modules,
            version=str(source.get("built_version", "")),
            reused=True,
        )

    def _failed(self, project: Project, failure: str, detail: str, wall_s: float) -> ProjectOutcome:
        return ProjectOutcome(
            name=project.name,
            split=project.split,
            modules=0,
            expected=project.modules,
            failure=failure,
            detail=detail,
            wall_s=wall_s,
        )


def _version_of(dsc: Path) -> str:
    match = re.search(r"^Version: (\S+)$", dsc.read_text(errors="replace"), re.MULTILINE)
    return match.group(1) if match else ""
