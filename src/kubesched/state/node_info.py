"""`NodeInfo`: one node with the pods on it, as exact Python objects.

The columns of the node table are the fast copy of what is summed here; scalar plugins and explanations read this
instead. A NodeInfo may exist without its Node (`node is None`): pods can be seen before the node they sit on, and stay
counted after it went.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubesched.api import quantity
from kubesched.api.core import Node, Taint
from kubesched.api.host_ports import HostPort
from kubesched.state.pod_info import PodInfo

_NO_LABELS: Mapping[str, str] = {}


class NodeInfo:
    """`requested` and `allocatable` map resource names to exact integers (cpu in milli-cores). Sums never wrap."""

    __slots__ = (
        "allocatable",
        "generation",
        "name",
        "node",
        "nonzero_cpu_milli",
        "nonzero_memory_bytes",
        "pods",
        "port_counts",
        "requested",
        "row",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        #: Row in the node table, -1 while there is no Node object.
        self.row = -1
        self.allocatable: dict[str, int] = {}
        #: By pod UID.
        self.pods: dict[str, PodInfo] = {}
        self.requested: dict[str, int] = {}
        self.nonzero_cpu_milli = 0
        self.nonzero_memory_bytes = 0
        self.port_counts: dict[HostPort, int] = {}
        #: Another number whenever the Node or a pod on it was replaced, added or removed.
        self.generation = 0

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.metadata.labels if self.node is not None else _NO_LABELS

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.node.metadata.annotations if self.node is not None else _NO_LABELS

    @property
    def taints(self) -> tuple[Taint, ...]:
        return self.node.spec.taints if self.node is not None else ()

    @property
    def unschedulable(self) -> bool:
        return self.node is not None and self.node.spec.unschedulable

    @property
    def allowed_pod_count(self) -> int:
        return self.allocatable.get("pods", 0)

    def set_node(self, node: Node) -> None:
        """QuantityError leaves the version before in place."""
        self.allocatable = {
            name: quantity.milli_value(amount) if name == "cpu" else quantity.value(amount)
            for name, amount in node.status.allocatable.items()
        }
        self.node = node
        self.generation += 1

    def add_pod(self, info: PodInfo) -> None:
        assert info.uid not in self.pods, f"{info.key} is on {self.name} already"
        self.pods[info.uid] = info
        self.generation += 1
        requested = self.requested
        for name, amount in info.placed_requests.items():
            requested[name] = requested.get(name, 0) + amount
        self.nonzero_cpu_milli += info.nonzero_cpu_milli
        self.nonzero_memory_bytes += info.nonzero_memory_bytes
        for port in info.host_ports:
            self.port_counts[port] = self.port_counts.get(port, 0) + 1

    def remove_pod(self, uid: str) -> PodInfo:
        info = self.pods.pop(uid)
        self.generation += 1
        requested = self.requested
        for name, amount in info.placed_requests.items():
            requested[name] -= amount
        self.nonzero_cpu_milli -= info.nonzero_cpu_milli
        self.nonzero_memory_bytes -= info.nonzero_memory_bytes
        for port in info.host_ports:
            left = self.port_counts[port] - 1
            if left:
                self.port_counts[port] = left
            else:
                del self.port_counts[port]
        return info

    def swap_pod(self, info: PodInfo) -> PodInfo:
        """Take a newer version of a pod that takes the same; returns the one before."""
        before = self.pods[info.uid]
        self.pods[info.uid] = info
        self.generation += 1
        return before

    def ports_in_use(self) -> Iterable[HostPort]:
        return self.port_counts

    def clone(self) -> NodeInfo:
        """A twin to try things on; pods, Node and PodInfos are shared, sums and sets are its own."""
        twin = NodeInfo(self.name)
        twin.node = self.node
        twin.allocatable = self.allocatable
        twin.pods = dict(self.pods)
        twin.requested = dict(self.requested)
        twin.nonzero_cpu_milli = self.nonzero_cpu_milli
        twin.nonzero_memory_bytes = self.nonzero_memory_bytes
        twin.port_counts = dict(self.port_counts)
        return twin

    def __repr__(self) -> str:
        return f"<NodeInfo {self.name}: {len(self.pods)} pods>"
