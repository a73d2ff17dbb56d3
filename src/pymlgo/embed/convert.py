"""Vocabularies of other forms, turned into the JSON that LLVM 22 loads."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping

from pymlgo.embed.entities import EntityTable
from pymlgo.embed.vocabulary import MIRVocabulary, Vocabulary, VocabularyWarning
from pymlgo.errors import VocabularyError

_TEXT_LINE = re.compile(r"\s*([^\s:]+)\s*:\s*(\[.*\])\s*,?\s*$")
_REGISTER_PREFIX = re.compile(r"(VIRT|PHY[A-Z0-9]*)_REG_(.+)")
_OWN_NAMES = {"cmpxchg": "AtomicCmpXchg", "va_arg": "VAArg"}
"""Mnemonics that lower-casing an opcode's C++ name does not give."""


def from_iith_text(text: str, entities: EntityTable, *, name: str = "vocabulary") -> Vocabulary:
    """The vocabulary of the IITH project's text form: a line `key:[number, …],` for each, keys in lower case.

    Keys that LLVM has no entity for (`label`) are dropped with a `VocabularyWarning`.

    Raises:
        VocabularyError: a line is not of that form.
    """
    known = {entity.lower(): number for number, entity in enumerate(entities.names)}
    sections: dict[str, dict[str, object]] = {section: {} for section in ("Opcodes", "Types", "Arguments")}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        match = _TEXT_LINE.match(line)
        if match is None:
            raise VocabularyError(f"{name}, line {number}: expected `key:[numbers],`, found {line[:40]!r}")
        key, values = match.groups()
        entity = known.get(_OWN_NAMES.get(key, key).lower())
        if entity is None:
            warnings.warn(f"{name}: LLVM has no entity {key!r}, it is left out", VocabularyWarning, stacklevel=2)
            continue
        section = Vocabulary.SECTION_OF_KIND[entities.kind_of(entity)]
        sections[section][entities.names[entity]] = _numbers(values, f"{name}, line {number}")
    return Vocabulary.from_sections(sections, layout={"llvm": entities.llvm}, provenance={"converted_from": name})


def from_prefixed_mir(text: str | bytes, *, name: str = "vocabulary") -> MIRVocabulary:
    """The vocabulary of an older form of MIR2Vec.

    There, register keys have prefixes that LLVM 22 never finds, or all keys stand in one object `entities`.

    Raises:
        VocabularyError: the text is no JSON object, or a rule for vocabularies is broken.
    """
    try:
        root = json.loads(text)
    except ValueError as error:
        raise VocabularyError(f"{name}: {error}") from error
    if not isinstance(root, dict):
        raise VocabularyError(f"{name}: JSON root is not an object")
    sections = _flat(root["entities"]) if isinstance(root.get("entities"), dict) else root
    plain: dict[str, Mapping[str, object]] = {}
    for section in dict.fromkeys(MIRVocabulary.SECTION_OF_KIND.values()):
        members = sections.get(section)
        if not isinstance(members, Mapping):
            raise VocabularyError(f"{name}: Missing '{section}' section in vocabulary file")
        plain[section] = {_without_prefix(key): vector for key, vector in members.items()}
    return MIRVocabulary.from_sections(plain, provenance={"converted_from": name})


def _flat(entities: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Sections out of one object, by the keys' prefixes and the names of common operands."""
    from pymlgo.embed.entities import mir_entities

    table = mir_entities("x86_64-unknown-linux-gnu")
    common = {table.names[entity] for entity in table.kinds["common_operands"]}
    sections: dict[str, dict[str, object]] = {name: {} for name in MIRVocabulary.SECTION_OF_KIND.values()}
    for key, vector in entities.items():
        match = _REGISTER_PREFIX.fullmatch(key)
        if match:
            section = "VirtualRegisters" if match[1] == "VIRT" else "PhysicalRegisters"
        else:
            section = "CommonOperands" if key in common else "Opcodes"
        sections[section][key] = vector
    return sections


def _without_prefix(key: str) -> str:
    match = _REGISTER_PREFIX.fullmatch(key)
    return match[2] if match else key


def _numbers(text: str, where: str) -> list[float]:
    try:
        return [float(each) for each in json.loads(text)]
    except (ValueError, TypeError) as error:
        raise VocabularyError(f"{where}: {error}") from error
