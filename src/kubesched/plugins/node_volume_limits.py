"""NodeVolumeLimits: a node attaches only so many volumes of each CSI driver.

CSINode says how many. What counts are the distinct volumes of the node's pods, by driver and handle: claims of all
kinds, bound or still to be provisioned, and disks of former in-tree drivers; besides these, VolumeAttachments that no
pod of the node accounts for. A volume that the node has already for another pod costs nothing. (kube-scheduler v1.36.)

Most nodes are far from their limit. So each is first judged by the number of volumes that its pods name and of its
attachments, whatever their driver: only where these could exceed the limit are volumes told apart. A placed pod whose
ephemeral volume has somebody else's claim fails the attempt, as in the original, but only on such a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from kubesched.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kubesched.api.errors import KubeschedError
from kubesched.api.storage import CSIDriver, CSINode, StorageClass, VolumeAttachment
from kubesched.build import mypyc_attr
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import POD, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import ANY_DIFFERENCE, Plugin, Reads, Verdicts
from kubesched.framework.status import Code, Status
from kubesched.plugins import csi_migration
from kubesched.plugins.pod_volumes import claim_reference, has_claims, is_made_for, names_claim, not_found, not_made_for
from kubesched.state.assumed_volumes import class_of_claim
from kubesched.state.claim_users import needs_attaching
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import Ints, NodeSet, NodeTable
from kubesched.state.objects import ObjectIndex

REASON = "node(s) exceed max volume count"

STATE_KEY = "PreFilterNodeVolumeLimits"

_CLAIM, _VOLUME, _CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"
_CSI_NODE, _CSI_DRIVER, _ATTACHMENT = "CSINode", "CSIDriver", "VolumeAttachment"

#: In a column of limits: none is stated.
_UNLIMITED: Final = np.iinfo(np.int64).max


class Attachable(NamedTuple):
    """A volume by its driver and the name that the driver knows it by; one to be provisioned by its claim."""

    driver: str
    handle: str | tuple[str, str]


Counts: TypeAlias = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the pod brings along, or why that cannot be told."""

    volumes: frozenset[Attachable] = frozenset()
    per_driver: Counts = field(default_factory=dict)
    problem: Status | None = None


class Excess(NamedTuple):
    """One driver's limit that a node would exceed."""

    driver: str
    limit: int
    attached: int
    asked: int


