"""Entity tables: what IR2Vec and MIR2Vec tell apart, with the ids that the running LLVM gives."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pymlgo.embed.core import core
from pymlgo.errors import CorpusError


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityTable:
    """Entities in the order of their ids.

    | form | kinds, in id order |
    |---|---|
    | IR | opcodes, types, operands, predicates |
    | MIR | opcodes, common_operands, physical_registers, virtual_registers |
    """

    llvm: str
    """Version of the LLVM whose ids these are: another release may number differently."""

    target: str
    """The target of machine entities, e.g. `x86-64`; empty for IR."""

    names: tuple[str, ...]
    kinds: Mapping[str, range]
    """The ids of each kind."""

    def __len__(self) -> int:
        return len(self.names)

    def text(self) -> str:
        """The table as `llvm-ir2vec entities` prints it."""
        return f"{len(self.names)}\n" + "".join(f"{name}\t{number}\n" for number, name in enumerate(self.names))

    def kind_of(self, entity: int) -> str:
        """The kind that an id belongs to."""
        return next(kind for kind, ids in self.kinds.items() if entity in ids)


@functools.cache
def ir_entities() -> EntityTable:
    """IR2Vec's entities.

    Raises:
        ToolchainError: the native core was not built.
    """
    native = core()
    return EntityTable(
        llvm=native.llvm_version(),
        target="",
        names=tuple(native.ir_entity_names()),
        kinds=_kinds(native.ir_entity_ranges()),
    )


@functools.cache
def mir_entities(triple: str = "") -> EntityTable:
    """MIR2Vec's entities for the target of `triple`; this host's when empty.

    Raises:
        CorpusError: LLVM does not know the triple.
        ToolchainError: the native core was not built.
    """
    native = core()
    try:
        target, names, ranges = native.mir_entities(triple)
    except native.ReadError as error:
        raise CorpusError(f"{triple!r}: {error}", hint="llc --version lists the targets") from error
    return EntityTable(llvm=native.llvm_version(), target=target, names=tuple(names), kinds=_kinds(ranges))


def _kinds(ranges: list[tuple[str, int, int]]) -> Mapping[str, range]:
    return MappingProxyType({kind: range(first, first + count) for kind, first, count in ranges})
