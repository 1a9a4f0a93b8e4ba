"""VolumeRestrictions: some disks and claims bear only one pod.

On one node, two pods may not mount the same GCE disk, iSCSI target or RBD image unless both only read it, nor the same
EBS volume at all. In the whole cluster, a claim with access mode ReadWriteOncePod bears a single pod; preempting that
pod frees it, which is why AddPod and RemovePod keep count. (kube-scheduler v1.36; it counts pods of other namespaces
with a claim of the same name in preemption, ours does not.)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from kubesched.api.core import (
    AWSElasticBlockStoreVolumeSource,
    GCEPersistentDiskVolumeSource,
    ISCSIVolumeSource,
    PersistentVolumeClaim,
    Pod,
    RBDVolumeSource,
)
from kubesched.build import mypyc_attr
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import NODE, POD, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.plugin import ANY_DIFFERENCE, Plugin, Reads, Verdicts
from kubesched.framework.status import Status
from kubesched.plugins.pod_volumes import READ_WRITE_ONCE_POD, has_claims, not_found
from kubesched.state import aspects
from kubesched.state.claim_users import Disk, disk_of
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NodeSet
from kubesched.state.pod_info import PodInfo

REASON_DISK = "node(s) had no available disk"
REASON_ONE_POD = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

STATE_KEY = "PreFilterVolumeRestrictions"

_CLAIM = "PersistentVolumeClaim"


@dataclass(slots=True)
class Restrictions:
    """`claims`: the pod's claims that bear one pod only. `users`: the pods (UIDs) that use one of them."""

    disks: tuple[Disk, ...]
    claims: frozenset[str]
    users: set[str]

    def clone(self) -> Restrictions:
        return Restrictions(self.disks, self.claims, set(self.users))


@mypyc_attr(allow_interpreted_subclasses=True)
class VolumeRestrictions(Plugin):
    name = "VolumeRestrictions"
    filter_reads = Reads(row=aspects.PODS)
    signs_template = True
    sign_ignores = ANY_DIFFERENCE

    def sign(self, pod: Pod) -> Hashable | None:
        """Pods with claims are not kept: what counts is who else uses the claim."""
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                return None
        return disks(pod)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        namespace = pod.metadata.namespace
        claims = set()
        for name in _claim_names(pod):
            claim: PersistentVolumeClaim | None = self.handle.state.objects.get(_CLAIM, name, namespace)
            if claim is None:
                return Status.unresolvable(not_found(name))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                claims.add(name)
        users = {info.uid for name in claims for info in self.handle.state.claim_users.of(namespace, name)}
        mounts = disks(pod)
        if not mounts and not users:
            return Status.skip(lasting=not claims)
        state.write(STATE_KEY, Restrictions(mounts, frozenset(claims), users))
        return None

    def add_pod(self, state: CycleState, pod: Pod, other: PodInfo, node: NodeInfo) -> Status | None:
        restrictions = state.read(STATE_KEY, Restrictions)
        if _shares_claim(pod, restrictions.claims, other.pod):
            restrictions.users.add(other.uid)
        return None

    def remove_pod(self, state: CycleState, pod: Pod, other: PodInfo, node: NodeInfo) -> Status | None:
        state.read(STATE_KEY, Restrictions).users.discard(other.uid)
        return None

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        restrictions = state.read(STATE_KEY, Restrictions)
        taken = 2 if restrictions.users else 0
        if not restrictions.disks:
            return Verdicts(np.full(len(nodes), taken, dtype=np.int32), _STATUSES) if taken else None
        why = np.full(len(nodes), taken, dtype=np.int32)
        infos = nodes.infos()
        for position in self._with_disks(nodes):
            if _mounted(restrictions.disks, infos[position]):
                why[position] = 1
        return Verdicts(why, _STATUSES) if why.any() else None

    def _with_disks(self, nodes: NodeSet) -> list[int]:
        """Positions in the set where pods may mount such disks."""
        if len(nodes) == 1 or nodes.table is not self.handle.state.nodes:
            return list(range(len(nodes)))
        rows = list(self.handle.state.claim_users.rows_with_disks())
        return np.flatnonzero(nodes.positions_of(rows)).tolist() if rows else []

    def details(self, state: CycleState, pod: Pod, node: NodeInfo) -> dict[str, object]:
        """The disk and who has it mounted; else the claim, who uses it, and where."""
        for disk in disks(pod):
            for other in node.pods.values():
                if any(_conflict(disk, theirs) for theirs in disks(other.pod)):
                    return {"disk": _disk_name(disk), "pod": other.key}
        restrictions = state.get(STATE_KEY)
        if not isinstance(restrictions, Restrictions):
            return {}
        namespace = pod.metadata.namespace
        for claim in sorted(restrictions.claims):
            for user in self.handle.state.claim_users.of(namespace, claim):
                return {
                    "claim": f"{namespace}/{claim}",
                    "pod": user.key,
                    "node": self.handle.state.node_of(user.uid),
                }
        return {}

    def hint_sign(self, pod: Pod) -> Hashable | None:
        """The names of claims are made from the pod's own where volumes are ephemeral."""
        return None if has_claims(pod) else self.sign(pod)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        # Taints change nothing here, but a new node is often tainted until it is ready.
        return [
            ClusterEventWithHint(ClusterEvent(POD, ActionType.DELETE), after_pod_deleted),
            ClusterEventWithHint(ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)),
            ClusterEventWithHint(ClusterEvent(_CLAIM, ActionType.ADD), after_claim_added),
        ]


