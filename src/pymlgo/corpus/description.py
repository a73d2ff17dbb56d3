"""A corpus on disk: `corpus_description.json`, and for each module its bitcode and command line.

```
<corpus>/corpus_description.json
<corpus>/<module>.bc            bitcode
<corpus>/<module>.cmd           clang -cc1's arguments, each followed by a NUL (absent where the description overrides)
<corpus>/<module>.thinlto.bc    the module's ThinLTO index (ThinLTO corpora)
```
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pymlgo.atomic_file import write_text
from pymlgo.corpus.names import is_safe_name
from pymlgo.errors import CorpusError

DESCRIPTION_FILE = "corpus_description.json"
_LEVEL = re.compile(rb"-O(?:[0-9sz]|fast|g)?")

UNSPECIFIED = "<UNSPECIFIED>"
"""What mlgo-utils writes as the override of a local ThinLTO corpus, for the user to replace by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What `corpus_description.json` says; `extra` carries the keys that are nobody's here.

    Source: mlgo-utils' extract_ir_lib and make_corpus_lib.
    """

    modules: tuple[str, ...]
    has_thinlto: bool | None = False
    command_override: tuple[str, ...] | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """The JSON object, keys in mlgo-utils' order."""
        fields: dict[str, object] = {}
        if self.command_override is not None:
            fields["global_command_override"] = list(self.command_override)
        if self.has_thinlto is not None:
            fields["has_thinlto"] = self.has_thinlto
        return fields | dict(self.extra) | {"modules": list(self.modules)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One module of a corpus: its bitcode and how clang made an object of it.

    `command` is what clang's `-cc1` got, without input and output; the corpus's override where it has one.
    """

    name: str
    bitcode: Path
    command: tuple[bytes, ...]
    thinlto_index: Path | None = None
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableModule:
    """A module that the description names and that cannot be compiled; `reason` is one line."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A corpus as read: the usable modules in the description's order, and what is wrong with the others."""

    root: Path
    modules: tuple[Module, ...]
    has_thinlto: bool
    command_override: tuple[str, ...] | None
    extra: Mapping[str, object]
    unusable: tuple[UnusableModule, ...] = ()


def read_description(root: Path) -> Description:
    """The description of the corpus in the folder `root`.

    Raises:
        CorpusError: there is none, or it is not what a description must be.
    """
    path = root / DESCRIPTION_FILE
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise CorpusError(
            f"{root} is not a corpus: it has no {DESCRIPTION_FILE}", hint="`mlgo corpus extract` and `make` write one"
        ) from error
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{path} is not JSON: {error}") from error
    return description_from_json(found, path)


def description_from_json(found: object, where: Path) -> Description:
    """The description that the JSON value `found` holds; `where` is for messages.

    Raises:
        CorpusError: its shape is wrong.
    """
    if not isinstance(found, dict):
        raise CorpusError(f"{where}: expected a JSON object, found {type(found).__name__}")
    fields = dict(found)
    modules = _strings(fields.pop("modules", None), "modules", where)
    has_thinlto = fields.pop("has_thinlto", None)
    if not isinstance(has_thinlto, bool | None):
        raise CorpusError(f"{where}: 'has_thinlto' must be true or false, found {has_thinlto!r}")
    override = fields.pop("global_command_override", None)
    if override is not None:
        override = _strings(override, "global_command_override", where)
    return Description(modules=modules, has_thinlto=has_thinlto, command_override=override, extra=fields)


def write_description(root: Path, description: Description) -> None:
    """Write `corpus_description.json`, as mlgo-utils formats it: indented by two, no newline at the end."""
    write_text(root / DESCRIPTION_FILE, json.dumps(description.to_json(), indent=2))


def read_corpus(root: Path | str) -> Corpus:
    """The corpus in the folder `root`. Modules that cannot be compiled are listed in `unusable`, and do not stop it.

    Raises:
        CorpusError: `root` has no description, or a damaged one.
    """
    folder = Path(root)
    description = read_description(folder)
    modules: list[Module] = []
    unusable: list[UnusableModule] = []
    for name in description.modules:
        module = _read_module(folder, name, description)
        if isinstance(module, Module):
            modules.append(module)
        else:
            unusable.append(UnusableModule(name=name, reason=module))
    return Corpus(
        root=folder,
        modules=tuple(modules),
        has_thinlto=bool(description.has_thinlto),
        command_override=description.command_override,
        extra=description.extra,
        unusable=tuple(unusable),
    )


def split_command(raw: bytes) -> tuple[bytes, ...]:
    """The arguments of a `.cmd` file, in which each is followed by a NUL."""
    return tuple(raw.removesuffix(b"\0").split(b"\0")) if raw else ()


def join_command(arguments: Iterable[bytes]) -> bytes:
    """The inverse of `split_command`."""
    return b"".join(argument + b"\0" for argument in arguments)


def optimization_level(command: Sequence[bytes]) -> str:
    """The `-O` flag of a command line; the last one counts, and none means `-O0`."""
    flags = [each for each in command if each.startswith(b"-O") and _LEVEL.fullmatch(each)]
    return flags[-1].decode() if flags else "-O0"


def _read_module(root: Path, name: str, description: Description) -> Module | str:
    if not is_safe_name(name):
        return "its name does not stay inside the corpus"
    bitcode, index = root / f"{name}.bc", root / f"{name}.thinlto.bc"
    try:
        size = bitcode.stat().st_size
        if description.command_override is None:
            command = split_command((root / f"{name}.cmd").read_bytes())
        else:
            command = tuple(each.encode("utf-8", "surrogateescape") for each in description.command_override)
    except OSError as error:
        return f"{error.filename} cannot be read: {error.strerror}"
    if not size:
        return "its bitcode is empty"
    if not command:
        return "its command line is empty"
    has_index = bool(description.has_thinlto) and index.is_file()
    return Module(
        name=name, bitcode=bitcode, command=command, thinlto_index=index if has_index else None, size_bytes=size
    )


def _strings(value: object, key: str, where: Path) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise CorpusError(f"{where}: {key!r} must be a list of strings, found {str(value)[:80]!r}")
    return tuple(value)
