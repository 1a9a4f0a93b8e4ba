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
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.api.core import Pod
from kubesched.build import i64, mypyc_attr, u8
from kubesched.config.plugin_args import NodeResourcesBalancedAllocationArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import ClusterEventWithHint
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import AFFINITY, MAX_NODE_SCORE, METADATA, Plugin, Reads, ScoreColumn
from kubesched.framework.row_rules import RowRate
from kubesched.framework.status import Status
from kubesched.plugins.amount_lines import AmountLine, AmountLines, KeptLine
from kubesched.plugins.node_resources import CUT_CAPACITY, PRIMARY, is_scalar, occurring, requests_key
from kubesched.state import aspects
from kubesched.state.cells import Bytes, Doubles, Line
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import AMOUNT_MAX, Bools, Ints, NodeSet, NodeTable
from kubesched.state.pod_info import PodInfo

if TYPE_CHECKING:
    from kubesched.build import vec

Floats: TypeAlias = NDArray[np.float64]

SCORE_STATE_KEY = "PreScoreNodeResourcesBalancedAllocation"

# NumPy calculates with these in a third of the time that it takes with a Python int.
_ONE: Final[Ints] = np.array(1, dtype=np.int64)
_ONE_BYTE: Final = np.array(1, dtype=np.uint8)
_HALF: Final[Ints] = np.array(MAX_NODE_SCORE // 2, dtype=np.int64)
_WHOLE: Final[Floats] = np.array(1.0)
_BEST: Final[Floats] = np.array(float(MAX_NODE_SCORE))
_HALF_AWAY: Final[Floats] = np.array(-0.5)
#: A double holds whole numbers up to twice as much.
_EXACT_MAX: Final = 1 << 52
#: Lists of resources of which starts are kept.
_KEPT_MAX: Final = 4
#: For 256 lines.
_BYTES_PER_NODE: Final = 2 << 10


class BalancedRequest:
    """The resources that are balanced for a pod, with what it asks for (0 for a primary one it does not name)."""

    __slots__ = ("names", "resources")

    def __init__(self, resources: tuple[tuple[str, int], ...]) -> None:
        self.resources = resources
        self.names = tuple([name for name, _ in resources])

    @property
    def amounts(self) -> Floats:
        """(resources, 1)"""
        return np.array([float(min(amount, AMOUNT_MAX)) for _, amount in self.resources])[:, None]


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeResourcesBalancedAllocation(Plugin):
    name = "NodeResourcesBalancedAllocation"
    args_type = NodeResourcesBalancedAllocationArgs
    score_reads = Reads(row=aspects.ALLOCATABLE | aspects.REQUESTED)
    signs_template = True
    sign_ignores = frozenset({METADATA, AFFINITY})

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._names = [spec.name for spec in args.resources]
        self._starts: dict[tuple[str, ...], _Starts] = {}
        self._lines = AmountLines(_BYTES_PER_NODE)

    def sign(self, pod: Pod) -> Hashable:
        return requests_key(pod)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        requests = state.pod_info.requests
        if not any(requests.get(name, 0) for name in self._names):
            return Status.skip(lasting=True)
        state.write(SCORE_STATE_KEY, balanced_request(state.pod_info, self._names))
        return None

    def score_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> ScoreColumn:
        asked = state.read(SCORE_STATE_KEY, BalancedRequest)
        table = self.handle.state.nodes
        # For all nodes that there really are.
        is_whole = nodes.table is table and isinstance(nodes.index, slice)
        starts = self.starts(asked.names, table) if is_whole else None
        if starts is None:
            return _score_rows(asked, nodes)
        fractions = [
            self._lines.line(nodes.table, name, min(amount, AMOUNT_MAX), _ShareLine).fractions.array[nodes.index]
            for name, amount in asked.resources
        ]
        # Sums up to 250, a byte each.
        scores = _evenness_of_rows(fractions).astype(np.uint8)
        scores += starts.start.array[nodes.index]
        return np.right_shift(scores, _ONE_BYTE, out=scores)

    def starts(self, names: tuple[str, ...], table: NodeTable) -> _Starts | None:
        """As long as all nodes offer all of it, and doubles hold how much."""
        if not names:
            return None
        lowest, highest = table.allocatable_span(names)
        if lowest <= 0 or highest > _EXACT_MAX:
            return None
        starts = self._starts.get(names)
        if starts is None or not starts.is_of(table):
            if starts is None and len(self._starts) >= _KEPT_MAX:
                return None
            starts = self._starts[names] = _Starts(table, names)
        starts.follow()
        return starts

    def rate(self, state: CycleState, pod: Pod) -> Callable[[NodeInfo], int]:
        asked = state.read(SCORE_STATE_KEY, BalancedRequest)
        if len(asked.resources) <= 2:
            return _Rate(self, asked, self.handle.state.nodes)
        return partial(score, asked)

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
    return (_START + after - before) // 2


#: Of a score, before it is halved.
_START: Final = MAX_NODE_SCORE + MAX_NODE_SCORE // 2
#: The score where nothing can be uneven.
_EVEN: Final = _START // 2


class _Rate(RowRate):
    """For one or two resources, cpu and memory as it comes."""

    def __init__(self, plugin: NodeResourcesBalancedAllocation, asked: BalancedRequest, table: NodeTable) -> None:
        self._plugin = plugin
        self._asked = asked
        self._amounts = Line([min(amount, AMOUNT_MAX) for _, amount in asked.resources])
        self._table = table

    def __call__(self, node: NodeInfo) -> int:
        return score(self._asked, node)

    def rate_rows(self, rows: vec[i64], points: vec[i64]) -> None:
        starts = self._plugin.starts(self._asked.names, self._table) if len(self._amounts.cells) == 2 else None
        if starts is not None:
            self._rate_from(starts.start.cells, rows, points)
        else:
            self._rate_ragged(rows, points)

    def _rate_from(self, start: vec[u8], rows: vec[i64], points: vec[i64]) -> None:
        """Where all nodes offer both resources."""
        names, table = self._asked.names, self._table
        offered, used = table.allocatable.memory.cells, table.taken.memory.cells
        offered_starts, used_starts = table.allocatable.starts(names), table.taken.starts(names)
        first_offered, second_offered = offered_starts[0], offered_starts[1]
        first_used, second_used = used_starts[0], used_starts[1]
        first_amount, second_amount = self._amounts.cells[0], self._amounts.cells[1]
        for place in range(len(rows)):
            row = rows[place]
            first = _share_of(used[first_used + row] + first_amount, offered[first_offered + row])
            second = _share_of(used[second_used + row] + second_amount, offered[second_offered + row])
            points[place] = (i64(start[row]) + _evenness_of(first - second)) >> 1

    def _rate_ragged(self, rows: vec[i64], points: vec[i64]) -> None:
        asked, table = self._asked, self._table
        offered, used = table.allocatable.memory.cells, table.taken.memory.cells
        offered_starts, used_starts = table.allocatable.starts(asked.names), table.taken.starts(asked.names)
        amounts = self._amounts.cells
        count = len(amounts)
        exact_max: i64 = _EXACT_MAX
        start: i64 = _START
        even: i64 = _EVEN
        for place in range(len(rows)):
            row = rows[place]
            # The differences of two shares; with one alone, or none, nothing can be uneven.
            before = after = 0.0
            taking_part = 0
            is_huge = False
            for k in range(count):
                capacity = offered[offered_starts[k] + row]
                if capacity <= 0:
                    continue
                if capacity > exact_max:
                    is_huge = True
                    break
                now = used[used_starts[k] + row]
                then = now + amounts[k]
                taking_part += 1
                before = _share_of(now, capacity) - before
                after = _share_of(then, capacity) - after
            if is_huge:
                points[place] = score(asked, table.infos[row])
            elif taking_part == 2:
                points[place] = (start + _evenness_of(after) - _evenness_of(before)) >> 1
            else:
                points[place] = even


def _share_of(used: i64, capacity: i64) -> float:
    return 1.0 if used >= capacity else float(used) / float(capacity)


def _evenness_of(difference: float) -> i64:
    return i64((1.0 - abs(difference / 2.0)) * 100.0)


# -- kernels: the same for all rows of a set


class _Starts(KeptLine):
    """What a score starts from whoever the pod is: a score is half of that and of the evenness with the pod."""

    def __init__(self, table: NodeTable, names: tuple[str, ...]) -> None:
        super().__init__(table)
        self._names = names
        self.start = Bytes(table.capacity)

    def take_all(self) -> None:
        table, whole = self.table, slice(0, self.table.row_count)
        offered = np.maximum(table.allocatable.block(self._names, whole), 1)
        used = table.taken.block(self._names, whole)
        self.start.array[whole] = _START - _evenness_rows(np.minimum(used / offered, _WHOLE))

    def take_rows(self, rows: vec[i64]) -> None:
        table, names = self.table, self._names
        if len(names) != 2:
            for row in rows:
                if row < table.row_count:
                    self.start.cells[row] = u8(_START - _evenness(self._shares(table.infos[row])))
            return
        offered, used = table.allocatable.memory.cells, table.taken.memory.cells
        offered_starts, used_starts = table.allocatable.starts(names), table.taken.starts(names)
        first_offered, second_offered = offered_starts[0], offered_starts[1]
        first_used, second_used = used_starts[0], used_starts[1]
        start = self.start.cells
        highest: i64 = _START
        for row in rows:
            first = _share_of(used[first_used + row], offered[first_offered + row])
            second = _share_of(used[second_used + row], offered[second_offered + row])
            start[row] = u8(highest - _evenness_of(first - second))

    def _shares(self, node: NodeInfo) -> list[float]:
        return [_fraction(node.requested.get(name, 0), max(node.allocatable.get(name, 0), 1)) for name in self._names]


class _ShareLine(AmountLine):
    """The share of a resource that is used with the pod."""

    def __init__(self, table: NodeTable, resource: str, amount: int) -> None:
        super().__init__(table, resource, amount)
        self.fractions = Doubles(table.capacity)

    @property
    def size_bytes(self) -> int:
        return self.fractions.array.nbytes

    def take_all(self) -> None:
        table, whole = self.table, slice(0, self.table.row_count)
        used = table.taken.of(self.resource)[whole] + int(self.amount)
        shares = used / np.maximum(table.allocatable.of(self.resource)[whole], 1)
        np.minimum(shares, _WHOLE, out=self.fractions.array[whole])

    def take_rows(self, rows: vec[i64]) -> None:
        table, amount = self.table, self.amount
        offered, used = table.allocatable.memory.cells, table.taken.memory.cells
        offered_start: i64 = table.allocatable.start(self.resource)
        used_start: i64 = table.taken.start(self.resource)
        fractions = self.fractions.cells
        for row in rows:
            fractions[row] = _share_of(used[used_start + row] + amount, offered[offered_start + row])


def _score_rows(asked: BalancedRequest, nodes: NodeSet) -> Ints:
    table = nodes.table
    if not asked.resources:
        return np.full(len(nodes), _compare(MAX_NODE_SCORE, MAX_NODE_SCORE), dtype=np.int64)
    capacity = table.allocatable.block(asked.names, nodes.index)
    lowest, highest = table.allocatable_span(asked.names)
    used = table.taken.block(asked.names, nodes.index)
    if lowest > 0:
        scores = _compare_rows(_fractions(used, asked, capacity, highest))
    else:
        scores = _compare_ragged(_fractions(used, asked, np.maximum(capacity, 1), highest), capacity > 0)
    if highest == CUT_CAPACITY:
        infos = nodes.infos()
        for position in np.flatnonzero((capacity == CUT_CAPACITY).any(axis=0)).tolist():
            scores[position] = score(asked, infos[position])
    return scores


def _fractions(used: Ints, asked: BalancedRequest, capacity: Ints, highest: int) -> Floats:
    """(resources, 2, nodes): the used share, before and with the pod."""
    if highest > _EXACT_MAX:
        steps = np.array([[[0], [min(amount, AMOUNT_MAX)]] for _, amount in asked.resources], dtype=np.int64)
        return np.minimum((used[:, None] + steps) / capacity[:, None], 1.0)
    # Sums that a double does not hold are above any capacity, and cut to 1.
    fractions: Floats = used.astype(np.float64)[:, None] + np.stack([np.zeros_like(asked.amounts), asked.amounts], 1)
    fractions /= capacity.astype(np.float64)[:, None]
    return np.minimum(fractions, 1.0, out=fractions)


def _compare_ragged(fractions: Floats, offered: Bools) -> Ints:
    """Rows that offer the same of the resources are compared together."""
    scores = np.empty(offered.shape[1], dtype=np.int64)
    bits = np.zeros(offered.shape[1], dtype=np.int64)
    for line in offered[::-1]:
        bits = bits << 1 | line
    patterns, positions = occurring(bits)
    for position, pattern in enumerate(patterns):
        same = np.flatnonzero(positions == position)
        chosen = [k for k in range(len(offered)) if pattern >> k & 1]
        if chosen:
            scores[same] = _compare_rows(fractions[chosen][:, :, same])
        else:
            scores[same] = _compare(MAX_NODE_SCORE, MAX_NODE_SCORE)
    return scores


def _compare_rows(fractions: Floats) -> Ints:
    before, scores = _evenness_rows(fractions)
    scores -= before
    scores += _HALF
    scores >>= _ONE
    scores += _HALF
    return scores  # type: ignore[no-any-return]


def _evenness_rows(fractions: Floats | list[Floats]) -> Ints:
    """`_evenness` by node, before and with the pod where fractions are."""
    return _evenness_of_rows(fractions).astype(np.int64)


def _evenness_of_rows(fractions: Floats | list[Floats]) -> Floats:
    """The same, not yet cut to whole numbers."""
    if len(fractions) == 2:
        deviation: Floats = fractions[0] - fractions[1]
        np.abs(deviation, out=deviation)
        deviation *= _HALF_AWAY
    elif len(fractions) > 2:
        mean = _sum_lines(fractions) / len(fractions)
        deviation = np.sqrt(_sum_lines([(line - mean) ** 2 for line in fractions]) / len(fractions))
        np.negative(deviation, out=deviation)
    else:
        deviation = np.zeros_like(fractions[0])
    deviation += _WHOLE
    deviation *= _BEST
    return deviation


def _sum_lines(lines: Floats | list[Floats]) -> Floats:
    """From left to right, as `_sum`."""
    total: Floats = np.zeros_like(lines[0])
    for line in lines:
        total += line
    return total
