"""NodeResourcesFit: the pod's requests must fit beside those of the node's pods; scores by how full the node would be.

Filter compares the effective request (pod-level resources, sidecars, overhead) with what is left. A request beyond the
node's whole allocatable cannot be helped by preemption. A resource that the pod does not ask for is never looked at, so
an over-committed node still takes a pod without requests, as long as it has room for one more pod.

Score looks at container requests and overhead only, with 100m and 200Mi assumed of each container that names none, and
counts placed pods the same way. Strategies: LeastAllocated, MostAllocated, RequestedToCapacityRatio. Resources that the
node does not have, or that are scalar and not asked for, take no part, nor do their weights. (kube-scheduler v1.36.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api.core import Node, Pod
from kubesched.api.resource import DeviceClass
from kubesched.build import i64, mypyc_attr
from kubesched.config.names import is_extended_resource
from kubesched.config.plugin_args import NodeResourcesFitArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import NODE, POD, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import AFFINITY, METADATA, Plugin, Reads, ScoreColumn, Verdicts
from kubesched.framework.row_rules import RowJudge
from kubesched.framework.status import Code, Status
from kubesched.plugins.amount_lines import AmountLine, AmountLines
from kubesched.plugins.node_resources import CUT_CAPACITY, PRIMARY, is_scalar, occurring, requests_key
from kubesched.plugins.scoring_strategies import AssumedRequest, Strategy, StrategyRate
from kubesched.state import aspects
from kubesched.state.cells import Bytes, Line
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import AMOUNT_MAX, POD_COUNT, Bools, Ints, NodeSet, NodeTable
from kubesched.state.objects import ObjectIndex
from kubesched.state.pod_info import PodInfo

if TYPE_CHECKING:
    from kubesched.build import vec

REASON_PODS = "Too many pods"

STATE_KEY = "PreFilterNodeResourcesFit"
SCORE_STATE_KEY = "PreScoreNodeResourcesFit"

#: Up to so many nodes are told one by one why they are rejected.
_FEW: Final = 8

#: For a thousand lines.
_BYTES_PER_NODE: Final = 1 << 10

#: Class names asked for directly: deviceclass.resource.kubernetes.io/NAME.
_DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


class Asked:
    """What Filter compares: amounts above 0, and for which of them devices stand in where the node has none."""

    __slots__ = ("_delegated_lines", "_offered", "_taken", "amounts", "delegated", "resources")

    def __init__(self, resources: tuple[tuple[str, int], ...], delegated: frozenset[str] = frozenset()) -> None:
        self.resources = resources
        self.delegated = delegated
        # As lines of the table's amounts, room for one more pod first.
        names = tuple([name for name, _ in resources])
        self._offered = ("pods", *names)
        self._taken = (POD_COUNT, *names)
        self.amounts = [1, *[min(amount, AMOUNT_MAX) for _, amount in resources]]
        self._delegated_lines = [line for line, name in enumerate(self._offered) if name in delegated]

    def _least(self) -> Ints:
        return np.array(self.amounts, dtype=np.int64)[:, None]

    def short(self, nodes: NodeSet) -> Bools:
        """(1 + resources, nodes): of what the columns leave less than the pod asks for."""
        offered = self.offered(nodes)
        short: Bools = offered - nodes.table.taken.block(self._taken, nodes.index) < self._least()
        for line in self._delegated_lines:
            short[line] &= offered[line] > 0
        return short

    def short_rows(self, rows: vec[i64], least: vec[i64], table: NodeTable) -> list[int]:
        """The rows that are short of something, whatever devices there are; `least` are the amounts."""
        offered, taken = table.allocatable.memory.cells, table.taken.memory.cells
        offered_starts, taken_starts = table.allocatable.starts(self._offered), table.taken.starts(self._taken)
        count = len(least)
        short: list[int] = []
        for row in rows:
            for k in range(count):
                if offered[offered_starts[k] + row] - taken[taken_starts[k] + row] < least[k]:
                    short.append(row)
                    break
        return short

    def offered(self, nodes: NodeSet) -> Ints:
        return nodes.table.allocatable.block(self._offered, nodes.index)

    def beyond(self, offered: Ints) -> Bools:
        """What not even an empty node has; another pod fits on any that is empty enough."""
        beyond: Bools = offered < self._least()
        beyond[0] = False
        return beyond


class Insufficient(NamedTuple):
    """Why a node does not take a pod, for one resource. `unresolvable`: the node would be too small even if empty."""

    resource: str
    reason: str
    asked: int
    used: int
    capacity: int
    unresolvable: bool


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeResourcesFit(Plugin):
    name = "NodeResourcesFit"
    args_type = NodeResourcesFitArgs
    filter_reads = Reads(row=aspects.ALLOCATABLE | aspects.REQUESTED, objects=("DeviceClass",))
    score_reads = Reads(row=aspects.ALLOCATABLE | aspects.REQUESTED)
    signs_template = True
    sign_ignores = frozenset({METADATA, AFFINITY})

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._ignored = Ignored.of(args)
        self._strategy = Strategy(args.scoring_strategy)
        self._devices = handle.features.get("DRAExtendedResource", False)
        self._statuses: dict[Hashable, Status] = {}
        self._lines = AmountLines(_BYTES_PER_NODE)

    def sign(self, pod: Pod) -> Hashable:
        return requests_key(pod)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        state.write(STATE_KEY, self._asked(state.pod_info))
        return None

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        asked = state.read(STATE_KEY, Asked)
        positions = self._short(asked, nodes)
        if not len(positions):
            return None
        why = np.zeros(len(nodes), dtype=np.int32)
        if len(positions) <= _FEW:
            statuses: list[Status | None] = [None]
            self._judge_exactly(asked, nodes, positions.tolist(), why, statuses)
        else:
            why[positions], statuses = self._reasons(asked, nodes.at(positions))
        return Verdicts(why, statuses)

    def _short(self, asked: Asked, nodes: NodeSet) -> NDArray[np.intp]:
        """The positions of nodes that are short of something."""
        table = self.handle.state.nodes
        positions: NDArray[np.intp]
        if nodes.table is not table or not isinstance(nodes.index, slice) or asked.delegated:
            positions = np.logical_or.reduce(asked.short(nodes)).nonzero()[0]
            return positions
        short = self._lines.line(table, "pods", 1, _Short).short.array[nodes.index]
        for resource, amount in asked.resources:
            line = self._lines.line(table, resource, min(amount, AMOUNT_MAX), _Short)
            short = np.bitwise_or(short, line.short.array[nodes.index])
        positions = short.nonzero()[0]
        return positions

    def judge(self, state: CycleState, pod: Pod) -> Callable[[NodeInfo], Status | None]:
        return _Judge(self, state.read(STATE_KEY, Asked))

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        state.write(SCORE_STATE_KEY, self._strategy.assumed(pod))
        return None

    def score_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> ScoreColumn:
        assumed = state.read(SCORE_STATE_KEY, AssumedRequest)
        return self._strategy.score_rows(assumed, nodes, of_table=self.handle.state.nodes)

    def rate(self, state: CycleState, pod: Pod) -> Callable[[NodeInfo], int]:
        return StrategyRate(self._strategy, state.read(SCORE_STATE_KEY, AssumedRequest), self.handle.state.nodes)

    def details(self, state: CycleState, pod: Pod, node: NodeInfo) -> dict[str, object]:
        """What is short, in numbers."""
        return {
            lack.resource: {"asked": lack.asked, "used": lack.used, "capacity": lack.capacity}
            for lack in _insufficient(self._asked(state.pod_info), node)
        }

    def events_to_register(self) -> list[ClusterEventWithHint]:
        pod_shrinks = ClusterEvent(POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN)
        node_grows = ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        events = [
            ClusterEventWithHint(pod_shrinks, after_pod_change),
            ClusterEventWithHint(node_grows, self.after_node_change),
            # Taints change nothing here, but a new node is often tainted until it is ready.
            ClusterEventWithHint(ClusterEvent(NODE, ActionType.UPDATE_NODE_TAINT), self.after_taint_change),
        ]
        if self._devices:
            class_change = ClusterEvent("DeviceClass", ActionType.ADD | ActionType.UPDATE)
            events.append(ClusterEventWithHint(class_change, after_device_class_change))
        return events

    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        asked = self._asked(PodInfo(pod))
        now = _empty(new)
        if _insufficient(asked, now):
            return QueueingHint.SKIP
        if old is None or self._grew(asked, _empty(old), now):
            return QueueingHint.QUEUE
        return QueueingHint.SKIP

    def after_taint_change(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        fits_empty = not _insufficient(self._asked(PodInfo(pod)), _empty(new))
        return QueueingHint.QUEUE if fits_empty else QueueingHint.SKIP

    def _grew(self, asked: Asked, before: NodeInfo, now: NodeInfo) -> bool:
        """Whether the node offers more of something that the pod needs."""
        return now.allowed_pod_count > before.allowed_pod_count or any(
            now.allocatable.get(resource, 0) > before.allocatable.get(resource, 0)
            or (resource in asked.delegated and now.allocatable.get(resource, 0) <= 0)
            for resource, _ in asked.resources
        )

    def _asked(self, pod_info: PodInfo) -> Asked:
        resources = _asked_resources(pod_info, self._ignored)
        if not self._devices:
            return Asked(resources)
        provided = provided_by_devices(self.handle.state.objects)
        return Asked(resources, frozenset(name for name, _ in resources if name in provided))

    def status_of(self, asked: Asked, node: NodeInfo) -> Status | None:
        return None if _fits(asked, node) else self._status_of(_insufficient(asked, node))

    def _status_of(self, lacks: list[Insufficient]) -> Status | None:
        if not lacks:
            return None
        return self._status(tuple(lack.reason for lack in lacks), any(lack.unresolvable for lack in lacks))

    def _reasons(self, asked: Asked, nodes: NodeSet) -> tuple[NDArray[np.int32], list[Status | None]]:
        """Why each of these nodes is rejected, as a position in a list of statuses.

        Codes each row's reasons as bits (pods, the resources, unresolvable), then numbers the codes that occur.
        """
        short, offered = asked.short(nodes), asked.offered(nodes)
        unresolvable = (short & asked.beyond(offered)).any(axis=0)
        cut = (offered == CUT_CAPACITY).any(axis=0)
        bits: Ints = np.asarray(unresolvable, dtype=np.int64)
        for line in reversed(range(len(short))):
            np.left_shift(bits, 1, out=bits)
            np.bitwise_or(bits, short[line], out=bits)

        present, positions = occurring(bits)
        statuses: list[Status | None] = [None, *(self._status_of_bits(asked, code) for code in present)]
        why = (positions + 1).astype(np.int32)
        if cut.any():
            self._judge_exactly(asked, nodes, np.flatnonzero(cut).tolist(), why, statuses)
        return why, statuses

    def _judge_exactly(
        self,
        asked: Asked,
        nodes: NodeSet,
        positions: list[int],
        why: NDArray[np.int32],
        statuses: list[Status | None],
    ) -> None:
        """Columns that are cut reject too much, never too little."""
        for position, info in zip(positions, nodes.at(np.array(positions, dtype=np.intp)), strict=True):
            status = self._status_of(_insufficient(asked, info))
            why[position] = 0 if status is None else len(statuses)
            if status is not None:
                statuses.append(status)

    def _status_of_bits(self, asked: Asked, bits: int) -> Status:
        reasons = [REASON_PODS] if bits & 1 else []
        reasons += [_reason(name) for k, (name, _) in enumerate(asked.resources) if bits >> (k + 1) & 1]
        return self._status(tuple(reasons), bool(bits >> (len(asked.resources) + 1)))

    def _status(self, reasons: tuple[str, ...], unresolvable: bool) -> Status:
        status = self._statuses.get((reasons, unresolvable))
        if status is None:
            code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if unresolvable else Code.UNSCHEDULABLE
            status = self._statuses[reasons, unresolvable] = Status(code, *reasons, plugin=self.name)
        return status


class _Short(AmountLine):
    """Where the columns leave less of a resource than the pod asks for; of "pods", none."""

    def __init__(self, table: NodeTable, resource: str, amount: int) -> None:
        super().__init__(table, resource, amount)
        self.short = Bytes(table.capacity)

    @property
    def size_bytes(self) -> int:
        return self.short.array.nbytes

    def take_all(self) -> None:
        table, whole = self.table, slice(0, self.table.row_count)
        left = table.allocatable.of(self.resource)[whole] - table.taken.of(_taken_line(self.resource))[whole]
        np.less(left, int(self.amount), out=self.short.flags[whole])

    def take_rows(self, rows: vec[i64]) -> None:
        table, resource, amount = self.table, self.resource, self.amount
        offered, taken = table.allocatable.memory.cells, table.taken.memory.cells
        offered_start: i64 = table.allocatable.start(resource)
        taken_start: i64 = table.taken.start(_taken_line(resource))
        short = self.short.cells
        for row in rows:
            short[row] = 1 if offered[offered_start + row] - taken[taken_start + row] < amount else 0


def _taken_line(resource: str) -> str:
    return POD_COUNT if resource == "pods" else resource


class _Judge(RowJudge):
    def __init__(self, plugin: NodeResourcesFit, asked: Asked) -> None:
        self._plugin = plugin
        self._asked = asked
        self._table = plugin.handle.state.nodes
        self._least = Line(asked.amounts)

    def __call__(self, node: NodeInfo) -> Status | None:
        return self._plugin.status_of(self._asked, node)

    def doubtful(self, rows: vec[i64]) -> list[int]:
        return self._asked.short_rows(rows, self._least.cells, self._table)


def after_pod_change(pod: Pod, old: Pod, new: Pod | None) -> QueueingHint:
    """A pod went (new is None), or was scaled down."""
    if new is None:
        held_a_place = old.spec.node_name or old.status.nominated_node_name
        return QueueingHint.QUEUE if held_a_place else QueueingHint.SKIP
    if new.metadata.uid == pod.metadata.uid:
        return QueueingHint.QUEUE
    if not new.spec.node_name:
        return QueueingHint.SKIP
    before, now = PodInfo(old).placed_requests, PodInfo(new).placed_requests
    freed = any(before.get(name, 0) > now.get(name, 0) for name, _ in _asked_resources(PodInfo(pod), NOTHING_IGNORED))
    return QueueingHint.QUEUE if freed else QueueingHint.SKIP


def after_device_class_change(pod: Pod, old: DeviceClass | None, new: DeviceClass) -> QueueingHint:
    names = set(_resource_names(new))
    if old is not None:
        names -= set(_resource_names(old))
    return QueueingHint.QUEUE if names & PodInfo(pod).requests.keys() else QueueingHint.SKIP


def insufficient(pod: PodInfo, node: NodeInfo, ignored: Ignored | None = None) -> list[Insufficient]:
    """Everything that keeps the pod off the node; empty if it fits."""
    return _insufficient(Asked(_asked_resources(pod, ignored or NOTHING_IGNORED)), node)


@dataclass(frozen=True, slots=True)
class Ignored:
    """Extended resources that somebody else cares for: by full name, or by the part before the slash."""

    names: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    @classmethod
    def of(cls, args: NodeResourcesFitArgs) -> Ignored:
        return cls(frozenset(args.ignored_resources), frozenset(args.ignored_resource_groups))

    def __contains__(self, name: str) -> bool:
        if not self.names and not self.groups:
            return False
        return is_extended_resource(name) and (name in self.names or name.split("/")[0] in self.groups)


NOTHING_IGNORED = Ignored()


def _asked_resources(pod: PodInfo, ignored: Ignored) -> tuple[tuple[str, int], ...]:
    requests = pod.requests
    asked = [(name, requests[name]) for name in PRIMARY if requests.get(name, 0) > 0]
    if len(asked) < len(requests):
        asked += [
            (name, amount)
            for name, amount in requests.items()
            if amount > 0 and name not in PRIMARY and is_scalar(name) and name not in ignored
        ]
    return tuple(asked)


def _fits(asked: Asked, node: NodeInfo) -> bool:
    """Whether `_insufficient` has nothing to say."""
    allocatable, requested = node.allocatable, node.requested
    if len(node.pods) >= allocatable.get("pods", 0):
        return False
    for resource, amount in asked.resources:
        if amount > allocatable.get(resource, 0) - requested.get(resource, 0):
            return False
    return True


def _insufficient(asked: Asked, node: NodeInfo) -> list[Insufficient]:
    lacks = []
    pod_count, allowed_count = len(node.pods), node.allowed_pod_count
    if pod_count + 1 > allowed_count:
        lacks.append(Insufficient("pods", REASON_PODS, 1, pod_count, allowed_count, unresolvable=False))
    for resource, amount in asked.resources:
        capacity = node.allocatable.get(resource, 0)
        used = node.requested.get(resource, 0)
        if amount > capacity - used and not (resource in asked.delegated and capacity <= 0):
            lacks.append(Insufficient(resource, _reason(resource), amount, used, capacity, amount > capacity))
    return lacks


def _reason(resource: str) -> str:
    return f"Insufficient {resource}"


def _empty(node: Node) -> NodeInfo:
    info = NodeInfo(node.metadata.name)
    info.set_node(node)
    return info


def provided_by_devices(objects: ObjectIndex) -> set[str]:
    """The extended resources that some device class stands for."""
    return {name for device_class in objects.list("DeviceClass") for name in _resource_names(device_class)}


def _resource_names(device_class: DeviceClass) -> tuple[str, ...]:
    """The extended resources by which pods may ask for devices of the class."""
    implicit = f"{_DEVICE_CLASS_PREFIX}{device_class.metadata.name}"
    explicit = device_class.spec.extended_resource_name
    return (implicit, explicit) if explicit else (implicit,)
