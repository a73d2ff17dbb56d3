"""
pymlgo's C++ core: reads modules with the LLVM it was built for and adds up embeddings.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray


class ReadError(ValueError):
    pass

def demangle(name: str) -> str:
    """A symbol's readable name; itself where it is not mangled."""

def llvm_version() -> str:
    """Version of the LLVM that is linked, e.g. `22.1.8`."""

def ir_entity_names() -> list[str]:
    """Names of IR2Vec's entities; the index is the id."""

def ir_entity_ranges() -> list[tuple[str, int, int]]:
    """(kind, first id, count) of opcodes, types, operands and predicates."""

def mir_entities(triple: str) -> tuple[str, list[str], list[tuple[str, int, int]]]:
    """
    MIR2Vec's entities for a triple's target (empty: this host): target, names by id, (kind, first id, count).
    """

class Walk:
    """A module as flat arrays; see native/core/walk.h."""

    @property
    def is_mir(self) -> bool: ...

    @property
    def entity_count(self) -> int: ...

    @property
    def target(self) -> list[bytes]:
        """MIR: the target's name and triple."""

    @property
    def function_names(self) -> list[bytes]: ...

    @property
    def block_names(self) -> list[bytes]: ...

    @property
    def functions(self) -> int: ...

    @property
    def blocks(self) -> int: ...

    @property
    def instructions(self) -> int: ...

    @property
    def has_definitions(self) -> bool: ...

    @property
    def declaration(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]:
        """[F] 1 for a function without a body."""

    @property
    def content_hash(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)]:
        """[F] differs where embeddings may."""

    @property
    def first_block(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)]:
        """[F + 1] index of the first block."""

    @property
    def first_visit(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)]:
        """[F + 1] index of the first visit."""

    @property
    def visit(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)]:
        """Reachable blocks, depth first, pre-order."""

    @property
    def first_instruction(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)]:
        """[B + 1]"""

    @property
    def pattern(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)]:
        """[I] index of the instruction's pattern."""

    @property
    def skipped(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]:
        """[I] 1 for what sums leave out."""

    @property
    def definition(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)]:
        """[O] the instruction that defines an operand; 2**32 - 1: none."""

    @property
    def first_operand(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)]:
        """[I + 1], or empty."""

    @property
    def opcode(self) -> Annotated[NDArray[numpy.uint16], dict(shape=(None,), writable=False)]:
        """[P] entity ids; 65535: none."""

    @property
    def type(self) -> Annotated[NDArray[numpy.uint16], dict(shape=(None,), writable=False)]:
        """[P] entity ids; 65535: none."""

    @property
    def predicate(self) -> Annotated[NDArray[numpy.uint16], dict(shape=(None,), writable=False)]:
        """[P] entity ids; 65535: none."""

    @property
    def first_pattern_operand(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)]:
        """[P + 1]"""

    @property
    def pattern_operand(self) -> Annotated[NDArray[numpy.uint16], dict(shape=(None,), writable=False)]:
        """Entity ids; 65535: none."""

    @property
    def set_kind(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]:
        """[S] 0 loop, 1 region."""

    @property
    def set_function(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)]:
        """[S]"""

    @property
    def set_parent(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)]:
        """[S] the set around it; 2**32 - 1: none."""

    @property
    def set_depth(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)]:
        """[S] as LLVM counts."""

    @property
    def set_entry(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)]:
        """[S] a loop's header, a region's entry."""

    @property
    def set_exit(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)]:
        """[S] a region's exit; 2**32 - 1: none."""

    @property
    def first_member(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)]:
        """[S + 1]"""

    @property
    def member(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)]:
        """Blocks of the sets, in layout order."""

    def serialize(self) -> bytes: ...

    @staticmethod
    def deserialize(data: bytes) -> Walk: ...

    def triplets(self, predicates: bool = False) -> Annotated[NDArray[numpy.int32], dict(shape=(None, 3))]:
        """
        i32[n, 3]: head, tail, relation, in llvm-ir2vec's order; relation -1 is a predicate's.
        """

    def triplets_text(self) -> bytes:
        """What `llvm-ir2vec triplets` prints."""

def read_ir(data: bytes, name: str, definitions: bool = True, loops: bool = False, regions: bool = False) -> Walk:
    """
    Read bitcode or text in this process; a module that LLVM cannot stand ends it.
    """

def read_mir(data: bytes, name: str, loops: bool = False, regions: bool = False) -> Walk:
    """Read .mir text in this process."""

def embed_instructions(walk: Walk, table: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], kind: int, begin: int, end: int, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """Fill `out` with a row for each instruction of functions [begin, end)."""

def embed_blocks(walk: Walk, table: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], kind: int, begin: int, end: int, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """Fill `out` with a row for each block of functions [begin, end)."""

def embed_functions(walk: Walk, table: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], kind: int, begin: int, end: int, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """Fill `out` with a row for each function of [begin, end)."""

def sum_rows(rows: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], members: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """
    out[s] = ((0 + rows[m]) + …) over members[first[s]:first[s + 1]], in that order.
    """

def used_entities(walk: Walk) -> list[int]:
    """Entities that the walk uses, ascending."""

def count_entities(walk: Walk, entities: Sequence[int], out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """
    Fill `out` [blocks, entities] with how often each entity occurs in each block's counted instructions.
    """
