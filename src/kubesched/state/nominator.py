"""Nominated pods: pending pods that preemption, or a binding under way, has promised a node.

They are not counted in the node table. Filters of pods of equal or lower priority see them added on their node. The
nodes where something changed are noted in order; readers remember a position and ask for what came after.
"""

from __future__ import annotations

from collections.abc import Iterable, KeysView, Mapping

from kubesched.state.pod_info import PodInfo

#: So many changes are remembered: who fell further behind starts from scratch.
_CHANGES_MAX = 4096


class Nominator:
    __slots__ = ("_changed", "_forgotten_count", "_node_of", "_pods_on")

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._pods_on: dict[str, dict[str, PodInfo]] = {}
        self._changed: list[str] = []
        self._forgotten_count = 0

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Note the pod for the node, instead of whichever it was noted for before."""
        self.clear(pod.uid)
        self._node_of[pod.uid] = node_name
        self._pods_on.setdefault(node_name, {})[pod.uid] = pod
        self._note(node_name)

    def clear(self, uid: str) -> bool:
        """Forget the nomination of a pod; False when it had none."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return False
        pods = self._pods_on[node_name]
        del pods[uid]
        if not pods:
            del self._pods_on[node_name]
        self._note(node_name)
        return True

    def refresh(self, pod: PodInfo) -> None:
        """Take the newer version of a nominated pod."""
        node_name = self._node_of.get(pod.uid)
        if node_name is not None:
            self._pods_on[node_name][pod.uid] = pod
            self._note(node_name)

    def node_of(self, uid: str) -> str:
        """The node a pod is nominated to, or ""."""
        return self._node_of.get(uid, "")

    def pods_on(self, node_name: str) -> list[PodInfo]:
        return list(self._pods_on.get(node_name, {}).values())

    def by_node(self) -> Iterable[tuple[str, Mapping[str, PodInfo]]]:
        """The names of nodes with nominated pods, and those pods by UID."""
        return self._pods_on.items()

    def node_names(self) -> KeysView[str]:
        """The nodes with nominated pods."""
        return self._pods_on.keys()

    @property
    def uids(self) -> KeysView[str]:
        """The nominated pods."""
        return self._node_of.keys()

    def __len__(self) -> int:
        return len(self._node_of)

    # -- changes

    @property
    def position(self) -> int:
        """How many changes there ever were."""
        return self._forgotten_count + len(self._changed)

    def changed_since(self, position: int) -> Iterable[str] | None:
        """The nodes where something changed after `position`, each once; None when that is no longer known."""
        start = position - self._forgotten_count
        if start < 0:
            return None
        return set(self._changed[start:]) if start < len(self._changed) else ()

    def _note(self, node_name: str) -> None:
        self._changed.append(node_name)
        if len(self._changed) > _CHANGES_MAX:
            self._forgotten_count += len(self._changed) // 2
            del self._changed[: len(self._changed) // 2]
