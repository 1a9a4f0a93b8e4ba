"""What a scheduling attempt ends with when it does not end with a node: `Diagnosis` and `FitError`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kubesched.api.core import Pod
from kubesched.api.errors import KubeschedError
from kubesched.framework.status import Code, Status

NO_NODES_MESSAGE = "no nodes available to schedule pods"


class NodeStatuses:
    """Why nodes were rejected. Nodes that PreFilter ruled out together share one `absent` status."""

    __slots__ = ("_by_node", "absent")

    def __init__(self, absent: Status | None = None) -> None:
        self._by_node: dict[str, Status] = {}
        #: The status of every node without one of its own.
        self.absent = absent

    def set(self, node_name: str, status: Status) -> None:
        self._by_node[node_name] = status

    def update(self, statuses: dict[str, Status]) -> None:
        self._by_node.update(statuses)

    def get(self, node_name: str) -> Status | None:
        return self._by_node.get(node_name, self.absent)

    def explicit(self) -> dict[str, Status]:
        return self._by_node

    def __len__(self) -> int:
        return len(self._by_node)


@dataclass(slots=True)
class Diagnosis:
    """Why no node fits: what PostFilter plugins, the queue and the message are made from."""

    node_statuses: NodeStatuses = field(default_factory=NodeStatuses)
    #: Plugins that rejected some node (or the pod itself); their events wake the pod.
    unschedulable_plugins: set[str] = field(default_factory=set)
    #: Plugins that answered Pending: a pod woken through one of them skips its backoff.
    pending_plugins: set[str] = field(default_factory=set)
    pre_filter_message: str = ""
    post_filter_message: str = ""

    def note(self, status: Status) -> None:
        """Remember the plugin behind a rejection."""
        if not status.plugin:
            return
        plugins = self.pending_plugins if status.code is Code.PENDING else self.unschedulable_plugins
        plugins.add(status.plugin)


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What to do with the pod's nomination: `nominated_node` of None keeps it, "" clears it."""

    nominated_node: str | None = None


class FitError(KubeschedError):
    """No node fits the pod. `str()` is the message of the PodScheduled condition."""

    def __init__(self, pod: Pod, node_count: int, diagnosis: Diagnosis) -> None:
        super().__init__(pod, node_count)
        self.pod = pod
        self.node_count = node_count
        self.diagnosis = diagnosis

    def __str__(self) -> str:
        return fit_message(self.node_count, self.diagnosis)


def fit_message(node_count: int, diagnosis: Diagnosis) -> str:
    """`0/5 nodes are available: 2 Insufficient cpu, 3 node(s) were unschedulable. <what PostFilter says>`.

    Reasons are counted per node and sorted as text, count first (so "10 x" comes before "2 y"), as v1.36 does.
    """
    head = f"0/{node_count} nodes are available:"
    if diagnosis.pre_filter_message:
        body = f" {diagnosis.pre_filter_message}."
    else:
        histogram: Counter[str] = Counter()
        for status in diagnosis.node_statuses.explicit().values():
            histogram.update(status.reasons)
        absent = diagnosis.node_statuses.absent
        missing = node_count - len(diagnosis.node_statuses)
        if absent is not None and missing > 0:
            for reason in absent.reasons:
                histogram[reason] += missing
        texts = sorted(f"{count} {reason}" for reason, count in histogram.items())
        body = f" {', '.join(texts)}." if texts else ""
    tail = f" {diagnosis.post_filter_message}" if diagnosis.post_filter_message else ""
    return head + body + tail
