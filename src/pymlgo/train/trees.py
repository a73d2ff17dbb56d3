"""Strongly regularised, gradient-boosted regression trees in numpy."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymlgo.arrays import Float64Array, Int64Array
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import InliningRule, inlining_policy
from pymlgo.policy.trees import Trees
from pymlgo.tensor_spec import TensorSpec

BINS = 64
"""Most values that one feature's splits tell apart; they are its quantiles where it has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLearner:
    """Fits trees to squared errors, each on a part of rows and features; several bags are averaged.

    Attributes:
        bags: ensembles with seeds of their own.
        trees: in one bag.
        leaves: of one tree.
        rate: part of its residual that a tree takes away.
        leaf_share: part of the rows that a leaf needs at least.
        most_in_leaf, least_in_leaf: bounds on that, in rows.
        l2: added to the rows of a leaf, which draws small leaves to 0.
        row_share, feature_share: what each tree sees.

    Source: Friedman 2001, grown leaf by leaf over histograms as LightGBM does; its settings are those of our study.
    """

    name: str = "trees"
    bags: int = 2
    trees: int = 60
    leaves: int = 15
    rate: float = 0.1
    leaf_share: float = 0.005
    least_in_leaf: int = 20
    most_in_leaf: int = 300
    l2: float = 30.0
    row_share: float = 0.7
    feature_share: float = 0.6

    @property
    def for_selection(self) -> TreeLearner:
        """A third of the work; good enough to compare features and margins."""
        return dataclasses.replace(self, bags=1, trees=max(1, self.trees * 2 // 3))

    def fit(self, features: Float64Array, target: Float64Array, generator: np.random.Generator) -> TreeModel:
        """A model of features f64[n, f] → target f64[n]."""
        table = _Binned(features)
        base = float(target.mean()) if len(target) else 0.0
        structures: list[_Node] = []
        for _ in range(self.bags):
            predicted = np.full(len(target), base)
            for _ in range(self.trees):
                tree = self._grow(table, target - predicted, generator)
                predicted += table.predict(tree)
                structures.append(tree)
        return TreeModel(structures=tuple(structures), bags=self.bags, base=base)

    def _grow(self, table: _Binned, residual: Float64Array, generator: np.random.Generator) -> _Node:
        """One tree: always the leaf with the largest gain is split next."""
        rows = np.flatnonzero(generator.random(len(residual)) < self.row_share)
        count = max(1, round(self.feature_share * table.features))
        columns = np.sort(generator.permutation(table.features)[:count])
        sample = _Sample(table, rows, columns, residual)
        least = max(self.least_in_leaf, min(self.most_in_leaf, int(self.leaf_share * len(residual))))
        root = _Leaf(np.arange(len(rows)), sample)
        waiting: list[tuple[float, int, _Leaf, tuple[int, int]]] = []

        def offer(leaf: _Leaf, number: int) -> None:
            gain, place = leaf.best_split(least, self.l2)
            if gain > 0:
                heapq.heappush(waiting, (-gain, number, leaf, place))  # the number decides between equal gains

        offer(root, 0)
        leaves = 1
        while waiting and leaves < self.leaves:
            _, _, leaf, (column, bin_number) = heapq.heappop(waiting)
            left, right = leaf.split(column, bin_number)
            offer(left, 2 * leaves)
            offer(right, 2 * leaves + 1)
            leaves += 1
        return root.structure(table, self.rate, self.l2)


_Node = dict[str, Any]
"""A tree as `Trees.from_nested` takes it."""


class _Binned:
    """Features as numbers of bins, i32[n, f]."""

    def __init__(self, features: Float64Array) -> None:
        self.features = features.shape[1]
        # As the policy will see them.
        values = features.astype(np.float32).astype(np.float64)
        self.edges = [_edges(column) for column in values.T]
        self.bins = np.empty(values.shape, np.int32)
        for number, edges in enumerate(self.edges):
            self.bins[:, number] = np.searchsorted(edges, values[:, number])

    def predict(self, tree: _Node) -> Float64Array:
        """What the tree says about every row."""
        made = np.empty(len(self.bins))
        waiting: list[tuple[_Node, Int64Array]] = [(tree, np.arange(len(self.bins)))]
        while waiting:
            node, rows = waiting.pop()
            if "leaf_value" in node:
                made[rows] = node["leaf_value"]
                continue
            left = self.bins[rows, node["split_feature"]] <= node["bin"]
            waiting += [(node["left_child"], rows[left]), (node["right_child"], rows[~left])]
        return made


def _edges(column: Float64Array) -> Float64Array:
    """Ascending thresholds; bin i holds what is above edge i - 1 and at most edge i."""
    distinct = np.unique(column)
    if len(distinct) > BINS:
        distinct = np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1)[1:], method="lower"))
    return distinct[:-1]