class ForeignClaimError(KubeschedError):
    """An ephemeral volume whose claim belongs to somebody else."""


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeVolumeLimits(Plugin):
    name = "NodeVolumeLimits"
    #: For pods that are signed, which are those without volumes that need attaching.
    filter_reads = Reads()
    signs_template = True
    sign_ignores = ANY_DIFFERENCE

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._objects = handle.state.objects
        self._attachments = _Attachments(self._objects)
        self._columns: dict[str, tuple[tuple[int, int], Ints]] = {}
        self._wants_driver_installed = handle.features.get("VolumeLimitScaling", False)

    def sign(self, pod: Pod) -> Hashable | None:
        return None if needs_attaching(pod) else ()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        if not needs_attaching(pod):
            return Status.skip(lasting=True)
        state.write(STATE_KEY, self._wanted(pod))
        return None

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        wanted = state.read(STATE_KEY, Wanted)
        if wanted.problem is not None:
            return Verdicts(np.ones(len(nodes), dtype=np.int32), [None, wanted.problem])
        if not wanted.volumes:
            return None
        why = np.zeros(len(nodes), dtype=np.int32)
        statuses: list[Status | None] = [None]
        infos = nodes.infos()
        for position in self._doubtful(wanted, nodes):
            status = self._judge(wanted, infos[position])
            if status is not None:
                if status not in statuses:
                    statuses.append(status)
                why[position] = statuses.index(status)
        return Verdicts(why, statuses) if len(statuses) > 1 else None

    def details(self, state: CycleState, pod: Pod, node: NodeInfo) -> dict[str, object]:
        """The limits that would be exceeded, by driver."""
        wanted = state.get(STATE_KEY)
        if not isinstance(wanted, Wanted) or wanted.problem is not None:
            return {}
        return {
            each.driver: {"asked": each.asked, "attached": each.attached, "limit": each.limit}
            for each in self._exceeded(wanted, node, self._csi_node(node))
        }

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [
            ClusterEventWithHint(
                ClusterEvent(_CSI_NODE, ActionType.ADD | ActionType.UPDATE), self.after_csi_node_change
            ),
            ClusterEventWithHint(ClusterEvent(POD, ActionType.DELETE), self.after_pod_deleted),
            ClusterEventWithHint(ClusterEvent(_CLAIM, ActionType.ADD), after_claim_added),
            ClusterEventWithHint(ClusterEvent(_ATTACHMENT, ActionType.DELETE), self.after_attachment_deleted),
        ]

    def after_csi_node_change(self, pod: Pod, old: CSINode | None, new: CSINode) -> QueueingHint:
        """A higher limit, or none where there was one, may let the pod onto the node. (v1.36 misses the latter.)"""
        node = self.handle.state.nodes.by_name.get(new.metadata.name)
        if node is None:
            return QueueingHint.SKIP
        if old is None or _some_limit_rose(old, new):
            return self._after_change_on(pod, node)
        wanted = self._wanted(pod)
        if wanted.problem is None and self._status(wanted, node, old) is None:
            return QueueingHint.SKIP
        return self._after_change_on(pod, node)

    def after_pod_deleted(self, pod: Pod, old: Pod, new: None) -> QueueingHint:
        node = self.handle.state.nodes.by_name.get(old.spec.node_name or old.status.nominated_node_name)
        if node is None or not needs_attaching(old):
            return QueueingHint.SKIP
        return self._after_change_on(pod, node)

    def after_attachment_deleted(self, pod: Pod, old: VolumeAttachment, new: None) -> QueueingHint:
        """One of a driver that the pod needs, on a node that has room now. Of claims the driver may be unknown."""
        node = self.handle.state.nodes.by_name.get(old.spec.node_name)
        drivers = self._drivers(pod)
        concerned = old.spec.attacher in drivers if drivers else has_claims(pod)
        if node is None or not concerned:
            return QueueingHint.SKIP
        return self._after_change_on(pod, node)

    def _after_change_on(self, pod: Pod, node: NodeInfo) -> QueueingHint:
        fits = self._judge(self._wanted(pod), node) is None
        return QueueingHint.QUEUE if fits else QueueingHint.SKIP

    # -- what the pod brings along

    def _wanted(self, pod: Pod) -> Wanted:
        """Limits exist only where there is a CSINode, so volumes are those that count on a node with one."""
        for volume in pod.spec.volumes:
            reference = claim_reference(pod, volume)
            if reference is not None and self._claim(pod, reference.name) is None:
                where = f"{pod.metadata.namespace}/{reference.name}"
                return Wanted(
                    problem=Status.unresolvable(f"looking up PVC {where}: {not_found(reference.name)}").of(self.name)
                )
        try:
            volumes = frozenset(_attachables(pod, self._objects))
        except ForeignClaimError as error:
            return Wanted(problem=Status.error(error).of(self.name))
        return Wanted(volumes, Counter(volume.driver for volume in volumes))

    def _drivers(self, pod: Pod) -> set[str]:
        """The drivers of the pod's volumes, those included whose disks do not count."""
        inline = {
            migration.driver
            for volume in pod.spec.volumes
            if (migration := csi_migration.of_pod_volume(volume)) is not None
        }
        return inline | self._wanted(pod).per_driver.keys()

    # -- judging nodes

    def _judge(self, wanted: Wanted, node: NodeInfo) -> Status | None:
        return wanted.problem or self._status(wanted, node, self._csi_node(node))

    def _status(self, wanted: Wanted, node: NodeInfo, csi_node: CSINode | None) -> Status | None:
        if self._wants_driver_installed:
            missing = self._missing_driver(wanted, csi_node)
            if missing:
                return Status.unschedulable(f"{missing} CSI driver is not installed on the node").of(self.name)
        try:
            return _EXCEEDED if self._exceeded(wanted, node, csi_node) else None
        except ForeignClaimError as error:
            return Status.error(error).of(self.name)

    def _exceeded(self, wanted: Wanted, node: NodeInfo, csi_node: CSINode | None) -> list[Excess]:
        limits = _limits(csi_node)
        if not wanted.volumes or not limits:
            return []
        present = {volume for other in node.pods.values() for volume in _attachables(other.pod, self._objects)}
        attached = Counter(volume.driver for volume in present)
        attached.update(
            volume.driver for volume in self._attachments.volumes_on(node.name, self._objects) if volume not in present
        )
        asked = Counter(volume.driver for volume in wanted.volumes if volume not in present)
        return [
            Excess(driver, limits[driver], attached[driver], count)
            for driver, count in asked.items()
            if driver in limits and attached[driver] + count > limits[driver]
        ]

    def _missing_driver(self, wanted: Wanted, csi_node: CSINode | None) -> str:
        installed = {driver.name for driver in csi_node.spec.drivers} if csi_node is not None else set()
        for name in sorted(wanted.per_driver):
            driver: CSIDriver | None = self._objects.get(_CSI_DRIVER, name)
            if driver is not None and driver.spec.prevent_pod_scheduling_if_missing and name not in installed:
                return name
        return ""

    def _csi_node(self, node: NodeInfo) -> CSINode | None:
        csi_node: CSINode | None = self._objects.get(_CSI_NODE, node.name)
        return csi_node

    def _claim(self, pod: Pod, name: str) -> PersistentVolumeClaim | None:
        claim: PersistentVolumeClaim | None = self._objects.get(_CLAIM, name, pod.metadata.namespace)
        return claim

    # -- which nodes need a closer look

    def _doubtful(self, wanted: Wanted, nodes: NodeSet) -> list[int]:
        """Positions in the set where the limit of some driver may be exceeded."""
        table = self.handle.state.nodes
        if self._wants_driver_installed or nodes.table is not table:
            return list(range(len(nodes)))
        named = self.handle.state.claim_users.volume_counts()[nodes.index]
        attached = self._column(_ATTACHMENT, table)[nodes.index]
        doubtful = np.zeros(len(nodes), dtype=np.bool_)
        for driver, count in wanted.per_driver.items():
            doubtful |= self._column(driver, table)[nodes.index] - count < named + attached
        return np.flatnonzero(doubtful).tolist()

    def _column(self, what: str, table: NodeTable) -> Ints:
        """Per row of the table the limit of a driver, or (for VolumeAttachment) the number of attachments."""
        kind = _ATTACHMENT if what == _ATTACHMENT else _CSI_NODE
        version = (self._objects.version(kind), table.membership_version)
        known = self._columns.get(what)
        if known is not None and known[0] == version:
            return known[1]
        if what == _ATTACHMENT:
            values = [self._attachments.count_on(info.name) for info in table.infos]
        else:
            values = [_limits(self._csi_node(info)).get(what, _UNLIMITED) for info in table.infos]
        column = np.array(values, dtype=np.int64)
        self._columns[what] = (version, column)
        return column


