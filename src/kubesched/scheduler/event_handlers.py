"""From watch changes to state and queue.

The state is brought up to date first, then pods are woken: whoever is tried again because of an event sees its effect.
An object that makes no sense (a quantity that cannot be parsed, ...) is logged by name and left out; it stops nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any, Protocol

from kubesched.api import kinds
from kubesched.api.changes import Change, Delete, Replace, Upsert
from kubesched.api.core import Node, Pod
from kubesched.api.errors import KubeschedError
from kubesched.api.kinds import Kind
from kubesched.clock import Clock
from kubesched.framework import events
from kubesched.framework.events import ActionType, ClusterEvent
from kubesched.metrics import Histogram, Metrics
from kubesched.scheduler.cluster_events import node_update_events, pod_update_events
from kubesched.scheduler.queue import SchedulingQueue
from kubesched.state.cluster_state import ClusterState
from kubesched.state.objects import ObjectKey, key_of
from kubesched.state.pod_info import PodInfo

log = logging.getLogger("kubesched.events")


class PodFate(Protocol):
    """Told when a pod that may have a binding cycle under way is gone, going, or was placed by somebody else."""

    def pod_gone(self, uid: str) -> None: ...


class EventHandlers:
    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        profile_names: Collection[str],
        fate: PodFate,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._cluster = state
        self._queue = queue
        self._profile_names = profile_names
        self._fate = fate
        self._now: Callable[[], float] = clock.monotonic
        self._metrics = metrics
        self._began_s = 0.0
        self._durations: dict[ClusterEvent, Histogram] = {}
        #: Pods of our profiles without a node, in their newest version, by UID; also those that are assumed.
        self.pending: dict[str, Pod] = {}
        self._pod_keys: dict[ObjectKey, str] = {}

    def uid_of(self, namespace: str, name: str) -> str:
        """Of a pod that is ours or counts on a node; "" for one that is unknown or another scheduler's to place."""
        return self._pod_keys.get((namespace, name), "")

    def apply(self, change: Change) -> None:
        if isinstance(change, Upsert):
            self._upsert(change.kind, change.obj)
        elif isinstance(change, Delete):
            self._delete(change.kind, key_of(change.obj), change.obj)
        else:
            self._replace(change)

    def disown(self, profile_names: Collection[str]) -> None:
        """Pods of these profiles are somebody else's from now on."""
        for pod in [pod for pod in self.pending.values() if pod.spec.scheduler_name in profile_names]:
            self._remove_pod(pod.metadata.uid, key_of(pod))

    def _upsert(self, kind: Kind, obj: Any) -> None:
        self._began_s = self._now()
        try:
            if kind is kinds.POD:
                self._set_pod(obj)
            elif kind is kinds.NODE:
                self._set_node(obj)
            else:
                self._set_object(kind.event_resource, obj)
        except KubeschedError as error:
            namespace, name = key_of(obj)
            log.error(
                "ignoring an object that makes no sense kind=%s object=%s error=%s",
                kind.kind,
                f"{namespace}/{name}" if namespace else name,
                error,
            )

    def _delete(self, kind: Kind, key: ObjectKey, obj: Any | None = None) -> None:
        self._began_s = self._now()
        if kind is kinds.POD:
            uid = obj.metadata.uid if obj is not None else self._pod_keys.get(key, "")
            self._remove_pod(uid, key)
        elif kind is kinds.NODE:
            old = self._cluster.remove_node(key[1])
            if old is not None:
                self._happened(ClusterEvent(events.NODE, ActionType.DELETE), old, None)
        else:
            gone = self._cluster.objects.remove(kind.event_resource, key)
            if gone is not None:
                self._happened(ClusterEvent(kind.event_resource, ActionType.DELETE), gone, None)

    def _replace(self, change: Replace) -> None:
        """The complete set of a kind: what we know beyond it was deleted while nobody told us."""
        kind = change.kind
        present = {key_of(obj) for obj in change.objects} | set(change.unreadable)
        for key in [key for key in self._known(kind.event_resource) if key not in present]:
            self._delete(kind, key)
        for obj in change.objects:
            self._upsert(kind, obj)

    def _known(self, kind: str) -> Collection[ObjectKey]:
        if kind == "Pod":
            return self._pod_keys.keys()
        if kind == "Node":
            return [("", info.name) for info in self._cluster.nodes.infos]
        return list(self._cluster.objects.keys(kind))

    # -- nodes and other objects

    def _set_node(self, node: Node) -> None:
        old, changed = self._cluster.set_node(node)
        if old is None:
            self._happened(events.NODE_ADD, None, node)
        else:
            for event in node_update_events(changed, node):
                self._happened(event, old, node)

    def _set_object(self, kind: str, obj: Any) -> None:
        old = self._cluster.objects.put(kind, obj)
        if old is None:
            self._happened(ClusterEvent(kind, ActionType.ADD), None, obj)
        elif old != obj:
            self._happened(ClusterEvent(kind, ActionType.UPDATE_OTHER), old, obj)

    def _happened(
        self, event: ClusterEvent, old: Any, new: Any, *, but: str = "", priority_max: int | None = None
    ) -> None:
        if self._queue.move(event, old, new, but=but, priority_max=priority_max):
            self._observe(event)

    def _observe(self, event: ClusterEvent) -> None:
        durations = self._durations.get(event)
        if durations is None:
            durations = self._durations[event] = self._metrics.event_handling_series(event.label)
        durations.observe(self._now() - self._began_s)

    # -- pods

    def _set_pod(self, pod: Pod) -> None:
        key, uid = key_of(pod), pod.metadata.uid
        before = self._pod_keys.get(key)
        if before is not None and before != uid:
            self._remove_pod(before, key)  # recreated under its old name; the deletion was never seen
        if pod.is_terminal:
            self._remove_pod(uid, key)
            return
        if pod.spec.node_name:
            self._set_assigned(pod)
        elif pod.spec.scheduler_name in self._profile_names:
            self._set_pending(pod)
        elif uid in self.pending:
            self._remove_pod(uid, key)  # now somebody else's
            return
        else:
            return
        self._pod_keys[key] = uid

    def _set_assigned(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        placement = self._cluster.placements.get(uid)
        assumed = placement if placement is not None and placement.assumed else None
        if self.pending.pop(uid, None) is not None:
            if assumed is None:  # an assumed pod is in no queue
                self._queue.delete(uid)
            self._cluster.nominator.clear(uid)
        is_new = placement is None or assumed is not None
        ours = assumed.placed_pod if assumed is not None and assumed.node_name != pod.spec.node_name else None
        old = self._cluster.set_pod(pod)
        if ours is not None:
            log.warning(
                "pod was placed by somebody else pod=%s node=%s our_node=%s",
                pod.key,
                pod.spec.node_name,
                ours.spec.node_name,
            )
            self._fate.pod_gone(uid)
            self._happened(events.ASSIGNED_POD_DELETE, ours, None, but=uid)
        if is_new:
            self._happened(events.ASSIGNED_POD_ADD, None, pod)
        if old is None or (assumed is not None and _shows_no_difference(old, assumed.pod)):
            return
        for event in pod_update_events(events.ASSIGNED_POD, old.pod, pod):
            if not is_new or event.action is not ActionType.UPDATE_OTHER:
                self._happened(event, old.pod, pod)

    def _set_pending(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        old = self.pending.get(uid)
        info = PodInfo(pod)
        self.pending[uid] = pod
        if self._cluster.is_assumed(uid):
            if pod.is_terminating:
                self._fate.pod_gone(uid)
            return
        self._track_nomination(old, pod, info)
        if old is None:
            self._queue.add(info)
            self._observe(events.UNSCHEDULED_POD_ADD)
        elif old.metadata.resource_version != pod.metadata.resource_version:
            happened = pod_update_events(events.TARGET_POD, old, pod)
            self._queue.update(old, info, happened)
            for event in happened:
                self._observe(event)

    def _track_nomination(self, old: Pod | None, pod: Pod, info: PodInfo) -> None:
        """Follow `status.nominatedNodeName`. Our own nominations come before their echo and outlive stale versions."""
        uid = pod.metadata.uid
        nominator = self._cluster.nominator
        was = old.status.nominated_node_name if old is not None else ""
        now = pod.status.nominated_node_name
        if now == was:
            nominator.refresh(info)
        elif now:
            nominator.nominate(info, now)
        else:
            nominator.clear(uid)
        if old is not None and was and now != was:
            self._nomination_ended(old, but=uid)

    def _remove_pod(self, uid: str, key: ObjectKey) -> None:
        if self._pod_keys.get(key) == uid:
            del self._pod_keys[key]
        pending = self.pending.pop(uid, None)
        if pending is not None:
            self._queue.delete(uid)
        nominated = self._cluster.nominator.clear(uid)
        placement = self._cluster.remove_pod(uid)
        self._fate.pod_gone(uid)
        if placement is not None:
            self._happened(events.ASSIGNED_POD_DELETE, placement.placed_pod, None)
        elif pending is not None and (nominated or pending.status.nominated_node_name):
            self._nomination_ended(pending)
        if pending is not None:
            self._observe(events.UNSCHEDULED_POD_DELETE)

    def _nomination_ended(self, pod: Pod, *, but: str = "") -> None:
        """Others of no higher priority had to leave room for the pod, as if it were on its node."""
        self._happened(events.ASSIGNED_POD_DELETE, pod, None, but=but, priority_max=pod.spec.priority or 0)


def _shows_no_difference(old: PodInfo, new: PodInfo) -> bool:
    """To others: a pod may be resized or labelled anew while it is being bound."""
    return new.takes_the_same(old) and new.pod.metadata.labels == old.pod.metadata.labels
