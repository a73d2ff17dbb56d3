"""Tree ensembles as tables: how they are made, joined, and turned into the graph's other operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymlgo.arrays import Float32Array, Float64Array, Int32Array
from pymlgo.errors import PolicyError
from pymlgo.policy.builder import GraphBuilder, Value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trees:
    """A sum of decision trees in the tables that `rules.tree_ensemble` defines."""

    feature: Int32Array
    threshold: Float32Array
    left: Int32Array
    right: Int32Array
    leaf: Float32Array
    roots: Int32Array
    base: float = 0.0

    @property
    def node_count(self) -> int:
        """Inner nodes of all trees."""
        return len(self.feature)

    def apply(self, make: GraphBuilder, rows: Value) -> Value:
        """The sum for rows f32[…, F] as f32[…, 1]."""
        if not self.node_count:  # nothing was worth a split: every tree is a leaf
            total = np.float32(self.base + self.leaf[~self.roots].sum())
            return make.constant(np.full((*rows.type.shape[:-1], 1), total, np.float32))
        tables = (self.feature, self.threshold, self.left, self.right, self.leaf, self.roots)
        constants = [make.constant(table) for table in tables]
        return make.apply("TreeEnsemble", rows, *constants, base=float(np.float32(self.base)))

    @classmethod
    def from_nested(cls, trees: Sequence[Mapping[str, Any]], *, base: float = 0.0, scale: float = 1.0) -> Trees:
        """From nested mappings, as LightGBM's `dump_model()["tree_info"][i]["tree_structure"]` has them.

        An inner node has `split_feature`, `threshold`, `left_child`, `right_child` (and `decision_type`, which must be
        `<=`); a leaf has `leaf_value`. Thresholds are rounded down to float32, so every float32 feature goes the way
        it goes at the double; leaves are multiplied by `scale` (1 / the number of bags averages bags).

        Raises:
            PolicyError: a node is neither, or splits otherwise.
        """
        tables = _Tables()
        roots = [tables.add(tree) for tree in trees]
        return cls(
            feature=np.asarray(tables.feature, np.int32),
            threshold=rounded_down(np.asarray(tables.threshold, np.float64)),
            left=np.asarray(tables.left, np.int32),
            right=np.asarray(tables.right, np.int32),
            leaf=(np.asarray(tables.leaf, np.float64) * scale).astype(np.float32),
            roots=np.asarray(roots, np.int32),
            base=base,
        )


def rounded_down(thresholds: Float64Array) -> Float32Array:
    """The largest float32 at most each threshold: for float32 x, `x <= threshold` is the same before and after."""
    made = thresholds.astype(np.float32)
    above = made.astype(np.float64) > thresholds
    return np.where(above, np.nextafter(made, np.float32(-np.inf)), made).astype(np.float32)


class _Tables:
    """Tables that grow node by node, parents first."""

    def __init__(self) -> None:
        self.feature: list[int] = []
        self.threshold: list[float] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.leaf: list[float] = []

    def add(self, tree: Mapping[str, Any]) -> int:
        """Add a tree; its root as the tables name it. The walk is no recursion, so depth does not matter."""
        root: list[int] = [0]
        waiting: list[tuple[Mapping[str, Any], list[int], int]] = [(tree, root, 0)]
        while waiting:
            node, slots, slot = waiting.pop()
            if "leaf_value" in node:
                slots[slot] = ~len(self.leaf)
                self.leaf.append(float(node["leaf_value"]))
                continue
            slots[slot] = self._add_inner(node)
            waiting.append((node["right_child"], self.right, slots[slot]))
            waiting.append((node["left_child"], self.left, slots[slot]))
        return root[0]

    def _add_inner(self, node: Mapping[str, Any]) -> int:
        for key in ("split_feature", "threshold", "left_child", "right_child"):
            if key not in node:
                raise PolicyError(f"a tree's node has neither 'leaf_value' nor {key!r}")
        if node.get("decision_type", "<=") != "<=":
            raise PolicyError(
                f"a tree splits by {node['decision_type']!r}, only '<=' is supported",
                hint="train without categorical features",
            )
        self.feature.append(int(node["split_feature"]))
        self.threshold.append(float(node["threshold"]))
        self.left.append(0)
        self.right.append(0)
        return len(self.feature) - 1
