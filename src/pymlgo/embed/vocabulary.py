"""Vocabularies: a vector for each entity, immutable, applied with LLVM's weights."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Self

import numpy as np

from pymlgo.arrays import BoolArray, Float64Array
from pymlgo.atomic_file import write_text
from pymlgo.embed.entities import EntityTable
from pymlgo.embed.vocabulary_file import Section, VocabularyFile, read_vocabulary_file, vocabulary_text
from pymlgo.errors import VocabularyError


class VocabularyWarning(UserWarning):
    """A vocabulary that LLVM takes, but hardly as its author meant it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _SectionedVocabulary:
    """What both kinds share: sections of named rows, one dimension."""

    sections: Mapping[str, Section]
    layout: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """For which LLVM (and target) the entities were laid out, where the file says so."""

    provenance: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """How the vectors came to be: corpus, seed, licence …"""

    SECTION_OF_KIND: ClassVar[Mapping[str, str]]
    KEY_PREFIX: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """What an entity's name has before its key in the file, by kind."""

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        return int(next(iter(self.sections.values())).rows.shape[1])

    @classmethod
    def load(cls, source: Path | str | bytes) -> Self:
        """The vocabulary of a JSON file (`-`: standard input) or of its bytes.

        Raises:
            VocabularyError: the file is missing, no JSON, or one of LLVM's rules for vocabularies is broken.
        """
        names = tuple(dict.fromkeys(cls.SECTION_OF_KIND.values()))
        read = read_vocabulary_file(source, names)
        for duplicate in read.duplicates:
            warnings.warn(
                f"{read.name}: {duplicate} stands twice, the last one counts", VocabularyWarning, stacklevel=2
            )
        return cls(sections=read.sections, layout=read.layout, provenance=read.provenance)

    @classmethod
    def from_sections(
        cls,
        sections: Mapping[str, Mapping[str, object]],
        *,
        layout: Mapping[str, object] | None = None,
        provenance: Mapping[str, object] | None = None,
    ) -> Self:
        """The vocabulary with these vectors, `{section: {key: numbers}}`.

        Raises:
            VocabularyError: a rule for vocabularies is broken, as in `load`.
        """
        names = tuple(dict.fromkeys(cls.SECTION_OF_KIND.values()))
        read = VocabularyFile.from_object({**sections}, names, name="vocabulary", duplicates=())
        return cls(sections=read.sections, layout=layout or {}, provenance=provenance or {})

    def save(self, path: Path) -> None:
        """Write the JSON that LLVM loads; layout and provenance go into a root key that LLVM ignores."""
        write_text(path, vocabulary_text(self.sections, self.layout, self.provenance))

    def key(self, kind: str, name: str) -> str:
        """The key under which the file has an entity."""
        return name.removeprefix(self.KEY_PREFIX.get(kind, ""))

    def present(self, entities: EntityTable) -> BoolArray:
        """bool[n_entities]: whether the vocabulary has a vector for each entity; LLVM takes zeros for the others."""
        found = np.zeros(len(entities), np.bool_)
        for kind, ids in entities.kinds.items():
            keys = self.sections[self.SECTION_OF_KIND[kind]].index
            for entity in ids:
                found[entity] = self.key(kind, entities.names[entity]) in keys
        return found

    def _table(self, entities: EntityTable, weights: Mapping[str, float]) -> Float64Array:
        table = np.zeros((len(entities), self.dimension))
        for kind, ids in entities.kinds.items():
            section = self.sections[self.SECTION_OF_KIND[kind]]
            for entity in ids:
                row = section.index.get(self.key(kind, entities.names[entity]))
                if row is not None:
                    table[entity] = section.rows[row]
            # LLVM keeps weights as C++ floats and widens them to double.
            table[ids.start : ids.stop] *= np.float64(np.float32(weights[kind]))
        table.setflags(write=False)
        return table

    def unknown_keys(self, entities: EntityTable) -> tuple[str, ...]:
        """`Section/key` for keys that no entity of the table has; LLVM ignores them."""
        known: dict[str, set[str]] = {name: set() for name in self.sections}
        for kind, ids in entities.kinds.items():
            known[self.SECTION_OF_KIND[kind]].update(self.key(kind, entities.names[entity]) for entity in ids)
        return tuple(
            f"{name}/{key}"
            for name, section in self.sections.items()
            for key in section.index
            if key not in known[name]
        )

    def warn_about_unknown_keys(self, entities: EntityTable) -> None:
        """One warning for each key that no entity has, with the nearest entity's name."""
        names = [self.key(kind, entities.names[entity]) for kind, ids in entities.kinds.items() for entity in ids]
        for place in self.unknown_keys(entities):
            nearest = difflib.get_close_matches(place.partition("/")[2], names, n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            warnings.warn(f"no entity is called {place}, LLVM ignores it{hint}", VocabularyWarning, stacklevel=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Factors of IR2Vec's parts; used as C++ floats.

    Source: -ir2vec-opc-weight, -ir2vec-type-weight, -ir2vec-arg-weight (llvm/Analysis/IR2Vec.cpp, LLVM 22).
    """

    opcode: float = 1.0
    type: float = 0.5
    argument: float = 0.2
    """For operands and for the predicates of comparisons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MIRWeights:
    """Factors of MIR2Vec's parts; used as C++ floats.

    Source: -mir2vec-opc-weight, -mir2vec-common-operand-weight, -mir2vec-reg-operand-weight
    (llvm/CodeGen/MIR2Vec.cpp, LLVM 22).
    """

    opcode: float = 1.0
    common_operand: float = 1.0
    register: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vocabulary(_SectionedVocabulary):
    """IR2Vec's vocabulary: sections `Opcodes`, `Types` and `Arguments`.

    Source: ir2vec::Vocabulary (llvm/Analysis/IR2Vec.h, LLVM 22). Departures: an empty section is an error, where LLVM
    reads beyond it; unknown and duplicate keys give a `VocabularyWarning`; numbers must be finite.
    """

    SECTION_OF_KIND: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"opcodes": "Opcodes", "types": "Types", "operands": "Arguments", "predicates": "Arguments"}
    )

    def table(self, entities: EntityTable, weights: Weights = Weights()) -> Float64Array:
        """f64[n_entities, dimension]: the weighted rows by entity id, zero for what the vocabulary lacks."""
        return self._table(
            entities,
            {
                "opcodes": weights.opcode,
                "types": weights.type,
                "operands": weights.argument,
                "predicates": weights.argument,
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MIRVocabulary(_SectionedVocabulary):
    """MIR2Vec's vocabulary of a target: `Opcodes`, `CommonOperands`, `PhysicalRegisters` and `VirtualRegisters`.

    Source: mir2vec::MIRVocabulary (llvm/CodeGen/MIR2Vec.h, LLVM 22).
    """

    SECTION_OF_KIND: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "opcodes": "Opcodes",
            "common_operands": "CommonOperands",
            "physical_registers": "PhysicalRegisters",
            "virtual_registers": "VirtualRegisters",
        }
    )
    KEY_PREFIX: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"physical_registers": "PhyReg_", "virtual_registers": "VirtReg_"}
    )

    def table(self, entities: EntityTable, weights: MIRWeights = MIRWeights()) -> Float64Array:
        """f64[n_entities, dimension]: the weighted rows by entity id, zero for what the vocabulary lacks."""
        return self._table(
            entities,
            {
                "opcodes": weights.opcode,
                "common_operands": weights.common_operand,
                "physical_registers": weights.register,
                "virtual_registers": weights.register,
            },
        )


def require_dimension(vocabulary: Vocabulary | MIRVocabulary, dimension: int) -> None:
    """Refuse a vocabulary of another dimension than a model was made for.

    Raises:
        VocabularyError: the dimensions differ.
    """
    if vocabulary.dimension != dimension:
        raise VocabularyError(f"expected a vocabulary of dimension {dimension}, found {vocabulary.dimension}")
