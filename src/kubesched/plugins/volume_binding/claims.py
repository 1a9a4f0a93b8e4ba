"""A pod's claims, sorted into those that are bound and those that are to be bound when the pod gets its node.

Claims and volumes are looked at as the scheduler has decided about them (`AssumedVolumes`). What all nodes have in
common is worked out here, once per attempt: the reach of bound volumes, what could be bound to a claim, and what its
provisioning would ask of a node. (kube-scheduler v1.36.)
"""

from __future__ import annotations

from dataclasses import dataclass

from kubesched.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kubesched.api.storage import StorageClass
from kubesched.framework.status import Status
from kubesched.plugins import csi_migration
from kubesched.plugins.pod_volumes import (
    BIND_COMPLETED,
    WAIT_FOR_FIRST_CONSUMER,
    claim_references,
    is_made_for,
    not_found,
    not_made_for,
)
from kubesched.plugins.volume_binding.ranked import EVERYWHERE, Terms, terms_of_node_selector
from kubesched.plugins.volume_binding.supply import Provisioning, Supply, Volumes, reach_of, requested_bytes
from kubesched.state.assumed_volumes import AssumedVolumes, class_of_claim
from kubesched.state.objects import ObjectIndex

SELECTED_NODE = "volume.kubernetes.io/selected-node"

REASON_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


@dataclass(frozen=True, slots=True)
class BoundClaim:
    """`volume` is None when the claim speaks of one that is not there."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None
    reach: Terms
    #: The in-tree plugin of the volume, and its reach on nodes where a CSI driver has taken over; "" for none.
    migrated_plugin: str
    migrated_reach: Terms


class OpenClaim:
    """A claim to be bound. One with a `selected_node` is being provisioned for that node already."""

    def __init__(self, claim: PersistentVolumeClaim, storage_class: StorageClass, supply: Supply) -> None:
        self.claim = claim
        self.size_bytes = requested_bytes(claim)
        self.selected_node: str | None = claim.metadata.annotations.get(SELECTED_NODE)
        self._storage_class = storage_class
        self._supply = supply
        self._volumes: Volumes | None = None
        self._provisioning: Provisioning | None = None
        self._is_provisioning_known = False

    @property
    def volumes(self) -> Volumes:
        """What may be bound to it."""
        if self._volumes is None:
            self._volumes = self._supply.volumes_for(self.claim) if self.selected_node is None else Volumes(())
        return self._volumes

    @property
    def provisioning(self) -> Provisioning | None:
        """None where the class provisions nothing."""
        if not self._is_provisioning_known:
            self._provisioning = self._supply.provisioning_for(self.claim, self._storage_class)
            self._is_provisioning_known = True
        return self._provisioning


@dataclass(frozen=True, slots=True)
class PodClaims:
    """`open`: those with a selected node in the order of the pod, then the others from the smallest up."""

    bound: tuple[BoundClaim, ...]
    open: tuple[OpenClaim, ...]


def read_claims(pod: Pod, supply: Supply) -> PodClaims | Status:
    """The pod's claims, or the rejection of a pod that no node can take as they are."""
    namespace, volumes, objects = pod.metadata.namespace, supply.volumes, supply.objects
    problem = _problem(pod, objects)
    if problem:
        return Status.unresolvable(problem)
    bound: list[BoundClaim] = []
    opened: list[OpenClaim] = []
    for name in dict.fromkeys(reference.name for reference in claim_references(pod)):
        claim = volumes.claim(namespace, name)
        assert claim is not None, f"claim {namespace}/{name} was there a moment ago"
        if is_fully_bound(claim):
            bound.append(_bound(claim, volumes))
            continue
        storage_class: StorageClass | None = objects.get("StorageClass", class_of_claim(claim))
        late = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        if storage_class is None or not late or claim.spec.volume_name:
            return Status.unresolvable(REASON_IMMEDIATE)
        opened.append(OpenClaim(claim, storage_class, supply))
    selected = [each for each in opened if each.selected_node is not None]
    others = sorted((each for each in opened if each.selected_node is None), key=lambda each: each.size_bytes)
    return PodClaims(tuple(bound), (*selected, *others))


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """The volume is known and the controller has finished its part."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def _problem(pod: Pod, objects: ObjectIndex) -> str:
    """The first thing wrong with the pod's claims, or ""."""
    for name, ephemeral in claim_references(pod):
        claim: PersistentVolumeClaim | None = objects.get("PersistentVolumeClaim", name, pod.metadata.namespace)
        if claim is None:
            if ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return not_found(name)
        if claim.status.phase == "Lost":
            volume = claim.spec.volume_name
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{name}" is being deleted'
        if ephemeral and not is_made_for(pod, claim):
            return not_made_for(pod, claim)
    return ""


def _bound(claim: PersistentVolumeClaim, volumes: AssumedVolumes) -> BoundClaim:
    volume = volumes.volume(claim.spec.volume_name)
    if volume is None:
        return BoundClaim(claim, None, (), "", ())
    reach = reach_of(volume)
    migration = csi_migration.of_volume(volume)
    if migration is None or migration.topology_key is None:
        return BoundClaim(claim, volume, reach, "", ())
    translated = csi_migration.translated_affinity(volume, migration.topology_key)
    migrated_reach = EVERYWHERE if translated is None else terms_of_node_selector(translated)
    return BoundClaim(claim, volume, reach, migration.plugin, migrated_reach)
