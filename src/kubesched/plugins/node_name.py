"""NodeName: a pod with `spec.nodeName` fits that node alone.

A scheduler never picks up such a pod by itself; the rule matters to whoever asks the framework about one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from kubesched.api.core import Node, Pod
from kubesched.build import mypyc_attr
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import NODE, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.plugin import ANY_DIFFERENCE, Plugin, Reads, Verdicts
from kubesched.framework.status import Status
from kubesched.state import aspects
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NodeSet

REASON = "node(s) didn't match the requested node name"


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeName(Plugin):
    name = "NodeName"
    filter_reads = Reads(row=aspects.MEMBERSHIP)
    signs_template = True
    sign_ignores = ANY_DIFFERENCE

    def sign(self, pod: Pod) -> Hashable:
        return pod.spec.node_name

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        if not pod.spec.node_name:
            return None
        return Verdicts.where(nodes.rows() != nodes.table.row_of(pod.spec.node_name), _OTHER_NODE)

    def judge(self, state: CycleState, pod: Pod) -> Callable[[NodeInfo], Status | None]:
        return lambda node: None if fits(pod, node) else _OTHER_NODE

    def details(self, state: CycleState, pod: Pod, node: NodeInfo) -> dict[str, object]:
        return {"nodeName": pod.spec.node_name}

    def events_to_register(self) -> list[ClusterEventWithHint]:
        # Taints change nothing here, but a new node is often tainted until it is ready.
        return [
            ClusterEventWithHint(ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT), after_node_change)
        ]


def after_node_change(pod: Pod, old: Node | None, new: Node) -> QueueingHint:
    return QueueingHint.QUEUE if _names(pod, new.metadata.name) else QueueingHint.SKIP


def fits(pod: Pod, node: NodeInfo) -> bool:
    return _names(pod, node.name)


def _names(pod: Pod, node_name: str) -> bool:
    return not pod.spec.node_name or pod.spec.node_name == node_name


_OTHER_NODE = Status.unresolvable(REASON).of(NodeName.name)
