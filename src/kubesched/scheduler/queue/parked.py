"""Parked pods: rejected ones that wait for an event, and gated ones that PreEnqueue holds back.

They lie in groups whose members get the same answer to any event (pods stamped from one template, mostly), and the
groups are indexed by the plugins that rejected them. So an event costs the groups it may concern plus the pods it
wakes, however many are parked.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from kubesched.scheduler.queue.queued_pod import QueuedPod


class Group:
    """Pods that are woken by the same events."""

    __slots__ = ("key", "plugins", "pods")

    def __init__(self, key: Hashable, plugins: frozenset[str]) -> None:
        self.key = key
        #: Whose events wake them.
        self.plugins = plugins
        #: By UID, longest parked first.
        self.pods: dict[str, QueuedPod] = {}

    @property
    def any_pod(self) -> QueuedPod:
        return next(iter(self.pods.values()))


class ParkedPods:
    def __init__(self) -> None:
        self._pods: dict[str, QueuedPod] = {}
        self._group_of: dict[str, Group] = {}
        self._groups: dict[Hashable, Group] = {}
        self._by_plugin: dict[str, dict[Hashable, Group]] = {}
        self._gated: set[str] = set()

    def push(self, pod: QueuedPod, common_ground: Hashable | None, plugins: Iterable[str]) -> None:
        """Park a pod that the events of these plugins may wake, in the group of its common ground or in one of its
        own."""
        uid = pod.uid
        self.remove(uid)
        profile = pod.pod.spec.scheduler_name
        key = (profile, common_ground) if common_ground is not None else (profile, None, uid)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key, frozenset(plugins))
            for plugin in group.plugins:
                self._by_plugin.setdefault(plugin, {})[key] = group
        group.pods[uid] = pod
        self._group_of[uid] = group
        self._pods[uid] = pod
        if pod.gated_by:
            self._gated.add(uid)

    def remove(self, uid: str) -> QueuedPod | None:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return None
        self._gated.discard(uid)
        group = self._group_of.pop(uid)
        del group.pods[uid]
        if not group.pods:
            del self._groups[group.key]
            for plugin in group.plugins:
                del self._by_plugin[plugin][group.key]
        return pod

    def get(self, uid: str) -> QueuedPod | None:
        return self._pods.get(uid)

    def groups(self, profile: str, plugins: Iterable[str]) -> list[Group]:
        """The groups of a profile that any of these plugins rejected or holds back, each once."""
        found: dict[Hashable, Group] = {}
        for plugin in plugins:
            found.update(self._by_plugin.get(plugin, {}))
        return [group for group in found.values() if group.any_pod.pod.spec.scheduler_name == profile]

    @property
    def group_count(self) -> int:
        return len(self._groups)

    @property
    def gated_count(self) -> int:
        return len(self._gated)

    @property
    def unschedulable_count(self) -> int:
        return len(self._pods) - len(self._gated)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(list(self._pods.values()))

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)
