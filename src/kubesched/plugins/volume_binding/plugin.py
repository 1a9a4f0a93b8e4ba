"""VolumeBinding: a pod goes where its claims have their volumes, or can get them.

Claims that are bound tie the pod to the nodes that reach the volume. Claims of a class that waits for its first
consumer are bound with the pod: to a volume that exists, the smallest that fits, or by provisioning for the node. What
is decided is assumed in Reserve and made true in PreBind, which waits for the controller. (kube-scheduler v1.36.)
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from kubesched.api.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubesched.api.errors import KubeschedError
from kubesched.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from kubesched.config.plugin_args import VolumeBindingArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import NODE, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import ANY_DIFFERENCE, Plugin, Reads, Verdicts
from kubesched.framework.status import Status
from kubesched.plugins import pod_volumes
from kubesched.plugins.csi_migration import MIGRATED_PLUGINS
from kubesched.plugins.scoring_strategies import shape_scores
from kubesched.plugins.volume_binding import binding, scoring
from kubesched.plugins.volume_binding.binding import Reserved
from kubesched.plugins.volume_binding.claims import PodClaims, read_claims
from kubesched.plugins.volume_binding.judging import Decision, judge, judge_rows, reasons_text
from kubesched.plugins.volume_binding.supply import Supply, may_serve, storage_limit
from kubesched.state.assumed_volumes import class_of_claim
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import Ints, NodeSet

STATE_KEY = "VolumeBinding"
RESERVED_KEY = "ReserveVolumeBinding"

_CLAIM, _VOLUME, _CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"


class VolumeBinding(Plugin):
    name = "VolumeBinding"
    args_type = VolumeBindingArgs
    #: For pods that are signed, which are those without claims.
    filter_reads = Reads()
    score_reads = Reads()
    signs_template = True
    sign_ignores = ANY_DIFFERENCE

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._timeout_s = float(args.bind_timeout_seconds)
        self._shape = shape_scores(args.shape) if args.shape else None
        self._supply = Supply(handle.state.volumes, handle.state.objects)
        self._statuses: dict[int, Status] = {}

    def sign(self, pod: Pod) -> Hashable | None:
        return None if pod_volumes.has_claims(pod) else ()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        if not pod_volumes.has_claims(pod):
            return Status.skip(lasting=True)
        claims = self._read(pod)
        if isinstance(claims, Status):
            return claims
        state.write(STATE_KEY, claims)
        return None

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        claims = state.read(STATE_KEY, PodClaims)
        if len(nodes) == 1:
            reasons = self._judge(claims, nodes.infos()[0]).reasons
            return Verdicts(np.ones(1, dtype=np.int32), [None, self._status(reasons)]) if reasons else None
        codes = judge_rows(claims, nodes, self.handle.state.objects)
        present, why = np.unique(codes, return_inverse=True)
        if not present.any():
            return None
        statuses: list[Status | None] = [self._status(code) if code else None for code in present.tolist()]
        if statuses[0] is not None:
            statuses.insert(0, None)
            why = why + 1
        return Verdicts(why.astype(np.int32), statuses)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        return Status.skip(lasting=True) if self._shape is None else None

    def score_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Ints:
        claims = state.get(STATE_KEY)
        if self._shape is None or not isinstance(claims, PodClaims) or not claims.open:
            return np.zeros(len(nodes), dtype=np.int64)
        scores = [scoring.score(self._judge(claims, node), self._shape) for node in nodes.infos()]
        return np.array(scores, dtype=np.int64)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        claims = state.get(STATE_KEY)
        if not isinstance(claims, PodClaims) or not claims.open:
            return None
        decision = self._judge(claims, self.handle.state.nodes.by_name[node_name])
        if decision.reasons:
            return self._status(decision.reasons)
        state.write(RESERVED_KEY, binding.assume(decision, node_name, self.handle.state.volumes))
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        reserved = state.get(RESERVED_KEY)
        if isinstance(reserved, Reserved):
            binding.take_back(reserved, self.handle.state.volumes)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        reserved = state.get(RESERVED_KEY)
        return None if isinstance(reserved, Reserved) and not reserved.all_bound else Status.skip()

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        reserved = state.get(RESERVED_KEY)
        if not isinstance(reserved, Reserved) or reserved.all_bound:
            return None
        try:
            written = await binding.write(reserved, self.handle.port)
            await binding.wait(pod, written, self.handle.state, self.handle.clock, self._timeout_s)
        except KubeschedError:
            self.handle.metrics.volume_scheduling_stage_error("bind")
            raise
        return None

    def planned_volumes(self, state: CycleState, pod: Pod, node: NodeInfo) -> dict[str, Any] | None:
        """What would happen to the pod's unbound claims on a node that fits: `bind` (claim: volume), `provision`."""
        claims = state.get(STATE_KEY)
        if not isinstance(claims, PodClaims) or not claims.open:
            return None
        decision = self._judge(claims, node)
        return {
            "bind": {claim.metadata.name: volume.metadata.name for claim, volume in decision.bind},
            "provision": sorted(claim.metadata.name for claim, _ in decision.provision),
        }

    def details(self, state: CycleState, pod: Pod, node: NodeInfo) -> dict[str, object]:
        """By claim, what keeps it from the node."""
        claims = state.get(STATE_KEY)
        return {"claims": self._judge(claims, node).blames} if isinstance(claims, PodClaims) else {}

    def _read(self, pod: Pod) -> PodClaims | Status:
        return read_claims(pod, self._supply)

    def _judge(self, claims: PodClaims, node: NodeInfo) -> Decision:
        return judge(claims, node, self.handle.state.objects)

    def _status(self, reasons: int) -> Status:
        status = self._statuses.get(reasons)
        if status is None:
            status = self._statuses[reasons] = Status.unresolvable(*reasons_text(reasons)).of(self.name)
        return status

    # -- queueing hints: read the claims as they are after the event; who is still rejected as a whole stays

    def hint_sign(self, pod: Pod) -> Hashable | None:
        return None if pod.spec.volumes else ()

    def events_to_register(self) -> list[ClusterEventWithHint]:
        either = ActionType.ADD | ActionType.UPDATE
        # Taints change nothing here, but a new node is often tainted until it is ready.
        node_change = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        return [
            ClusterEventWithHint(ClusterEvent(_CLASS, either), self.after_class_change),
            ClusterEventWithHint(ClusterEvent(_CLAIM, either), self.after_claim_change),
            ClusterEventWithHint(ClusterEvent(_VOLUME, either), self.after_volume_change),
            ClusterEventWithHint(ClusterEvent(NODE, node_change), self.after_node_change),
            ClusterEventWithHint(ClusterEvent("CSINode", either), self.after_csi_node_change),
            ClusterEventWithHint(ClusterEvent("CSIDriver", ActionType.UPDATE), self.after_driver_change),
            ClusterEventWithHint(ClusterEvent("CSIStorageCapacity", either), self.after_capacity_change),
        ]

    def after_class_change(self, pod: Pod, old: StorageClass | None, new: StorageClass) -> QueueingHint:
        changed = old is None or old.allowed_topologies != new.allowed_topologies
        claims = self._read(pod) if changed else None
        return _queue_if(
            isinstance(claims, PodClaims)
            and any(class_of_claim(each.claim) == new.metadata.name for each in claims.open)
        )

    def after_claim_change(
        self, pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
    ) -> QueueingHint:
        if not pod_volumes.names_claim(pod, new) or (old is not None and _looks_the_same(old, new)):
            return QueueingHint.SKIP
        return _queue_if(isinstance(self._read(pod), PodClaims))

    def after_volume_change(self, pod: Pod, old: PersistentVolume | None, new: PersistentVolume) -> QueueingHint:
        """One of the pod's claims is bound to it, or could be."""
        claims = self._read(pod)
        return _queue_if(
            isinstance(claims, PodClaims)
            and (
                any(each.claim.spec.volume_name == new.metadata.name for each in claims.bound)
                or any(may_serve(new, each.claim) for each in claims.open)
            )
        )

    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        claims = self._read(pod)
        node = self.handle.state.nodes.by_name.get(new.metadata.name)
        return _queue_if(isinstance(claims, PodClaims) and node is not None and not self._judge(claims, node).reasons)

    def after_csi_node_change(self, pod: Pod, old: CSINode | None, new: CSINode) -> QueueingHint:
        """Which in-tree plugins are migrated decides where their volumes can be reached."""
        if old is not None and _migrated(old) == _migrated(new):
            return QueueingHint.SKIP
        claims = self._read(pod)
        node = self.handle.state.nodes.by_name.get(new.metadata.name)
        return _queue_if(isinstance(claims, PodClaims) and node is not None and not self._judge(claims, node).reasons)

    def after_driver_change(self, pod: Pod, old: CSIDriver, new: CSIDriver) -> QueueingHint:
        """A driver that no longer publishes capacities is taken to have enough. (v1.36 misses it for claims.)"""
        if not old.spec.storage_capacity or new.spec.storage_capacity:
            return QueueingHint.SKIP
        name = new.metadata.name
        if any(volume.csi is not None and volume.csi.driver == name for volume in pod.spec.volumes):
            return QueueingHint.QUEUE
        claims = self._read(pod)
        return _queue_if(
            isinstance(claims, PodClaims) and any(self._provisioner(each.claim) == name for each in claims.open)
        )

    def after_capacity_change(self, pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> QueueingHint:
        """There is more than before, and enough for one of the pod's claims."""
        before, now = storage_limit(old) if old is not None else None, storage_limit(new)
        if now is None or (before is not None and now <= before):
            return QueueingHint.SKIP
        claims = self._read(pod)
        return _queue_if(
            isinstance(claims, PodClaims)
            and any(
                class_of_claim(each.claim) == new.storage_class_name and each.size_bytes <= now for each in claims.open
            )
        )

    def _provisioner(self, claim: PersistentVolumeClaim) -> str:
        storage_class: StorageClass | None = self.handle.state.objects.get(_CLASS, class_of_claim(claim))
        return storage_class.provisioner if storage_class is not None else ""


def _queue_if(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _migrated(csi_node: CSINode) -> str:
    return csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "")


def _looks_the_same(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> bool:
    """In what a pod can wait for."""
    mine, theirs = old.metadata, new.metadata
    return (
        old.spec == new.spec
        and old.status == new.status
        and (mine.uid, mine.annotations, mine.deletion_timestamp, mine.owner_references)
        == (theirs.uid, theirs.annotations, theirs.deletion_timestamp, theirs.owner_references)
    )
