"""The scoring strategies of NodeResourcesFit: how good is a node by how full it would be with the pod?

    LeastAllocated            the free share of each resource
    MostAllocated             the used share
    RequestedToCapacityRatio  the used share, put through a broken line that the operator draws

Each resource scores 0..100, cut to a whole number; the node scores their weighted mean. A resource that the node does
not offer takes no part, nor does its weight; with RequestedToCapacityRatio neither does one that scores 0, and the mean
is rounded, where the others cut it. (kube-scheduler v1.36; its products wrap above 9e16, ours do not.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kubesched.api.core import Pod
from kubesched.api.pod_requests import NON_MISSING_REQUESTS, pod_requests
from kubesched.config.plugin_args import ScoringStrategy, UtilizationShapePoint
from kubesched.framework.plugin import MAX_NODE_SCORE
from kubesched.plugins.node_resources import CPU, MEMORY, PRIMARY, is_scalar
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import AMOUNT_MAX, Bools, Ints, NodeSet

#: The highest score of a shape point; shapes are stretched to MAX_NODE_SCORE.
_MAX_SHAPE_SCORE = 10
#: Amounts up to this stay within 64 bits when multiplied by 100.
_PRODUCT_SAFE = (1 << 63) // 128
#: Up to so large, hundredfold amounts are whole numbers of a double, and the quotient of two of them, rounded, is never
#: cut to another whole number than the exact one: it is off by less than the next one is away.
_QUOTIENT_SAFE = (1 << 53) // 128
#: From so many rows on division of doubles is faster than that of integers.
_FLOATS_PAY = 512


class Assumed(NamedTuple):
    resource: str
    weight: int
    amount: int


@dataclass(frozen=True, slots=True)
class AssumedRequest:
    """The resources that count for a pod, with what is assumed of it."""

    resources: tuple[Assumed, ...]


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

    def assumed(self, pod: Pod) -> AssumedRequest:
        """Container requests and overhead, never pod-level requests; a scalar resource not asked for does not count."""
        amounts = pod_requests(pod, skip_pod_level_resources=True, non_missing_container_requests=NON_MISSING_REQUESTS)
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

    def score_rows(self, assumed: AssumedRequest, nodes: NodeSet) -> Ints:
        """`score` of all nodes of the set."""
        total: Ints | None = None
        weights: Ints | int = 0
        too_large: Bools | None = None
        for resource, weight, amount in assumed.resources:
            capacity = nodes.table.allocatable(resource)[nodes.index]
            lowest, highest = nodes.table.allocatable_span(resource)
            share = np.minimum(_used_column(resource, nodes) + min(amount, AMOUNT_MAX), capacity)
            if self._counts_free:
                np.subtract(capacity, share, out=share)
            if highest > _PRODUCT_SAFE:
                # What follows is wrong for these rows and replaced at the end.
                large = capacity > _PRODUCT_SAFE
                too_large = large if too_large is None else too_large | large
            points = _percent(share, capacity if lowest > 0 else np.maximum(capacity, 1), highest)
            if self._shape is not None:
                points = np.where(capacity > 0, self._shape_column.take(points), 0)
                weights = weights + (points > 0) * weight
            else:
                weights = weights + (weight if lowest > 0 else (capacity > 0) * weight)
            if weight != 1:
                points *= weight
            total = points if total is None else np.add(total, points, out=total)
        scores = np.zeros(len(nodes), dtype=np.int64) if total is None else self._mean(total, weights)
        if too_large is not None:
            infos = nodes.infos()
            for position in np.flatnonzero(too_large).tolist():
                scores[position] = self.score(assumed, infos[position])
        return scores

    def _mean(self, total: Ints, weights: Ints | int) -> Ints:
        if isinstance(weights, int):
            if weights == 2:  # cpu and memory as they come
                return np.right_shift(total, 1, out=total)
            return total // weights if weights else total
        # Where no weight counts, the total is 0 as well.
        weights = np.maximum(weights, 1)
        return total // weights if self._shape is None else (2 * total + weights) // (2 * weights)


def _percent(share: Ints, capacity: Ints, highest: int) -> Ints:
    """How many hundredths of the capacity the share is, cut to a whole number."""
    if highest > _QUOTIENT_SAFE or len(share) < _FLOATS_PAY:
        return share * MAX_NODE_SCORE // capacity
    quotient = share.astype(np.float64)
    quotient *= MAX_NODE_SCORE
    quotient /= capacity.astype(np.float64)
    return quotient.astype(np.int64)


def _used(resource: str, node: NodeInfo) -> int:
    if resource == CPU:
        return node.nonzero_cpu_milli
    if resource == MEMORY:
        return node.nonzero_memory_bytes
    return node.requested.get(resource, 0)


def _used_column(resource: str, nodes: NodeSet) -> Ints:
    table = nodes.table
    if resource == CPU:
        return table.nonzero_cpu_milli[nodes.index]
    if resource == MEMORY:
        return table.nonzero_memory_bytes[nodes.index]
    return table.requested(resource)[nodes.index]


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
