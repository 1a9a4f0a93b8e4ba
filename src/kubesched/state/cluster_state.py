"""`ClusterState`: everything the scheduler knows of the cluster, and the only writer of it.

                      confirm (watch shows it on that node)
    (unknown) ─assume─► ASSUMED ───────────────────────────► PLACED ─remove─► (unknown)
        │                  │ forget (binding failed)           ▲
        │                  └────────► (unknown)                │
        └───────────────────────add (watch)────────────────────┘

An assumed pod counts on its node from the moment the scheduler decides, and never expires: it is confirmed or removed
by the watch, or forgotten when its binding fails. The watch is always right: a pod assumed on one node and seen on
another moves. Methods are called between scheduling cycles, `assume` at the end of one.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kubesched.api.core import Node, Pod
from kubesched.state import aspects
from kubesched.state.assumed_volumes import AssumedVolumes
from kubesched.state.claim_users import ClaimUsers
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_order import zones_in_turn
from kubesched.state.node_table import NodeTable
from kubesched.state.nominator import Nominator
from kubesched.state.objects import ObjectIndex
from kubesched.state.pod_info import PodInfo


class Placement(msgspec.Struct):
    """Where a pod is counted."""

    pod: PodInfo
    node_name: str
    assumed: bool

    @property
    def placed_pod(self) -> Pod:
        """The pod as it is on its node: an assumed one does not carry the node's name yet."""
        pod = self.pod.pod
        if pod.spec.node_name:
            return pod
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=self.node_name))


class ClusterState:
    def __init__(self) -> None:
        self.objects = ObjectIndex()
        self.nodes = NodeTable(self.objects)
        #: Volumes and claims with the bindings that are decided but not yet seen.
        self.volumes = AssumedVolumes(self.objects)
        self.claim_users = ClaimUsers(self.nodes)
        self.nominator = Nominator()
        #: By pod UID.
        self.placements: dict[str, Placement] = {}
        self._order: list[NodeInfo] = []
        self._order_version = -1
        #: Who is to be told of the end of a pod, by its UID.
        self._awaited: dict[str, list[Callable[[], None]]] = {}

    # -- nodes

    def set_node(self, node: Node) -> tuple[Node | None, int]:
        """See `NodeTable.set_node`."""
        return self.nodes.set_node(node)

    def remove_node(self, name: str) -> Node | None:
        return self.nodes.remove_node(name)

    def nodes_in_turn(self) -> list[NodeInfo]:
        """All nodes, zone after zone in turn; the same list until a node comes, goes or moves to another zone."""
        if self._order_version != self.nodes.membership_version:
            self._order = zones_in_turn(self.nodes.infos)
            self._order_version = self.nodes.membership_version
        return self._order

    # -- pods

    def assume(self, pod: PodInfo, node_name: str) -> None:
        assert pod.uid not in self.placements, f"{pod.key} is placed already"
        self.nodes.place(pod, node_name)
        self.placements[pod.uid] = Placement(pod, node_name, assumed=True)

    def forget(self, uid: str) -> Placement | None:
        """Take back an assumption. None when it no longer stands: confirmed, moved or removed by the watch."""
        placement = self.placements.get(uid)
        if placement is None or not placement.assumed:
            return None
        self.nodes.displace(uid, placement.node_name)
        del self.placements[uid]
        self._tell_of_end(uid)
        return placement

    def set_pod(self, pod: Pod) -> PodInfo | None:
        """The watch shows a pod with a node. Returns the version before, or None when the pod is new to us."""
        uid, node_name = pod.metadata.uid, pod.spec.node_name
        placement = self.placements.get(uid)
        if placement is None:
            info = PodInfo(pod)
            self.nodes.place(info, node_name)
            self.placements[uid] = Placement(info, node_name, assumed=False)
            return None
        before = placement.pod
        info = before.followed_by(pod)
        if placement.node_name == node_name and before.takes_the_same(info):
            looks_the_same = before.looks_the_same(info)
            if looks_the_same:
                info.class_key = before.class_key
            self.nodes.swap(info, node_name, 0 if looks_the_same else aspects.PODS)
        else:
            self.nodes.displace(uid, placement.node_name)
            self.nodes.place(info, node_name)
        placement.pod, placement.node_name, placement.assumed = info, node_name, False
        if pod.metadata.deletion_timestamp is not None:
            self._tell_of_end(uid)
        return before

    def remove_pod(self, uid: str) -> Placement | None:
        """The pod is gone or finished, assumed or not."""
        placement = self.placements.pop(uid, None)
        if placement is not None:
            self.nodes.displace(uid, placement.node_name)
            self._tell_of_end(uid)
        return placement

    def is_going(self, uid: str) -> bool:
        """Whether the pod is placed nowhere (any more), or terminating."""
        placement = self.placements.get(uid)
        return placement is None or placement.pod.pod.is_terminating

    def when_going(self, uid: str, tell: Callable[[], None]) -> None:
        """Calls `tell` once, when the placed pod is next shown terminating, or is placed no longer."""
        self._awaited.setdefault(uid, []).append(tell)

    def _tell_of_end(self, uid: str) -> None:
        if self._awaited:
            for tell in self._awaited.pop(uid, ()):
                tell()

    def is_assumed(self, uid: str) -> bool:
        placement = self.placements.get(uid)
        return placement is not None and placement.assumed

    def node_of(self, uid: str) -> str:
        """The node a pod is counted on, or ""."""
        placement = self.placements.get(uid)
        return placement.node_name if placement is not None else ""
