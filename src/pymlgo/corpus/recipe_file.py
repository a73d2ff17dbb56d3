"""Recipes: public corpora, rebuilt from a distribution's source packages.

A recipe is a TOML file:

```toml
name = "small"
release = "bookworm"          # the distribution's release that versions are pinned for
flags = ["-Oz"]               # added to every compile, after the project's own

[environment]                 # optional: variables of the builds' environment
CMAKE = "cmake -G Ninja …"

[[project]]
name = "zlib"                 # the first component of its modules' names
package = "zlib"              # the source package
version = "1:1.2.13.dfsg-1"
license = "Zlib"
split = "train"               # or "evaluation"
build = ["$CMAKE", "ninja -C mlgo"]   # shell lines, each run in the unpacked folder
modules = 34                  # how many this gives
```

A recipe can also be a choice of another one's projects: `name`, `description`, `base = "large.toml"` and
`only = ["zlib", …]`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pymlgo.config import read_toml
from pymlgo.corpus.names import is_safe_name
from pymlgo.errors import ConfigError

Split = Literal["train", "evaluation"]
SPLITS: tuple[Split, ...] = ("train", "evaluation")

PACKAGE_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """One project of a recipe; see the module's text for the fields.

    `only` keeps the modules whose source path matches it somewhere; tests and examples of a project are often left out.
    """

    name: str
    package: str
    version: str
    license: str
    split: Split
    build: tuple[str, ...]
    modules: int
    only: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe as read: `flags` are added to every compile, `environment` to the builds' variables."""

    name: str
    description: str
    release: str
    flags: tuple[str, ...]
    environment: Mapping[str, str]
    projects: tuple[Project, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """The keys of a recipe that is a choice of another's projects."""

    name: str
    description: str
    base: str
    only: tuple[str, ...]


def read_recipe(path: Path | str) -> Recipe:
    """The recipe in a TOML file.

    Raises:
        ConfigError: it cannot be read, or a key is missing, unknown or of the wrong type.
    """
    file = Path(path)
    found = read_toml(file)
    if "base" in found:
        return _choice(found, file)
    projects = found.pop("project", [])
    if not isinstance(projects, list) or not projects:
        raise ConfigError("a recipe needs [[project]] tables", file=file, key="project")
    values = _checked(found, Recipe, file, "", optional={"description": "", "environment": {}}, leave_out={"projects"})
    read = tuple(_project(each, file, f"project[{number}]") for number, each in enumerate(projects))
    for name, count in Counter(each.name for each in read).items():
        if count > 1:
            raise ConfigError(f"{count} projects are called {name!r}", file=file, key="project")
    return Recipe(**values, projects=read)


def chosen_projects(recipe: Recipe, only: Sequence[str]) -> list[Project]:
    """The projects of a recipe that `only` names; all if it names none.

    Raises:
        ConfigError: the recipe has no such project.
    """
    known = [each.name for each in recipe.projects]
    for name in only:
        if name not in known:
            nearest = get_close_matches(name, known, 1)
            raise ConfigError(
                f"the recipe {recipe.name} has no project {name!r}",
                hint=f"did you mean {nearest[0]!r}?" if nearest else f"it has {', '.join(known)}",
            )
    return [each for each in recipe.projects if not only or each.name in only]


def _choice(found: Mapping[str, object], file: Path) -> Recipe:
    """The recipe that takes some projects of another."""
    values = _checked(found, _Choice, file, "", optional={"description": ""})
    base_file = file.parent / values["base"]
    if "base" in read_toml(base_file):
        raise ConfigError("is itself a choice of another recipe's projects", file=base_file, key="base")
    base = read_recipe(base_file)
    chosen = tuple(chosen_projects(base, values["only"]))
    return replace(base, name=values["name"], description=values["description"], projects=chosen)


def _project(found: object, file: Path, key: str) -> Project:
    if not isinstance(found, dict):
        raise ConfigError("expected a table", file=file, key=key)
    project = Project(**_checked(found, Project, file, key, optional={"only": ""}))
    if project.split not in SPLITS:
        raise ConfigError(f"expected {' or '.join(SPLITS)}, found {project.split!r}", file=file, key=f"{key}.split")
    if not is_safe_name(project.name) or "/" in project.name:
        raise ConfigError(f"{project.name!r} can be no folder's name", file=file, key=f"{key}.name")
    if not PACKAGE_NAME.fullmatch(project.package) or project.version.startswith("-"):
        raise ConfigError(f"{project.package!r} can be no source package", file=file, key=f"{key}.package")
    return project


def _checked(
    found: Mapping[str, object],
    schema: type[Project | Recipe | _Choice],
    file: Path,
    key: str,
    *,
    optional: Mapping[str, object],
    leave_out: frozenset[str] | set[str] = frozenset(),
) -> dict[str, Any]:
    """The values for `schema`'s fields, each of its type."""
    types = {
        "modules": int,
        "build": list,
        "only": str if schema is Project else list,
        "flags": list,
        "environment": dict,
    }
    names = [each.name for each in fields(schema) if each.name not in leave_out]
    dotted = f"{key}." if key else ""
    for name in found:
        if name not in names:
            nearest = get_close_matches(name, names, 1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"known keys are {', '.join(names)}"
            raise ConfigError("unknown key", file=file, key=f"{dotted}{name}", hint=hint)
    values: dict[str, Any] = {}
    for name in names:
        value = found.get(name, optional.get(name))
        wanted = types.get(name, str)
        good = isinstance(value, wanted) and not isinstance(value, bool)
        if isinstance(value, list | dict):
            elements = value.values() if isinstance(value, dict) else value
            good = good and all(isinstance(each, str) for each in elements)
        if not good:
            shown = "nothing" if value is None else repr(value)
            raise ConfigError(f"expected {wanted.__name__}, found {shown}", file=file, key=f"{dotted}{name}")
        values[name] = tuple(value) if isinstance(value, list) else value
    return values
