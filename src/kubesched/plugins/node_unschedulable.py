"""NodeUnschedulable: a cordoned node (`spec.unschedulable`) takes no pod that does not tolerate cordoning.

Tolerating it means to tolerate the taint `node.kubernetes.io/unschedulable:NoSchedule`, which cordoning brings with it
a little later; until then this plugin stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from kubesched.api import taints
from kubesched.api.core import Node, Pod
from kubesched.build import mypyc_attr
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import NODE, POD, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.plugin import ANY_DIFFERENCE, Plugin, Reads, Verdicts
from kubesched.framework.status import Status
from kubesched.state import aspects
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NodeSet

REASON = "node(s) were unschedulable"


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeUnschedulable(Plugin):
    name = "NodeUnschedulable"
    filter_reads = Reads(row=aspects.UNSCHEDULABLE)
    signs_template = True
    sign_ignores = ANY_DIFFERENCE

    def sign(self, pod: Pod) -> Hashable:
        return pod.spec.tolerations

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        cordoned = nodes.table.unschedulable[nodes.index]
        if not cordoned.any() or _tolerates_cordoning(pod):
            return None
        return Verdicts.where(cordoned, _CORDONED)

    def judge(self, state: CycleState, pod: Pod) -> Callable[[NodeInfo], Status | None]:
        return lambda node: None if fits(pod, node) else _CORDONED

    def events_to_register(self) -> list[ClusterEventWithHint]:
        # An uncordoned node is told as UPDATE_NODE_TAINT, whether its taints changed or not.
        return [
            ClusterEventWithHint(ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT), after_node_change),
            ClusterEventWithHint(ClusterEvent(POD, ActionType.UPDATE_POD_TOLERATION), after_toleration_change),
        ]


def after_node_change(pod: Pod, old: Node | None, new: Node) -> QueueingHint:
    was_open = old is not None and not old.spec.unschedulable
    is_open = not new.spec.unschedulable
    return QueueingHint.QUEUE if is_open and not was_open else QueueingHint.SKIP


def after_toleration_change(pod: Pod, old: Pod | None, new: Pod) -> QueueingHint:
    helps = new.metadata.uid == pod.metadata.uid and _tolerates_cordoning(new)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def fits(pod: Pod, node: NodeInfo) -> bool:
    return not node.unschedulable or _tolerates_cordoning(pod)


def _tolerates_cordoning(pod: Pod) -> bool:
    return taints.tolerated(pod.spec.tolerations, taints.UNSCHEDULABLE)


_CORDONED = Status.unresolvable(REASON).of(NodeUnschedulable.name)
