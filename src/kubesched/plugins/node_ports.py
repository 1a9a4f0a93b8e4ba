"""NodePorts: no two pods of a node may want the same host port.

Ports are the same when port and protocol are, on the same address or with one of them on every address. The node table
knows who uses a port, so that a pod pays for the nodes where its ports are in use and for no others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from kubesched.api import host_ports
from kubesched.api.core import Pod
from kubesched.api.host_ports import ANY_ADDRESS, HostPort
from kubesched.build import mypyc_attr
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import NODE, POD, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.plugin import ANY_DIFFERENCE, Plugin, Reads, Verdicts
from kubesched.framework.status import Status
from kubesched.state import aspects
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NodeSet, NodeTable

REASON = "node(s) didn't have free ports for the requested pod ports"

STATE_KEY = "PreFilterNodePorts"


@dataclass(frozen=True, slots=True)
class WantedPorts:
    ports: tuple[HostPort, ...]


@mypyc_attr(allow_interpreted_subclasses=True)
class NodePorts(Plugin):
    name = "NodePorts"
    filter_reads = Reads(row=aspects.PORTS)
    signs_template = True
    sign_ignores = ANY_DIFFERENCE

    def sign(self, pod: Pod) -> Hashable:
        return host_ports.host_ports(pod)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        wanted = host_ports.host_ports(pod)
        if not wanted:
            return Status.skip(lasting=True)
        state.write(STATE_KEY, WantedPorts(wanted))
        return None

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        rows = _rows_where_taken(state.read(STATE_KEY, WantedPorts).ports, nodes.table)
        if not rows:
            return None
        rejected = nodes.positions_of(rows)
        return Verdicts.where(rejected, _TAKEN) if rejected.any() else None

    def judge(self, state: CycleState, pod: Pod) -> Callable[[NodeInfo], Status | None]:
        wanted = state.read(STATE_KEY, WantedPorts).ports
        return lambda node: _TAKEN if _any_taken(wanted, node) else None

    def details(self, state: CycleState, pod: Pod, node: NodeInfo) -> dict[str, object]:
        """The first port in the way, and the pod that holds it."""
        for wanted in host_ports.host_ports(pod):
            for other in node.pods.values():
                if any(host_ports.conflict(wanted, used) for used in host_ports.host_ports(other.pod)):
                    return {"port": f"{wanted.protocol}/{wanted.port}", "pod": other.key}
        return {}

    def events_to_register(self) -> list[ClusterEventWithHint]:
        # Taints change nothing here, but a new node is often tainted until it is ready.
        return [
            ClusterEventWithHint(ClusterEvent(POD, ActionType.DELETE), after_pod_deleted),
            ClusterEventWithHint(ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)),
        ]


def after_pod_deleted(pod: Pod, old: Pod, new: None) -> QueueingHint:
    if not old.spec.node_name and not old.status.nominated_node_name:
        return QueueingHint.SKIP
    freed = host_ports.host_ports(old)
    helps = any(host_ports.conflict(wanted, port) for wanted in host_ports.host_ports(pod) for port in freed)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def fits(pod: Pod, node: NodeInfo) -> bool:
    return not _any_taken(host_ports.host_ports(pod), node)


def _any_taken(wanted: tuple[HostPort, ...], node: NodeInfo) -> bool:
    return any(host_ports.conflict(port, used) for port in wanted for used in node.ports_in_use())


def _rows_where_taken(wanted: tuple[HostPort, ...], table: NodeTable) -> list[int]:
    rows: list[int] = []
    for port in wanted:
        users = table.port_users(port.protocol, port.port)
        if port.ip == ANY_ADDRESS:
            rows += [node.row for node in users if node.row >= 0]
        else:
            everywhere = port._replace(ip=ANY_ADDRESS)
            rows += [n.row for n in users if n.row >= 0 and (port in n.port_counts or everywhere in n.port_counts)]
    return rows


_TAKEN = Status.unschedulable(REASON).of(NodePorts.name)
