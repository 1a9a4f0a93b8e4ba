"""The scoring strategies of NodeResourcesFit: how good is a node by how full it would be with the pod?

    LeastAllocated            the free share of each resource
    MostAllocated             the used share
    RequestedToCapacityRatio  the used share, put through a broken line that the operator draws

Each resource scores 0..100, cut to a whole number; the node scores their weighted mean. A resource that the node does
not offer takes no part, nor does its weight; with RequestedToCapacityRatio neither does one that scores 0, and the mean
is rounded, where the others cut it. (kube-scheduler v1.36; its products wrap above 9e16, ours do not.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kubesched.api.core import Pod
from kubesched.api.pod_requests import assumed_requests
from kubesched.build import i64
from kubesched.config.plugin_args import ScoringStrategy, UtilizationShapePoint
from kubesched.framework.plugin import MAX_NODE_SCORE
from kubesched.framework.row_rules import RowRate
from kubesched.plugins.kept_columns import Floats, KeptColumns
from kubesched.plugins.node_resources import CPU, MEMORY, PRIMARY, is_scalar
from kubesched.state.cells import line_of
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import AMOUNT_MAX, NONZERO_CPU, NONZERO_MEMORY, Ints, NodeSet, NodeTable

if TYPE_CHECKING:
    from kubesched.build import vec

#: The highest score of a shape point; shapes are stretched to MAX_NODE_SCORE.
_MAX_SHAPE_SCORE = 10
#: Amounts up to this stay within 64 bits when multiplied by 100.
_PRODUCT_SAFE = (1 << 63) // 128
#: Up to so large, hundredfold amounts are whole numbers of a double, and the quotient of two of them, rounded, is never
#: cut to another whole number than the exact one: it is off by less than the next one is away.
_QUOTIENT_SAFE = (1 << 53) // 128
#: From so many rows on division of doubles is faster than that of integers.
_FLOATS_PAY = 512


# NumPy calculates with these in a third of the time that it takes with a Python int.
_ONE: Final[Ints] = np.array(1, dtype=np.int64)
_HUNDRED: Final[Ints] = np.array(MAX_NODE_SCORE, dtype=np.int64)
_NONE: Final[Floats] = np.array(0.0)
_ALL: Final[Floats] = np.array(float(MAX_NODE_SCORE))
#: Lists of resources of which columns are kept.
_KEPT_MAX: Final = 4

#: Lines in which placed pods count with what is assumed of them.
_COUNTED: Final = {CPU: NONZERO_CPU, MEMORY: NONZERO_MEMORY}


class Assumed(NamedTuple):
    resource: str
    weight: int
    amount: int


class AssumedRequest:
    """The resources that count for a pod, with what is assumed of it."""

    __slots__ = ("amounts", "has_weights", "hundredfold", "names", "resources", "taken", "weight_sum")

    def __init__(self, resources: tuple[Assumed, ...]) -> None:
        self.resources = resources
        # As lines of the table's amounts.
        self.names = tuple([each.resource for each in resources])
        self.taken = tuple([_COUNTED.get(name, name) for name in self.names])
        amounts = [min(each.amount, AMOUNT_MAX) for each in resources]
        self.amounts: Ints = np.array(amounts, dtype=np.int64)[:, None]
        self.hundredfold: Floats = np.array([float(amount * MAX_NODE_SCORE) for amount in amounts])[:, None]
        self.weight_sum = sum([each.weight for each in resources])
        self.has_weights = self.weight_sum != len(resources)

    @property
    def weights(self) -> Ints:
        return np.array([each.weight for each in self.resources], dtype=np.int64)[:, None]


class Strategy:
    def __init__(self, strategy: ScoringStrategy) -> None:
        self._resources = strategy.resources
        self._counts_free = strategy.type == "LeastAllocated"
        #: Scores by used percentage; None for the strategies without a shape.
        self._shape: tuple[int, ...] | None = None
        if strategy.type == "RequestedToCapacityRatio":
            assert strategy.requested_to_capacity_ratio is not None, "the configuration was validated"
            self._shape = shape_scores(strategy.requested_to_capacity_ratio.shape)
        self._shape_column: Ints = np.array(self._shape or (), dtype=np.int64)
        self._columns: dict[tuple[str, ...], _Columns] = {}

    def assumed(self, pod: Pod) -> AssumedRequest:
        """Container requests and overhead, never pod-level requests; a scalar resource not asked for does not count."""
        amounts = assumed_requests(pod)
        return AssumedRequest(
            tuple(
                Assumed(spec.name, spec.weight, amounts.get(spec.name, 0))
                for spec in self._resources
                if spec.name in PRIMARY or (is_scalar(spec.name) and amounts.get(spec.name, 0) > 0)
            )
        )

    def score(self, assumed: AssumedRequest, node: NodeInfo) -> int:
        """The score of one node by its exact figures, 0..100."""
        total = weights = 0
        for resource, weight, amount in assumed.resources:
            capacity = node.allocatable.get(resource, 0)
            if capacity <= 0:
                continue
            share = min(_used(resource, node) + amount, capacity)
            if self._counts_free:
                share = capacity - share
            points = share * MAX_NODE_SCORE // capacity
            if self._shape is not None:
                points = self._shape[points]
                if points == 0:
                    continue
            total += points * weight
            weights += weight
        if not weights:
            return 0
        return total // weights if self._shape is None else (2 * total + weights) // (2 * weights)

    def score_line(self, assumed: AssumedRequest, table: NodeTable, rows: vec[i64], points: vec[i64]) -> None:
        """`score` of these rows of the table."""
        offered, taken = table.allocatable.memory.cells, table.taken.memory.cells
        offered_starts = line_of([table.allocatable.start(name) for name in assumed.names])
        taken_starts = line_of([table.taken.start(name) for name in assumed.taken])
        amounts = line_of([min(each.amount, AMOUNT_MAX) for each in assumed.resources])
        own_weights = line_of([each.weight for each in assumed.resources])
        shape = line_of(list(self._shape or ()))
        has_shape, counts_free, count = self._shape is not None, self._counts_free, len(amounts)
        whole: i64 = MAX_NODE_SCORE
        safe: i64 = _PRODUCT_SAFE
        for place in range(len(rows)):
            row = rows[place]
            total: i64 = 0
            weights: i64 = 0
            is_huge = False
            for k in range(count):
                capacity = offered[offered_starts[k] + row]
                if capacity <= 0:
                    continue
                if capacity > safe:
                    is_huge = True
                    break
                share = taken[taken_starts[k] + row] + amounts[k]
                if share > capacity:
                    share = capacity
                if counts_free:
                    share = capacity - share
                percent = share * whole // capacity
                if has_shape:
                    percent = shape[percent]
                    if percent == 0:
                        continue
                total += percent * own_weights[k]
                weights += own_weights[k]
            if is_huge:
                points[place] = self.score(assumed, table.infos[row])
            elif weights == 0:
                points[place] = 0
            elif has_shape:
                points[place] = (2 * total + weights) // (2 * weights)
            elif weights == 2:  # cpu and memory as they come
                points[place] = total >> 1
            else:
                points[place] = total // weights

    def score_rows(self, assumed: AssumedRequest, nodes: NodeSet, *, of_table: NodeTable | None = None) -> Ints:
        """`score` of all nodes of the set. Columns are kept of `of_table`."""
        if not assumed.resources:
            return np.zeros(len(nodes), dtype=np.int64)
        table = nodes.table
        if table is of_table and isinstance(nodes.index, slice):
            columns = self._columns_of(assumed, table)
            if columns is not None:
                offered = columns.offered[:, nodes.index]
                return self._mean(columns.percent(assumed, nodes), offered, assumed, all_offered=True)
        capacity = table.allocatable.block(assumed.names, nodes.index)
        lowest, highest = table.allocatable_span(assumed.names)
        share = table.taken.block(assumed.taken, nodes.index) + assumed.amounts
        np.minimum(share, capacity, out=share)
        if self._counts_free:
            np.subtract(capacity, share, out=share)
        points = _percent(share, capacity if lowest > 0 else np.maximum(capacity, 1), highest)
        scores = self._mean(points, capacity, assumed, all_offered=lowest > 0)
        if highest > _PRODUCT_SAFE:
            infos = nodes.infos()
            for position in np.flatnonzero((capacity > _PRODUCT_SAFE).any(axis=0)).tolist():
                scores[position] = self.score(assumed, infos[position])
        return scores

    def _columns_of(self, assumed: AssumedRequest, table: NodeTable) -> _Columns | None:
        """As long as all nodes offer all of it, and doubles hold how much."""
        lowest, highest = table.allocatable_span(assumed.names)
        if lowest <= 0 or highest > _QUOTIENT_SAFE:
            return None
        columns = self._columns.get(assumed.names)
        if columns is None or columns.table is not table:
            if columns is None and len(self._columns) >= _KEPT_MAX:
                return None
            columns = _Columns(table, assumed.names, assumed.taken, counts_free=self._counts_free)
            self._columns[assumed.names] = columns
        columns.follow()
        return columns

    def _mean(self, points: Ints, capacity: Ints | Floats, assumed: AssumedRequest, *, all_offered: bool) -> Ints:
        """Per node; `points` are used up."""
        weights: Ints | None = None
        if self._shape is not None:
            points = np.where(capacity > 0, self._shape_column.take(points), 0)
            weights = ((points > 0) * assumed.weights).sum(axis=0)
        elif not all_offered:
            weights = ((capacity > 0) * assumed.weights).sum(axis=0)
        if assumed.has_weights:
            points *= assumed.weights
        total: Ints = points[0]
        for line in points[1:]:
            total += line
        if weights is None:
            if assumed.weight_sum == 2:  # cpu and memory as they come
                return np.right_shift(total, _ONE, out=total)
            return total // assumed.weight_sum
        # Where no weight counts, the total is 0 as well.
        weights = np.maximum(weights, 1)
        return total // weights if self._shape is None else (2 * total + weights) // (2 * weights)


class StrategyRate(RowRate):
    def __init__(self, strategy: Strategy, assumed: AssumedRequest, table: NodeTable) -> None:
        self._strategy = strategy
        self._assumed = assumed
        self._table = table

    def __call__(self, node: NodeInfo) -> int:
        return self._strategy.score(self._assumed, node)

    def rate_rows(self, rows: vec[i64], points: vec[i64]) -> None:
        self._strategy.score_line(self._assumed, self._table, rows, points)


class _Columns(KeptColumns):
    """Per resource the hundredfold of what counts before the pod comes, and what is offered, as doubles."""

    def __init__(self, table: NodeTable, names: tuple[str, ...], taken: tuple[str, ...], *, counts_free: bool) -> None:
        super().__init__(table)
        self._names = names
        self._taken = taken
        self._counts_free = counts_free
        self._shares: Floats = np.empty((0, 0))
        self.offered: Floats = np.empty((0, 0))

    def percent(self, assumed: AssumedRequest, nodes: NodeSet) -> Ints:
        """As `_percent`. What a double does not hold is far out of range, and cut to it."""
        shares, offered = self._shares[:, nodes.index], self.offered[:, nodes.index]
        points: Floats
        if self._counts_free:
            points = shares - assumed.hundredfold
            np.maximum(points, _NONE, out=points)
            points /= offered
        else:
            points = shares + assumed.hundredfold
            points /= offered
            np.minimum(points, _ALL, out=points)
        return points.astype(np.int64)

    def make(self, capacity: int) -> None:
        self._shares, self.offered = np.zeros((len(self._names), capacity)), np.ones((len(self._names), capacity))

    def take_all(self, nodes: NodeSet) -> None:
        offered = nodes.table.allocatable.block(self._names, nodes.index)
        shares = nodes.table.taken.block(self._taken, nodes.index)
        if self._counts_free:
            shares = offered - shares
        np.multiply(shares, float(MAX_NODE_SCORE), out=self._shares[:, nodes.index])
        np.maximum(offered, 1, out=self.offered[:, nodes.index])

    def take(self, row: int, node: NodeInfo) -> None:
        for line, name in enumerate(self._names):
            offered, share = node.allocatable.get(name, 0), _used(name, node)
            if self._counts_free:
                share = offered - share
            self._shares[line, row] = float(share * MAX_NODE_SCORE)
            self.offered[line, row] = float(max(offered, 1))


def _percent(share: Ints, capacity: Ints, highest: int) -> Ints:
    """How many hundredths of the capacity the share is, cut to a whole number. The share is used up."""
    if highest > _QUOTIENT_SAFE or share.size < _FLOATS_PAY:
        share *= _HUNDRED
        share //= capacity
        return share
    quotient = share.astype(np.float64)
    quotient *= float(MAX_NODE_SCORE)
    quotient /= capacity.astype(np.float64)
    return quotient.astype(np.int64)


def _used(resource: str, node: NodeInfo) -> int:
    if resource == CPU:
        return node.nonzero_cpu_milli
    if resource == MEMORY:
        return node.nonzero_memory_bytes
    return node.requested.get(resource, 0)


def shape_scores(shape: tuple[UtilizationShapePoint, ...]) -> tuple[int, ...]:
    """The score for 0..100 percent used: straight between points, flat outside them, cut towards zero."""
    stretch = MAX_NODE_SCORE // _MAX_SHAPE_SCORE
    points = [(point.utilization, point.score * stretch) for point in shape]
    return tuple(_on_line(points, percent) for percent in range(101))


def _on_line(points: list[tuple[int, int]], percent: int) -> int:
    before = points[0]
    if percent <= before[0]:
        return before[1]
    for point in points[1:]:
        if percent <= point[0]:
            run, rise = point[0] - before[0], point[1] - before[1]
            step = abs(rise) * (percent - before[0]) // run
            return before[1] + (step if rise >= 0 else -step)
        before = point
    return before[1]
