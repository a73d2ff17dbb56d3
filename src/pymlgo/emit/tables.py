"""The constants that generated code reads: plain ones, buckets, packed weights, trees."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.emit.expressions import ELEMENTARY, saturates
from pymlgo.emit.literals import literal, literals
from pymlgo.emit.program import Program
from pymlgo.errors import PolicyError
from pymlgo.policy.graph import Node

LARGEST_CONSTANT_BYTES = 8 << 20
"""Constants beyond this make a source of 30 MB, on which a compiler spends minutes and gigabytes."""

TREE_NODE_BYTES = 16

OUTPUT_MULTIPLE = 8
"""Dense layers are padded with zero weights to a multiple of this many outputs: a vector register of AVX."""


@dataclass(slots=True, kw_only=True)
class Uses:
    """The kernels that a program needs."""

    bucket: bool = False
    wrap: bool = False
    saturate: bool = False
    clamped: bool = False
    elementary: bool = False
    dense: bool = False
    tree: bool = False

    def __or__(self, other: Uses) -> Uses:
        return Uses(**{name: getattr(self, name) or getattr(other, name) for name in self.__slots__})


class Tables:
    """Declarations in the order of their first use; equal tables are one."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.uses = Uses()
        self.declarations: list[str] = []
        self.constant_bytes = 0
        self._names: set[str] = set()
        self._by_content: dict[tuple[str, bytes], str] = {}

    def text(self) -> str:
        """The declarations."""
        return "\n".join(self.declarations)

    def plain(self, name: str) -> None:
        """A constant as it is, named `t_` and its name."""
        if f"t_{name}" not in self._names:
            self._declare(f"t_{name}", self.program.constants[name], self.program.types[name].type)

    def lookup(self, value: str) -> tuple[str, str, int]:
        """The levels of the search tree as arguments, the values of the buckets, and the number of boundaries."""
        self.uses.bucket = True
        lookup = self.program.lookups[value]
        depth = len(lookup.levels) - 1
        levels = [
            self._shared(f"{'pivots' + str(level) if level < depth else 'bounds'}_{value}", array, "float")
            for level, array in enumerate(lookup.levels)
        ]
        values = self._shared(f"values_{value}", lookup.values, self.program.types[value].type)
        return ", ".join(levels), values, lookup.distinct

    def dense(self, node: Node) -> tuple[str, str]:
        """Weights as rows of inputs, `[inputs][outputs]`, and the bias, both padded."""
        self.uses.dense = True
        weights = self.program.constants[node.inputs[1]].T
        bias = (
            self.program.constants[node.inputs[2]] if len(node.inputs) == 3 else np.zeros(weights.shape[1], np.float32)
        )
        padding = -weights.shape[1] % OUTPUT_MULTIPLE
        return (
            self._shared(f"w_{node.output}", np.pad(weights, ((0, 0), (0, padding))), "float"),
            self._shared(f"bias_{node.output}", np.pad(bias, (0, padding)), "float"),
        )

    def trees(self, node: Node) -> tuple[str, str, str, int]:
        """Inner nodes, leaves, roots, and how many roots there are."""
        self.uses.tree = True
        feature, threshold, left, right, leaf, roots = (self.program.constants[name] for name in node.inputs[1:])
        name = f"nodes_{node.output}"
        self._count(TREE_NODE_BYTES * len(feature))
        rows = [
            f"    {{{literal(threshold[index], 'float')}, {feature[index]}, {{{left[index]}, {right[index]}}}}},"
            for index in range(len(feature))
        ]
        self.declarations.append(f"static const TreeNode {name}[{len(feature)}] = {{\n" + "\n".join(rows) + "\n};")
        leaves = self._shared(f"leaves_{node.output}", leaf, "float")
        return name, leaves, self._shared(f"roots_{node.output}", roots, "int32_t"), len(roots)

    def uses_operator(self, op: str, source_type: str, made_type: str) -> None:
        """Note the kernels of an elementwise operator."""
        integers = source_type in ("int32_t", "int64_t")
        self.uses.wrap |= integers and op in ("ADD", "SUB", "MUL", "ABS", "NEG")
        self.uses.saturate |= op == "CAST" and made_type != "bool" and saturates(source_type, made_type)
        self.uses.elementary |= op in ELEMENTARY

    def _shared(self, name: str, array: AnyArray, type_name: str) -> str:
        key = (type_name, hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest())
        if key not in self._by_content:
            self._by_content[key] = self._declare(name, array, type_name)
        return self._by_content[key]

    def _declare(self, name: str, array: AnyArray, type_name: str) -> str:
        self._names.add(name)
        self._count(array.nbytes)
        elements = literals(array, type_name)
        self.declarations.append(f"alignas(64) static const {type_name} {name}[{array.size}] = {{\n{elements}\n}};")
        return name

    def _count(self, added: int) -> None:
        self.constant_bytes += added
        if self.constant_bytes > LARGEST_CONSTANT_BYTES:
            raise PolicyError(
                f"the policy has more than the {LARGEST_CONSTANT_BYTES} bytes of constants that can be compiled",
                hint="the interpreter and TensorFlow Lite can run it",
            )
