"""SchedulingGates: a pod with `spec.schedulingGates` does not enter the active queue.

Somebody else (an admission controller, a quota manager) put the gates there and takes them away again; the pod is tried
when the last one is gone.
"""

from __future__ import annotations

from kubesched.api.core import Pod
from kubesched.build import mypyc_attr
from kubesched.framework.events import POD, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.plugin import Plugin
from kubesched.framework.status import Status


@mypyc_attr(allow_interpreted_subclasses=True)
class SchedulingGates(Plugin):
    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return Status.unresolvable(f"waiting for scheduling gates: [{names}]")

    def events_to_register(self) -> list[ClusterEventWithHint]:
        gates_gone = ClusterEvent(POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return [ClusterEventWithHint(gates_gone, after_gates_are_gone)]


def after_gates_are_gone(pod: Pod, old: Pod | None, new: Pod) -> QueueingHint:
    return QueueingHint.QUEUE if new.metadata.uid == pod.metadata.uid else QueueingHint.SKIP