def after_pod_deleted(pod: Pod, old: Pod, new: None) -> QueueingHint:
    """The pod held a disk that this one wants, or used one of its claims (whose access mode is not looked up)."""
    freed = disks(old)
    helps = any(_conflict(disk, theirs) for disk in disks(pod) for theirs in freed) or _shares_claim(
        pod, frozenset(_claim_names(pod)), old
    )
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def after_claim_added(pod: Pod, old: None, new: PersistentVolumeClaim) -> QueueingHint:
    helps = pod.metadata.namespace == new.metadata.namespace and new.metadata.name in _claim_names(pod)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def disk_is_free(pod: Pod, node: NodeInfo) -> bool:
    """Whether the node's pods leave the pod the disks that it mounts."""
    return not _mounted(disks(pod), node)


def disks(pod: Pod) -> tuple[Disk, ...]:
    """The sources in the pod that bear one writer per node."""
    return tuple(disk for volume in pod.spec.volumes if (disk := disk_of(volume)) is not None)


def _mounted(mounts: Iterable[Disk], node: NodeInfo) -> bool:
    return any(
        _conflict(mine, theirs) for other in node.pods.values() for theirs in disks(other.pod) for mine in mounts
    )


def _conflict(mine: Disk, theirs: Disk) -> bool:
    """Whether both are the same disk, mounted in ways that exclude each other."""
    match mine, theirs:
        case GCEPersistentDiskVolumeSource(), GCEPersistentDiskVolumeSource():
            same = mine.pd_name == theirs.pd_name
        case AWSElasticBlockStoreVolumeSource(), AWSElasticBlockStoreVolumeSource():
            return mine.volume_id == theirs.volume_id
        case ISCSIVolumeSource(), ISCSIVolumeSource():
            same = mine.iqn == theirs.iqn
        case RBDVolumeSource(), RBDVolumeSource():
            same = (mine.pool, mine.image) == (theirs.pool, theirs.image)
            same = same and not set(mine.monitors).isdisjoint(theirs.monitors)
        case _:
            return False
    return same and not (mine.read_only and theirs.read_only)


def _disk_name(disk: Disk) -> str:
    match disk:
        case GCEPersistentDiskVolumeSource():
            return disk.pd_name
        case AWSElasticBlockStoreVolumeSource():
            return disk.volume_id
        case ISCSIVolumeSource():
            return disk.iqn
        case RBDVolumeSource():
            return f"{disk.pool}/{disk.image}"


def _claim_names(pod: Pod) -> list[str]:
    claims = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return [claim.claim_name for claim in claims if claim is not None]


def _shares_claim(pod: Pod, claims: frozenset[str], other: Pod) -> bool:
    return pod.metadata.namespace == other.metadata.namespace and any(name in claims for name in _claim_names(other))


_STATUSES: list[Status | None] = [
    None,
    Status.unschedulable(REASON_DISK).of(VolumeRestrictions.name),
    Status.unschedulable(REASON_ONE_POD).of(VolumeRestrictions.name),
]