def after_claim_added(pod: Pod, old: None, new: PersistentVolumeClaim) -> QueueingHint:
    return QueueingHint.QUEUE if names_claim(pod, new) else QueueingHint.SKIP


class _Attachments:
    """VolumeAttachments by node, kept up to date."""

    def __init__(self, objects: ObjectIndex) -> None:
        self._on: dict[str, dict[str, VolumeAttachment]] = {}
        for attachment in objects.list(_ATTACHMENT):
            self._changed(None, attachment)
        objects.subscribe(_ATTACHMENT, self._changed)

    def count_on(self, node_name: str) -> int:
        return len(self._on.get(node_name, ()))

    def volumes_on(self, node_name: str, objects: ObjectIndex) -> set[Attachable]:
        """What is attached, as far as it can be told: by a volume that there is and that is a CSI one."""
        volumes = set()
        for attachment in self._on.get(node_name, {}).values():
            name = attachment.spec.source.persistent_volume_name
            volume: PersistentVolume | None = objects.get(_VOLUME, name) if name is not None else None
            if volume is not None and volume.spec.csi is not None and attachment.spec.attacher:
                volumes.add(Attachable(attachment.spec.attacher, volume.spec.csi.volume_handle))
        return volumes

    def _changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None:
            there = self._on[old.spec.node_name]
            del there[old.metadata.name]
            if not there:
                del self._on[old.spec.node_name]
        if new is not None:
            self._on.setdefault(new.spec.node_name, {})[new.metadata.name] = new


def _attachables(pod: Pod, objects: ObjectIndex) -> list[Attachable]:
    """The pod's volumes that count on a node with a CSINode. Raises ForeignClaimError; missing claims count nothing."""
    found = []
    for volume in pod.spec.volumes:
        reference = claim_reference(pod, volume)
        if reference is None:
            migration = csi_migration.of_pod_volume(volume)
            if migration is not None:
                handle = csi_migration.volume_handle(migration, getattr(volume, migration.source), {})
                if handle is not None:
                    found.append(Attachable(migration.driver, handle))
            continue
        claim: PersistentVolumeClaim | None = objects.get(_CLAIM, reference.name, pod.metadata.namespace)
        if claim is None:
            continue
        if reference.ephemeral and not is_made_for(pod, claim):
            raise ForeignClaimError(not_made_for(pod, claim))
        attachable = _of_claim(claim, objects)
        if attachable is not None:
            found.append(attachable)
    return found


def _of_claim(claim: PersistentVolumeClaim, objects: ObjectIndex) -> Attachable | None:
    name = claim.spec.volume_name
    volume: PersistentVolume | None = objects.get(_VOLUME, name) if name else None
    if volume is None:
        return _to_be_provisioned(claim, objects)
    csi = volume.spec.csi
    if csi is not None:
        return Attachable(csi.driver, csi.volume_handle) if csi.driver and csi.volume_handle else None
    migration = csi_migration.of_volume(volume)
    if migration is None:
        return None
    handle = csi_migration.volume_handle(migration, getattr(volume.spec, migration.source), volume.metadata.labels)
    return Attachable(migration.driver, handle) if handle else None


def _to_be_provisioned(claim: PersistentVolumeClaim, objects: ObjectIndex) -> Attachable | None:
    """Counted by what its class will provision: one more volume, different from all that exist."""
    class_name = class_of_claim(claim)
    storage_class: StorageClass | None = objects.get(_CLASS, class_name) if class_name else None
    if storage_class is None or not storage_class.provisioner:
        return None
    driver = storage_class.provisioner
    migration = csi_migration.of_plugin(driver)
    if migration is not None:
        if not migration.counts:
            return None
        driver = migration.driver
    return Attachable(driver, (claim.metadata.namespace, claim.metadata.name))


def _limits(csi_node: CSINode | None) -> dict[str, int]:
    if csi_node is None:
        return {}
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _some_limit_rose(old: CSINode, new: CSINode) -> bool:
    before = _limits(old)
    return any(limit > before.get(driver, 0) for driver, limit in _limits(new).items())


_EXCEEDED = Status(Code.UNSCHEDULABLE, REASON, plugin=NodeVolumeLimits.name)
