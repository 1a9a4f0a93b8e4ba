"""`World`: the objects of an offline cluster, and the port through which the core acts on them.

It is to the core what an API server is live: writes are checked and stored at once, and come back as changes that the
scheduler applies between cycles. What a cluster's other controllers would do is done on the spot: a deleted pod is
gone, a bound one has started, volumes are bound and provisioned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from kubesched.api import kinds
from kubesched.api.changes import Change, Delete, Upsert
from kubesched.api.core import PersistentVolume, PersistentVolumeClaim, Pod, PodStatus
from kubesched.api.errors import ApiError
from kubesched.api.kinds import Kind
from kubesched.api.meta import Condition, Object, ObjectMeta, format_time
from kubesched.clock import Clock
from kubesched.framework.ports import EventRecord
from kubesched.offline import volumes

Key = tuple[str, str, str]


class World:
    """Implements `ClusterPort`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._objects: dict[Key, Any] = {}
        self._version = 0
        #: Grows with whatever may matter to other pods: bindings, deletions, volumes; not with statuses.
        self.revision = 0
        #: The status of a pod before and after it was bound, and when that was: the next one is often its equal.
        self._started: tuple[PodStatus, float, PodStatus] | None = None
        #: Hears of every change; the scheduler's `deliver`.
        self.on_change: Callable[[Iterable[Change]], None] = lambda _changes: None
        #: Hears of bindings and deletions, for the report of a run.
        self.on_bound: Callable[[Pod, str], None] = lambda _pod, _node_name: None
        self.on_deleted: Callable[[Pod], None] = lambda _pod: None

    # -- objects

    def get(self, kind: Kind, name: str, namespace: str = "") -> Any | None:
        return self._objects.get((kind.kind, namespace, name))

    def list(self, kind: Kind) -> list[Any]:
        return [obj for (name, _, _), obj in self._objects.items() if name == kind.kind]

    def put(self, obj: Object) -> Any:
        """Store the object under a new version; returns it as stored."""
        stored = replace(obj, metadata=self._next_version(obj.metadata))
        self._store(kinds.of(obj), stored)
        return stored

    def _next_version(self, metadata: ObjectMeta) -> ObjectMeta:
        self._version += 1
        return replace(metadata, resource_version=str(self._version))

    def _store(self, kind: Kind, obj: Object) -> None:
        metadata = obj.metadata
        self._objects[kind.kind, metadata.namespace, metadata.name] = obj
        self.on_change((Upsert(kind, obj),))

    def remove(self, obj: Object) -> None:
        self.revision += 1
        kind = kinds.of(obj)
        if self._objects.pop((kind.kind, obj.metadata.namespace, obj.metadata.name), None) is not None:
            self.on_change([Delete(kind, obj)])

    # -- ClusterPort

    async def bind(self, pod: Pod, node_name: str) -> None:
        stored: Pod | None = self._live(pod)
        if stored is None:
            raise ApiError(404, "NotFound", f'pods "{pod.metadata.name}" not found')
        spec = stored.spec
        if spec.node_name:
            message = f"pod {pod.metadata.name} is already assigned to node {spec.node_name!r}"
            raise ApiError(409, "Conflict", f'Operation cannot be fulfilled on pods/binding "{pod.name}": {message}')
        self.revision += 1
        bound = replace(
            stored,
            metadata=self._next_version(stored.metadata),
            spec=replace(spec, node_name=node_name),
            status=self._as_started(stored.status),
        )
        self._store(kinds.POD, bound)
        self.on_bound(bound, node_name)

    def _as_started(self, status: PodStatus) -> PodStatus:
        """The status of a pod that is bound now."""
        now_s, known = self._clock.now(), self._started
        if known is not None and known[1] == now_s and known[0] == status:
            return known[2]
        now = format_time(now_s)
        scheduled = Condition(type="PodScheduled", status="True", last_transition_time=now)
        started = replace(
            status,
            conditions=_conditions_with(status, scheduled),
            phase="Running",
            start_time=now,
            nominated_node_name="",
        )
        self._started = status, now_s, started
        return started

    async def read_pod(self, pod: Pod) -> Pod | None:
        return self._live(pod)

    async def patch_pod_status(
        self, pod: Pod, *, condition: Condition | None = None, nominated_node_name: str | None = None
    ) -> None:
        stored = self._live(pod)
        if stored is None:
            raise ApiError(404, "NotFound", f'pods "{pod.metadata.name}" not found')
        changed = stored
        if condition is not None:
            now = format_time(self._clock.now())
            conditions = _conditions_with(changed.status, replace(condition, last_transition_time=now))
            changed = replace(changed, status=replace(changed.status, conditions=conditions))
        if nominated_node_name is not None:
            changed = replace(changed, status=replace(changed.status, nominated_node_name=nominated_node_name))
        if changed != stored:
            self.put(changed)

    async def delete_pod(self, pod: Pod) -> None:
        stored = self._live(pod)
        if stored is not None:
            self.remove(stored)
            self.on_deleted(stored)

    async def update_volume(self, volume: PersistentVolume, *, claim: PersistentVolumeClaim) -> PersistentVolume:
        """As the volume controller goes on from there, the claim is bound to the volume as well."""
        self._check_version(volume)
        self.revision += 1
        bound, bound_claim = volumes.bound(volume, self._live(claim) or claim)
        stored: PersistentVolume = self.put(bound)
        self.put(bound_claim)
        return stored

    async def update_claim(self, claim: PersistentVolumeClaim, *, selected_node: str) -> PersistentVolumeClaim:
        """As a provisioner goes on from there, a volume is made for the node and the claim bound to it."""
        self._check_version(claim)
        self.revision += 1
        selected: PersistentVolumeClaim = self.put(volumes.with_selected_node(claim, selected_node))
        storage_class = self.get(kinds.STORAGE_CLASS, claim.spec.storage_class_name or "")
        node = self.get(kinds.NODE, selected_node)
        if storage_class is not None and node is not None:
            csi_node = self.get(kinds.CSI_NODE, selected_node)
            made = volumes.provisioned(selected, storage_class, node, csi_node)
            bound, bound_claim = volumes.bound(made, selected)
            self.put(bound)
            self.put(bound_claim)
        return selected

    def record_event(self, event: EventRecord) -> None:
        """Nobody looks at events here: outcomes say the same."""

    def _live(self, obj: Any) -> Any | None:
        """The stored object, if it is still the same one."""
        metadata = obj.metadata
        stored = self._objects.get((kinds.of(obj).kind, metadata.namespace, metadata.name))
        if stored is obj or (stored is not None and stored.metadata.uid == metadata.uid):
            return stored
        return None

    def _check_version(self, obj: Object) -> None:
        stored = self._live(obj)
        if stored is None:
            raise ApiError(404, "NotFound", f'{kinds.of(obj).plural} "{obj.name}" not found')
        if stored.metadata.resource_version != obj.metadata.resource_version:
            raise ApiError(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {kinds.of(obj).plural} "{obj.name}": the object has been modified; '
                "please apply your changes to the latest version and try again",
            )


def _conditions_with(status: PodStatus, condition: Condition) -> tuple[Condition, ...]:
    others = tuple(each for each in status.conditions if each.type != condition.type)
    return (*others, condition)
