"""LLVM's bitstream container, as far as a corpus needs it: who wrote a module, from which source, and where it ends.

Source: llvm/docs/BitCodeFormat.rst and llvm/Bitcode/LLVMBitCodes.h (LLVM 22).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from pymlgo.errors import CorpusError

MAGIC = b"BC\xc0\xde"
WRAPPER_MAGIC = b"\xde\xc0\x17\x0b"

MODULE_BLOCK, IDENTIFICATION_BLOCK = 8, 13
MODULE_TRIPLE, MODULE_SOURCE_FILENAME = 2, 16
IDENTIFICATION_STRING = 1
END_BLOCK, ENTER_SUBBLOCK, DEFINE_ABBREV, UNABBREV_RECORD = 0, 1, 2, 3
CHAR6 = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"

MOST_OPERANDS = 1 << 20
"""A record with more is taken for damage; the longest that is read here is a path."""


class BitcodeError(CorpusError):
    """The bytes are not LLVM bitcode, or damaged."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of the top level: `body_bit` is where its content begins, `end` the byte after it."""

    id: int
    abbreviation_width: int
    body_bit: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleInfo:
    """What a module says about itself; None where it says nothing."""

    producer: str | None
    triple: str | None
    source_filename: str | None


def is_bitcode(data: bytes) -> bool:
    """True if `data` starts as bitcode does, plain or in Apple's wrapper."""
    return data[:4] in (MAGIC, WRAPPER_MAGIC)


def unwrap(data: bytes) -> bytes:
    """The bitcode inside Apple's wrapper; plain bitcode as it is."""
    if data[:4] != WRAPPER_MAGIC:
        return data
    offset, size = (int.from_bytes(data[place : place + 4], "little") for place in (8, 12))
    if offset < 20 or offset + size > len(data):
        raise BitcodeError(f"damaged bitcode wrapper: {size} bytes at {offset} of {len(data)}")
    return data[offset : offset + size]


def split_modules(data: bytes) -> list[bytes]:
    """The modules that a linker laid one after the other in a bitcode section (`ld -r` does).

    Raises:
        BitcodeError: it is not whole modules from the first byte to the last.
    """
    starts = []
    position = 0
    while position < len(data):
        if data[position : position + 4] == MAGIC:
            starts.append(position)
            position += 4
        elif starts:
            position = _block_at(data, position).end
        else:
            raise BitcodeError(f"expected LLVM bitcode, found bytes {data[:4].hex(' ')}")
    return [data[start:stop] for start, stop in itertools.pairwise([*starts, len(data)])]


def _top_level_blocks(data: bytes) -> Iterator[Block]:
    """The blocks of the first module and what belongs to it (string and symbol tables)."""
    if data[:4] != MAGIC:
        raise BitcodeError(f"expected LLVM bitcode, found bytes {data[:4].hex(' ')}")
    position = 4
    while position < len(data) and data[position : position + 4] != MAGIC:
        block = _block_at(data, position)
        yield block
        position = block.end


def _block_at(data: bytes, position: int) -> Block:
    block = _enter(_Bits(data, position * 8), 2)
    if block.end > len(data):
        raise BitcodeError(f"damaged bitcode: a block ends at byte {block.end} of {len(data)}")
    return block


def producer_of(data: bytes) -> str | None:
    """The producer that the identification block names, such as `LLVM22.1.8`; None if there is none.

    Raises:
        BitcodeError: the bytes are damaged.
    """
    if data[:4] == WRAPPER_MAGIC:
        data = data[int.from_bytes(data[8:12], "little") :][: 12 + 4 * 64]
    # Modules of one producer begin with the same block, so its bytes are worth remembering.
    words = int.from_bytes(data[8:12], "little")
    return _producer_of_start(bytes(data[: 12 + 4 * min(words, 64)]))


@functools.lru_cache(maxsize=256)
def _producer_of_start(start: bytes) -> str | None:
    if start[:4] != MAGIC:
        raise BitcodeError(f"expected LLVM bitcode, found bytes {start[:4].hex(' ')}")
    block = _enter(_Bits(start, 32), 2)
    if block.id != IDENTIFICATION_BLOCK:
        return None
    for code, operands in _records(start, block):
        if code == IDENTIFICATION_STRING:
            return _text(operands)
    return None


def module_info(data: bytes) -> ModuleInfo:
    """Producer, target triple and source file name of the first module in `data`.

    Raises:
        BitcodeError: the bytes are damaged.
    """
    data = unwrap(data)
    producer, found = producer_of(data), {}
    module = next((block for block in _top_level_blocks(data) if block.id == MODULE_BLOCK), None)
    if module is None:
        raise BitcodeError("the bitcode has no module")
    for code, operands in _records(data, module):
        if code in (MODULE_TRIPLE, MODULE_SOURCE_FILENAME):
            found[code] = _text(operands)
            if len(found) == 2:
                break
    return ModuleInfo(
        producer=producer, triple=found.get(MODULE_TRIPLE), source_filename=found.get(MODULE_SOURCE_FILENAME)
    )


