"""NodeResourcesBalancedAllocation: prefers nodes whose resources the pod would leave more evenly used.

Unevenness is the standard deviation of the used shares; the score compares it before and after: about 75 means that the
pod changes nothing, more that it helps. Pods without requests are not scored, or they would all run after one node. A
resource that the node does not offer, or a scalar one that the pod does not ask for, takes no part. Requests are the
effective ones, pod-level included, as the Filter of NodeResourcesFit has them. (kube-scheduler v1.36.)

The arithmetic is the original's, in the same order of operations on doubles, so that results agree to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.api.core import Pod
from kubesched.config.plugin_args import NodeResourcesBalancedAllocationArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import ClusterEventWithHint
from kubesched.framework.plugin import MAX_NODE_SCORE, Plugin, Reads
from kubesched.framework.status import Status
from kubesched.plugins.node_resources import CUT_CAPACITY, PRIMARY, is_scalar, occurring, requests_key
from kubesched.state import aspects
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import AMOUNT_MAX, Bools, Ints, NodeSet
from kubesched.state.pod_info import PodInfo

SCORE_STATE_KEY = "PreScoreNodeResourcesBalancedAllocation"

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BalancedRequest:
    """The resources that are balanced for a pod, with what it asks for (0 for a primary one it does not name)."""

    resources: tuple[tuple[str, int], ...]


class NodeResourcesBalancedAllocation(Plugin):
    name = "NodeResourcesBalancedAllocation"
    args_type = NodeResourcesBalancedAllocationArgs
    score_reads = Reads(row=aspects.ALLOCATABLE | aspects.REQUESTED)
    signs_template = True

    def sign(self, pod: Pod) -> Hashable:
        return requests_key(pod)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        requests = state.pod_info.requests
        names = [spec.name for spec in self.args.resources]
        if not any(requests.get(name, 0) for name in names):
            return Status.skip(lasting=True)
        state.write(SCORE_STATE_KEY, balanced_request(state.pod_info, names))
        return None

    def score_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Ints:
        return _score_rows(state.read(SCORE_STATE_KEY, BalancedRequest), nodes)

    def rate(self, state: CycleState, pod: Pod) -> Callable[[NodeInfo], int]:
        return partial(score, state.read(SCORE_STATE_KEY, BalancedRequest))

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return []


def balanced_request(pod: PodInfo, names: list[str]) -> BalancedRequest:
    requests = pod.requests
    return BalancedRequest(
        tuple(
            (name, requests.get(name, 0))
            for name in names
            if name in PRIMARY or (is_scalar(name) and requests.get(name, 0) > 0)
        )
    )


def score(asked: BalancedRequest, node: NodeInfo) -> int:
    """The score of one node by its exact figures, 0..100."""
    before, after = [], []
    for resource, amount in asked.resources:
        capacity = node.allocatable.get(resource, 0)
        if capacity > 0:
            used = node.requested.get(resource, 0)
            before.append(_fraction(used, capacity))
            after.append(_fraction(used + amount, capacity))
    return _compare(_evenness(after), _evenness(before))


def _fraction(used: int, capacity: int) -> float:
    if used >= capacity:
        return 1.0
    # Doubles hold any 64-bit amount; what is larger is divided as it is.
    return float(used) / float(capacity) if capacity <= AMOUNT_MAX else used / capacity


def _evenness(fractions: list[float]) -> int:
    """100 for equal shares, less the further they are apart."""
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = _sum(fractions) / len(fractions)
        deviation = math.sqrt(_sum([(fraction - mean) * (fraction - mean) for fraction in fractions]) / len(fractions))
    return int((1 - deviation) * MAX_NODE_SCORE)


def _sum(numbers: list[float]) -> float:
    """Plain addition from left to right; the built-in `sum` is more exact than the original."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def _compare(after: int, before: int) -> int:
    return MAX_NODE_SCORE // 2 + (MAX_NODE_SCORE // 2 + after - before) // 2


# -- kernels: the same for all rows of a set


def _score_rows(asked: BalancedRequest, nodes: NodeSet) -> Ints:
    before: list[Floats] = []
    after: list[Floats] = []
    #: Per resource where it is offered; None for everywhere.
    offers: list[Bools | None] = []
    ragged = False
    too_large: Bools | None = None
    for resource, amount in asked.resources:
        capacity = nodes.table.allocatable(resource)[nodes.index]
        used = nodes.table.requested(resource)[nodes.index]
        lowest, highest = nodes.table.allocatable_span(resource)
        offered = capacity > 0 if lowest <= 0 else None
        if offered is not None:
            ragged = True
            capacity = np.maximum(capacity, 1)
        if highest == CUT_CAPACITY:
            cut = capacity == CUT_CAPACITY
            too_large = cut if too_large is None else too_large | cut
        divisor = capacity.astype(np.float64)
        before.append(_fractions(used, divisor))
        after.append(_fractions(used + min(amount, AMOUNT_MAX), divisor))
        offers.append(offered)
    scores = _compare_ragged(after, before, offers) if ragged else _compare_rows(after, before)
    if too_large is not None:
        infos = nodes.infos()
        for position in np.flatnonzero(too_large).tolist():
            scores[position] = score(asked, infos[position])
    return scores


def _fractions(used: Ints, capacity: Floats) -> Floats:
    fractions = used.astype(np.float64)
    fractions /= capacity
    return np.minimum(fractions, 1.0, out=fractions)


def _compare_ragged(after: list[Floats], before: list[Floats], offers: list[Bools | None]) -> Ints:
    """Rows that offer the same of the resources are compared together."""
    scores = np.empty(len(after[0]), dtype=np.int64)
    bits = np.zeros(len(scores), dtype=np.int64)
    for k, offered in enumerate(offers):
        bits |= (1 if offered is None else offered.astype(np.int64)) << k
    patterns, positions = occurring(bits)
    for position, pattern in enumerate(patterns):
        same = np.flatnonzero(positions == position)
        chosen = [k for k in range(len(offers)) if pattern >> k & 1]
        if chosen:
            scores[same] = _compare_rows([after[k][same] for k in chosen], [before[k][same] for k in chosen])
        else:
            scores[same] = _compare(MAX_NODE_SCORE, MAX_NODE_SCORE)
    return scores


def _compare_rows(after: list[Floats], before: list[Floats]) -> Ints:
    scores = _evenness_rows(after)
    scores -= _evenness_rows(before)
    scores += MAX_NODE_SCORE // 2
    scores >>= 1
    scores += MAX_NODE_SCORE // 2
    return scores


def _evenness_rows(fractions: list[Floats]) -> Ints:
    if len(fractions) == 2:
        deviation = np.subtract(*fractions)
        deviation /= 2
        np.abs(deviation, out=deviation)
    elif len(fractions) > 2:
        mean = _sum_rows(fractions) / len(fractions)
        deviation = np.sqrt(
            _sum_rows([(fraction - mean) * (fraction - mean) for fraction in fractions]) / len(fractions)
        )
    else:
        deviation = np.zeros_like(fractions[0])
    np.subtract(1, deviation, out=deviation)
    deviation *= MAX_NODE_SCORE
    return deviation.astype(np.int64)


def _sum_rows(numbers: list[Floats]) -> Floats:
    """From left to right, as `_sum`."""
    total = np.zeros_like(numbers[0])
    for number in numbers:
        total += number
    return total
