"""Nominated pods: pending pods that preemption, or a binding under way, has promised a node.

They are not counted in the node table. Filters of pods of equal or lower priority see them added on their node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubesched.state.pod_info import PodInfo


class Nominator:
    __slots__ = ("_node_of", "_pods_on")

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._pods_on: dict[str, dict[str, PodInfo]] = {}

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Note the pod for the node, instead of whichever it was noted for before."""
        self.clear(pod.uid)
        self._node_of[pod.uid] = node_name
        self._pods_on.setdefault(node_name, {})[pod.uid] = pod

    def clear(self, uid: str) -> bool:
        """Forget the nomination of a pod; False when it had none."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return False
        pods = self._pods_on[node_name]
        del pods[uid]
        if not pods:
            del self._pods_on[node_name]
        return True

    def refresh(self, pod: PodInfo) -> None:
        """Take the newer version of a nominated pod."""
        node_name = self._node_of.get(pod.uid)
        if node_name is not None:
            self._pods_on[node_name][pod.uid] = pod

    def node_of(self, uid: str) -> str:
        """The node a pod is nominated to, or ""."""
        return self._node_of.get(uid, "")

    def pods_on(self, node_name: str) -> list[PodInfo]:
        return list(self._pods_on.get(node_name, {}).values())

    def by_node(self) -> Iterable[tuple[str, Mapping[str, PodInfo]]]:
        """The names of nodes with nominated pods, and those pods by UID."""
        return self._pods_on.items()

    def __len__(self) -> int:
        return len(self._node_of)
