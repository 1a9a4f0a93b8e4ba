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
from kubesched.build import i64, u8
from kubesched.config.plugin_args import ScoringStrategy, UtilizationShapePoint
from kubesched.framework.plugin import MAX_NODE_SCORE, ScoreColumn
from kubesched.framework.row_rules import RowRate
from kubesched.plugins.amount_lines import AmountLine, AmountLines
from kubesched.plugins.node_resources import CPU, MEMORY, PRIMARY, is_scalar
from kubesched.state.cells import Bytes, Line
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
_ONE_BYTE: Final = np.array(1, dtype=np.uint8)
_HUNDRED: Final[Ints] = np.array(MAX_NODE_SCORE, dtype=np.int64)
#: For a thousand lines.
_BYTES_PER_NODE: Final = 1 << 10

#: Lines in which placed pods count with what is assumed of them.
_COUNTED: Final = {CPU: NONZERO_CPU, MEMORY: NONZERO_MEMORY}


class Assumed(NamedTuple):
    resource: str
    weight: int
    amount: int


class AssumedRequest:
    """The resources that count for a pod, with what is assumed of it."""

    __slots__ = ("has_weights", "names", "resources", "taken", "weight_sum")

    def __init__(self, resources: tuple[Assumed, ...]) -> None:
        self.resources = resources
        # As lines of the table's amounts.
        self.names = tuple([each.resource for each in resources])
        self.taken = tuple([_COUNTED.get(name, name) for name in self.names])
        self.weight_sum = sum([each.weight for each in resources])
        self.has_weights = self.weight_sum != len(resources)

    @property
    def amounts(self) -> Ints:
        """(resources, 1)"""
        return np.array([min(each.amount, AMOUNT_MAX) for each in self.resources], dtype=np.int64)[:, None]

    @property
    def weights(self) -> Ints:
        return np.array([each.weight for each in self.resources], dtype=np.int64)[:, None]


class AssumedLine:
    """What is assumed of a pod, with its numbers as loops take them."""

    __slots__ = ("amounts", "assumed", "weights")

    def __init__(self, assumed: AssumedRequest) -> None:
        self.assumed = assumed
        self.amounts = Line([min(each.amount, AMOUNT_MAX) for each in assumed.resources])
        self.weights = Line([each.weight for each in assumed.resources])


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
        self._shape_line = Line(list(self._shape or ()))
        self._lines = AmountLines(_BYTES_PER_NODE)

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

    def score_line(self, line: AssumedLine, table: NodeTable, rows: vec[i64], points: vec[i64]) -> None:
        """`score` of these rows of the table."""
        assumed, amounts, own_weights = line.assumed, line.amounts.cells, line.weights.cells
        offered, taken = table.allocatable.memory.cells, table.taken.memory.cells
        offered_starts, taken_starts = table.allocatable.starts(assumed.names), table.taken.starts(assumed.taken)
        has_shape, counts_free, count = self._shape is not None, self._counts_free, len(amounts)
        shape = self._shape_line.cells
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

    def score_rows(self, assumed: AssumedRequest, nodes: NodeSet, *, of_table: NodeTable | None = None) -> ScoreColumn:
        """`score` of all nodes of the set. Lines are kept of `of_table`."""
        if not assumed.resources:
            return np.zeros(len(nodes), dtype=np.int64)
        table = nodes.table
        lowest, highest = table.allocatable_span(assumed.names)
        is_plain = self._shape is None and lowest > 0 and highest <= _PRODUCT_SAFE
        if is_plain and table is of_table and isinstance(nodes.index, slice):
            return self._mean_of_lines(assumed, table, nodes.index)
        capacity = table.allocatable.block(assumed.names, nodes.index)
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

    def _mean_of_lines(self, assumed: AssumedRequest, table: NodeTable, index: slice) -> ScoreColumn:
        """Where all nodes offer all of it."""
        make = _FreePercent if self._counts_free else _UsedPercent
        lines = [
            self._lines.line(table, name, min(amount, AMOUNT_MAX), make).percent.array[index]
            for name, _, amount in assumed.resources
        ]
        if assumed.weight_sum == 2 and not assumed.has_weights:  # cpu and memory as they come
            total = np.add(lines[0], lines[1])
            return np.right_shift(total, _ONE_BYTE, out=total)
        points = np.array(lines, dtype=np.int64) * assumed.weights
        mean: Ints = points.sum(axis=0) // assumed.weight_sum
        return mean

    def _mean(self, points: Ints, capacity: Ints, assumed: AssumedRequest, *, all_offered: bool) -> Ints:
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
        self._line = AssumedLine(assumed)
        self._table = table

    def __call__(self, node: NodeInfo) -> int:
        return self._strategy.score(self._assumed, node)

    def rate_rows(self, rows: vec[i64], points: vec[i64]) -> None:
        self._strategy.score_line(self._line, self._table, rows, points)


class _UsedPercent(AmountLine):
    """How many hundredths of a resource are used with the pod, cut to a whole number."""

    counts_free = False

    def __init__(self, table: NodeTable, resource: str, amount: int) -> None:
        super().__init__(table, resource, amount)
        self.percent = Bytes(table.capacity)

    @property
    def size_bytes(self) -> int:
        return self.percent.array.nbytes

    def take_all(self) -> None:
        table, whole = self.table, slice(0, self.table.row_count)
        capacity = np.maximum(table.allocatable.of(self.resource)[whole], 1)
        share = table.taken.of(_COUNTED.get(self.resource, self.resource))[whole] + int(self.amount)
        np.minimum(share, capacity, out=share)
        if self.counts_free:
            np.subtract(capacity, share, out=share)
        highest = table.allocatable_span((self.resource,))[1]
        self.percent.array[whole] = _percent(share, capacity, highest)

    def take_rows(self, rows: vec[i64]) -> None:
        table, resource, amount = self.table, self.resource, self.amount
        offered, taken = table.allocatable.memory.cells, table.taken.memory.cells
        offered_start: i64 = table.allocatable.start(resource)
        taken_start: i64 = table.taken.start(_COUNTED.get(resource, resource))
        percent, counts_free = self.percent.cells, self.counts_free
        whole: i64 = MAX_NODE_SCORE
        for row in rows:
            capacity = offered[offered_start + row]
            if capacity < 1:
                capacity = 1
            share = taken[taken_start + row] + amount
            if share > capacity:
                share = capacity
            if counts_free:
                share = capacity - share
            percent[row] = u8(share * whole // capacity)


class _FreePercent(_UsedPercent):
    """The same of what is left."""

    counts_free = True


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