def _text(operands: list[int]) -> str:
    return bytes(each & 0xFF for each in operands).decode("utf-8", "surrogateescape")


class _Bits:
    """A cursor over bits, least significant first."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position

    def fixed(self, width: int) -> int:
        start, bit = divmod(self.position, 8)
        self.position += width
        stop = (self.position + 7) // 8
        if stop > len(self.data):
            raise BitcodeError(f"damaged bitcode: it ends inside a record, at byte {len(self.data)}")
        return int.from_bytes(self.data[start:stop], "little") >> bit & ((1 << width) - 1)

    def variable(self, width: int) -> int:
        high = 1 << (width - 1)
        value = shift = 0
        while True:
            piece = self.fixed(width)
            value |= (piece & (high - 1)) << shift
            if not piece & high:
                return value
            shift += width - 1
            if shift > 64:
                raise BitcodeError("damaged bitcode: a number of more than 64 bits")

    def align(self) -> None:
        self.position = (self.position + 31) // 32 * 32


def _enter(bits: _Bits, width: int) -> Block:
    if bits.fixed(width) != ENTER_SUBBLOCK:
        raise BitcodeError(f"damaged bitcode: no block at byte {bits.position // 8}")
    return _block_header(bits)


def _block_header(bits: _Bits) -> Block:
    number, inner_width = bits.variable(8), bits.variable(4)
    bits.align()
    words = bits.fixed(32)
    if not 2 <= inner_width <= 32:
        raise BitcodeError(f"damaged bitcode: abbreviations of {inner_width} bits")
    return Block(number, inner_width, bits.position, bits.position // 8 + 4 * words)


_Operand = tuple[str, int]
"""An operand of an abbreviation: "literal", "fixed", "vbr", "array", "char6" or "blob", and its value or width."""


def _records(data: bytes, block: Block) -> Iterator[tuple[int, list[int]]]:
    """The records of a block, its inner blocks left out."""
    bits = _Bits(data, block.body_bit)
    abbreviations: list[list[_Operand]] = []
    while bits.position // 8 < block.end:
        code = bits.fixed(block.abbreviation_width)
        if code == END_BLOCK:
            return
        if code == ENTER_SUBBLOCK:
            # BLOCKINFO may define abbreviations for other blocks; LLVM's writer defines none for those read here.
            bits.position = _block_header(bits).end * 8
        elif code == DEFINE_ABBREV:
            abbreviations.append(_abbreviation(bits))
        elif code == UNABBREV_RECORD:
            record = bits.variable(6)
            count = _bounded(bits.variable(6))
            yield record, [bits.variable(6) for _ in range(count)]
        elif code - 4 < len(abbreviations):
            values = _abbreviated(bits, abbreviations[code - 4])
            yield values[0], values[1:]
        else:
            raise BitcodeError(f"damaged bitcode: abbreviation {code} is not defined")


def _abbreviation(bits: _Bits) -> list[_Operand]:
    operands: list[_Operand] = []
    for _ in range(_bounded(bits.variable(5))):
        if bits.fixed(1):
            operands.append(("literal", bits.variable(8)))
            continue
        encoding = bits.fixed(3)
        if encoding in (1, 2):
            width = bits.variable(5)
            if width > 64 or (encoding == 2 and width == 1):
                raise BitcodeError(f"damaged bitcode: operands of {width} bits")
            operands.append(("fixed" if encoding == 1 else "vbr", width) if width else ("literal", 0))
        elif encoding in (3, 4, 5):
            operands.append((("array", "char6", "blob")[encoding - 3], 0))
        else:
            raise BitcodeError(f"damaged bitcode: operand encoding {encoding}")
    if not operands or operands[0][0] in ("array", "blob"):
        raise BitcodeError("damaged bitcode: an abbreviation without a record code")
    return operands


def _abbreviated(bits: _Bits, operands: list[_Operand]) -> list[int]:
    values: list[int] = []
    rest = iter(operands)
    for operand in rest:
        kind = operand[0]
        if kind == "array":
            element = next(rest, None)
            if element is None or element[0] in ("array", "blob"):
                raise BitcodeError("damaged bitcode: an array without an element type")
            values.extend(_scalar(bits, element) for _ in range(_bounded(bits.variable(6))))
        elif kind == "blob":
            size = bits.variable(6)
            bits.align()
            bits.position += 8 * size
            bits.align()
        else:
            values.append(_scalar(bits, operand))
    return values


def _scalar(bits: _Bits, operand: _Operand) -> int:
    kind, value = operand
    match kind:
        case "literal":
            return value
        case "fixed":
            return bits.fixed(value)
        case "vbr":
            return bits.variable(value)
        case _:
            return ord(CHAR6[bits.fixed(6)])


def _bounded(count: int) -> int:
    if count > MOST_OPERANDS:
        raise BitcodeError(f"damaged bitcode: {count} operands")
    return count