class _Sample:
    """The rows and columns that one tree sees."""

    def __init__(self, table: _Binned, rows: Int64Array, columns: Int64Array, residual: Float64Array) -> None:
        self.columns = columns
        self.residual = residual[rows]
        # A bin's number that no other column has: one count over all columns at once.
        self.codes = table.bins[np.ix_(rows, columns)] + np.arange(len(columns), dtype=np.int32) * np.int32(BINS)

    def histogram(self, rows: Int64Array) -> Float64Array:
        """Rows and sum of residuals in each bin: f64[2, columns, BINS]."""
        codes = self.codes[rows].reshape(-1)
        width = len(self.columns)
        counts = np.bincount(codes, minlength=width * BINS)
        sums = np.bincount(codes, np.repeat(self.residual[rows], width), minlength=width * BINS)
        return np.stack([counts.astype(np.float64), sums]).reshape(2, width, BINS)


class _Leaf:
    """A leaf that may still be split; `rows` are numbers of the sample's rows."""

    def __init__(self, rows: Int64Array, sample: _Sample, histogram: Float64Array | None = None) -> None:
        self.rows = rows
        self.total = float(sample.residual[rows].sum())
        self.children: tuple[int, int, _Leaf, _Leaf] | None = None
        self._sample = sample
        self._histogram = sample.histogram(rows) if histogram is None else histogram

    def best_split(self, least: int, l2: float) -> tuple[float, tuple[int, int]]:
        """The gain of the best split and its column and bin; a gain of 0 if there is none."""
        count, total = len(self.rows), self.total
        left_count, left_sum = np.cumsum(self._histogram, axis=2)
        right_count, right_sum = count - left_count, total - left_sum
        gain = left_sum**2 / (left_count + l2) + right_sum**2 / (right_count + l2) - total**2 / (count + l2)
        gain[(left_count < least) | (right_count < least)] = 0.0
        place = int(np.argmax(gain))
        return float(gain.flat[place]), divmod(place, BINS)

    def split(self, column: int, bin_number: int) -> tuple[_Leaf, _Leaf]:
        """The two parts; the larger one's histogram is what the smaller one's leaves."""
        goes_left = self._sample.codes[self.rows, column] <= column * BINS + bin_number
        left_rows, right_rows = self.rows[goes_left], self.rows[~goes_left]
        if len(left_rows) <= len(right_rows):
            left = _Leaf(left_rows, self._sample)
            right = _Leaf(right_rows, self._sample, self._histogram - left._histogram)
        else:
            right = _Leaf(right_rows, self._sample)
            left = _Leaf(left_rows, self._sample, self._histogram - right._histogram)
        self.children = column, bin_number, left, right
        return left, right

    def structure(self, table: _Binned, rate: float, l2: float) -> _Node:
        """This leaf and everything below it."""
        if self.children is None:
            return {"leaf_value": rate * self.total / (len(self.rows) + l2)}
        column, bin_number, left, right = self.children
        feature = int(self._sample.columns[column])
        return {
            "split_feature": feature,
            "bin": bin_number,
            "decision_type": "<=",
            "threshold": float(table.edges[feature][bin_number]),
            "left_child": left.structure(table, rate, l2),
            "right_child": right.structure(table, rate, l2),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TreeModel:
    """Boosted trees; bags are averaged."""

    structures: tuple[_Node, ...]
    bags: int
    base: float

    def scores(self, features: Float64Array) -> Float64Array:
        """Bytes that inlining saves, f64[n] for features f64[n, f]."""
        values = features.astype(np.float32)
        total = np.zeros(len(values))
        for tree in self.structures:
            waiting: list[tuple[_Node, Int64Array]] = [(tree, np.arange(len(values)))]
            while waiting:
                node, rows = waiting.pop()
                if "leaf_value" in node:
                    total[rows] += node["leaf_value"]
                    continue
                left = values[rows, node["split_feature"]] <= node["threshold"]
                waiting += [(node["left_child"], rows[left]), (node["right_child"], rows[~left])]
        return self.base + total / self.bags

    def policy(self, features: Sequence[TensorSpec], rule: InliningRule, provenance: Mapping[str, object]) -> Policy:
        """The same trees as a graph (leaves and their sum in float32)."""
        trees = Trees.from_nested(self.structures, base=self.base, scale=1.0 / self.bags)
        return inlining_policy(features, trees, rule=rule, provenance=provenance)
