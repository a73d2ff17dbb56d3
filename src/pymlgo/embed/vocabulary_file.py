"""The JSON file of a vocabulary, read by LLVM's rules."""

from __future__ import annotations

import functools
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

import numpy as np

from pymlgo.arrays import Float64Array
from pymlgo.errors import VocabularyError

OWN_KEY = "pymlgo"
"""Root key of what we add to a vocabulary: its layout and provenance. LLVM ignores root keys that it does not know."""

OWN_SCHEMA = "vocabulary-1"


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """Named vectors: key → row of `rows` f64[n, dimension], which is read-only."""

    index: Mapping[str, int]
    rows: Float64Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VocabularyFile:
    """A file's content after LLVM's checks."""

    name: str
    sections: Mapping[str, Section]
    layout: Mapping[str, object]
    provenance: Mapping[str, object]
    duplicates: tuple[str, ...]

    @classmethod
    def from_object(
        cls, root: object, section_names: Sequence[str], *, name: str, duplicates: Sequence[str]
    ) -> VocabularyFile:
        """Check a parsed JSON value.

        Raises:
            VocabularyError: a rule of LLVM's is broken; the text is LLVM's with the file's name before it.
        """
        if not isinstance(root, dict):
            raise VocabularyError(f"{name}: JSON root is not an object")
        sections = {section: _section(root, section, name) for section in section_names}
        dimensions = {section: each.rows.shape[1] for section, each in sections.items()}
        if len(set(dimensions.values())) > 1:
            found = ", ".join(f"{section} {dimension}" for section, dimension in dimensions.items())
            raise VocabularyError(f"{name}: Vocabulary sections have different dimensions ({found})")
        own = root.get(OWN_KEY)
        own = own if isinstance(own, dict) else {}
        return cls(
            name=name,
            sections=MappingProxyType(sections),
            layout=_mapping(own.get("layout")),
            provenance=_mapping(own.get("provenance")),
            duplicates=tuple(duplicates),
        )


def read_vocabulary_file(source: Path | str | bytes, section_names: Sequence[str]) -> VocabularyFile:
    """The checked content of a file (`-`: standard input) or of its bytes.

    Raises:
        VocabularyError: see `VocabularyFile.from_object`; also a missing file and text that is no JSON.
    """
    name, content = _content(source)
    duplicates: list[str] = []

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            duplicates.extend(repr(key) for key, count in counts.items() if count > 1)
        return found

    try:
        root = json.loads(content.decode("utf-8"), object_pairs_hook=members, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise VocabularyError(f"{name}: [{error.lineno}:{error.colno}, byte={error.pos}]: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise VocabularyError(f"{name}: byte {error.start} is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise VocabularyError(f"{name}: {error}") from error
    return VocabularyFile.from_object(root, section_names, name=name, duplicates=duplicates)


def vocabulary_text(
    sections: Mapping[str, Section], layout: Mapping[str, object], provenance: Mapping[str, object]
) -> str:
    """The JSON text of a vocabulary, a line for each vector; numbers read back to the same doubles."""
    compact = functools.partial(json.dumps, allow_nan=False, separators=(",", ":"))
    own = {"schema": OWN_SCHEMA, "layout": dict(layout), "provenance": dict(provenance)}
    parts = [f'"{OWN_KEY}": {json.dumps(own, ensure_ascii=False, allow_nan=False)}']
    for name, section in sections.items():
        rows = (f"  {json.dumps(key)}: {compact(section.rows[row].tolist())}" for key, row in section.index.items())
        parts.append(f'"{name}": {{\n' + ",\n".join(rows) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _content(source: Path | str | bytes) -> tuple[str, bytes]:
    if isinstance(source, bytes):
        return "vocabulary", source
    try:
        if str(source) == "-":
            return "standard input", sys.stdin.buffer.read()
        return str(source), Path(source).read_bytes()
    except OSError as error:
        raise VocabularyError(
            f"'{source}': {error.strerror}", hint="`mlgo embed inspect --shipped` lists the vocabularies of the package"
        ) from error


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _mapping(value: object) -> Mapping[str, object]:
    return MappingProxyType(value if isinstance(value, dict) else {})


def _section(root: Mapping[str, object], section: str, name: str) -> Section:
    if section not in root:
        raise VocabularyError(f"{name}: Missing '{section}' section in vocabulary file")
    members = root[section]
    if not isinstance(members, Mapping):
        raise VocabularyError(f"{name}: Unable to parse '{section}' section from vocabulary")
    if not members:
        raise VocabularyError(f"{name}: '{section}' section of the vocabulary is empty")
    vectors = [
        _vector(value, f"{name}: Unable to parse '{section}' section from vocabulary") for value in members.values()
    ]
    if any(vector.size == 0 for vector in vectors):
        raise VocabularyError(f"{name}: Dimension of '{section}' section of the vocabulary is zero")
    if len({vector.size for vector in vectors}) > 1:
        raise VocabularyError(
            f"{name}: All vectors in the '{section}' section of the vocabulary are not of the same dimension"
        )
    rows = np.stack(vectors)
    if not np.isfinite(rows).all():
        key = list(members)[int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])]
        raise VocabularyError(f"{name}: '{section}' section: the vector of {key!r} holds a number that is not finite")
    rows.setflags(write=False)
    return Section(MappingProxyType({key: number for number, key in enumerate(members)}), rows)


def _vector(value: object, message: str) -> Float64Array:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise VocabularyError(message)
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in value):
        raise VocabularyError(message)
    try:
        return np.array(value, np.float64).reshape(-1)
    except OverflowError as error:
        raise VocabularyError(message) from error
