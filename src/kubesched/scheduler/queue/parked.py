"""Parked pods: rejected ones that wait for an event, and gated ones that PreEnqueue holds back.

Rejected pods are indexed by the plugins that rejected them, so that an event costs only the pods it may concern.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubesched.scheduler.queue.queued_pod import QueuedPod


class ParkedPods:
    def __init__(self) -> None:
        self._pods: dict[str, QueuedPod] = {}
        self._by_plugin: dict[str, dict[str, QueuedPod]] = {}
        self._gated_count = 0

    def push(self, pod: QueuedPod) -> None:
        self.remove(pod.uid)
        self._pods[pod.uid] = pod
        self._gated_count += bool(pod.gated_by)
        for plugin in _index_of(pod):
            self._by_plugin.setdefault(plugin, {})[pod.uid] = pod

    def remove(self, uid: str) -> QueuedPod | None:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return None
        self._gated_count -= bool(pod.gated_by)
        for plugin in _index_of(pod):
            del self._by_plugin[plugin][uid]
        return pod

    def get(self, uid: str) -> QueuedPod | None:
        return self._pods.get(uid)

    def rejected_by(self, plugins: Iterable[str]) -> list[QueuedPod]:
        """The pods that any of these plugins rejected or holds back, each once, longest parked first."""
        found: dict[str, QueuedPod] = {}
        for plugin in plugins:
            found.update(self._by_plugin.get(plugin, {}))
        return list(found.values())

    @property
    def gated_count(self) -> int:
        return self._gated_count

    @property
    def unschedulable_count(self) -> int:
        return len(self._pods) - self._gated_count

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(list(self._pods.values()))

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)


def _index_of(pod: QueuedPod) -> set[str]:
    return {pod.gated_by} if pod.gated_by else pod.rejected_by
