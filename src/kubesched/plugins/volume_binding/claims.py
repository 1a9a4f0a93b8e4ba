"""A pod's claims, sorted into those that are bound and those that are to be bound when the pod gets its node.

`read_claims` looks at claims and volumes as the scheduler has decided about them (`AssumedVolumes`), and works out once
per attempt what all nodes have in common: which volumes could be bound to a claim, best first, and what provisioning
would ask of a node. (kube-scheduler v1.36 and component-helpers `FindMatchingVolume`.)
"""

from __future__ import annotations

from dataclasses import dataclass

from kubesched.api import quantity, selectors
from kubesched.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kubesched.api.selectors import Requirement
from kubesched.api.storage import CSIDriver, CSIStorageCapacity, StorageClass
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
from kubesched.plugins.volume_binding.ranked import EVERYWHERE, Ranked, Terms, terms_of_labels, terms_of_node_selector
from kubesched.state.assumed_volumes import AssumedVolumes, class_of_claim, class_of_volume
from kubesched.state.objects import ObjectIndex

SELECTED_NODE = "volume.kubernetes.io/selected-node"

REASON_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"

_NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")


@dataclass(frozen=True, slots=True)
class BoundClaim:
    """`volume` is None when the claim speaks of one that is not there."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None
    reach: Terms
    #: The in-tree plugin of the volume, and its reach on nodes where a CSI driver has taken over; "" for none.
    migrated_plugin: str
    migrated_reach: Terms


@dataclass(frozen=True, slots=True)
class Provisioning:
    """What a class asks of the node for which it provisions. `capacities` is None where they are not published."""

    reach: Terms
    capacities: Ranked[CSIStorageCapacity] | None


@dataclass(frozen=True, slots=True)
class OpenClaim:
    """A claim to be bound. One with a `selected_node` is being provisioned for that node already."""

    claim: PersistentVolumeClaim
    size_bytes: int
    selected_node: str | None
    volumes: Ranked[PersistentVolume]
    #: By the volume's name its rank in `volumes`.
    ranks: dict[str, int]
    #: None where the class provisions nothing.
    provisioning: Provisioning | None


@dataclass(frozen=True, slots=True)
class PodClaims:
    """`open`: those with a selected node in the order of the pod, then the others from the smallest up."""

    bound: tuple[BoundClaim, ...]
    open: tuple[OpenClaim, ...]


def read_claims(pod: Pod, volumes: AssumedVolumes, objects: ObjectIndex) -> PodClaims | Status:
    """The pod's claims, or the rejection of a pod that no node can take as they are."""
    namespace = pod.metadata.namespace
    problem = _problem(pod, objects)
    if problem:
        return Status.unresolvable(problem)
    bound: list[BoundClaim] = []
    waiting: list[tuple[PersistentVolumeClaim, StorageClass]] = []
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
        waiting.append((claim, storage_class))
    opened = [_open(claim, storage_class, volumes, objects) for claim, storage_class in waiting]
    selected = [each for each in opened if each.selected_node is not None]
    others = sorted((each for each in opened if each.selected_node is None), key=lambda each: each.size_bytes)
    return PodClaims(tuple(bound), (*selected, *others))


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """The volume is known and the controller has finished its part."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def names_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is bound to the claim, or set aside for it."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        and reference.uid in ("", claim.metadata.uid)
    )


def storage_limit(capacity: CSIStorageCapacity) -> int | None:
    """The largest volume that can be made there, in bytes; None if unknown."""
    limit = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    return None if limit is None else quantity.value(limit)


def requested_bytes(claim: PersistentVolumeClaim) -> int:
    return quantity.value(claim.spec.resources.requests.get("storage", 0))


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


# -- bound claims


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


def reach_of(volume: PersistentVolume) -> Terms:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return EVERYWHERE
    return terms_of_node_selector(affinity.required)


# -- open claims


def _open(
    claim: PersistentVolumeClaim, storage_class: StorageClass, volumes: AssumedVolumes, objects: ObjectIndex
) -> OpenClaim:
    selected_node = claim.metadata.annotations.get(SELECTED_NODE)
    fitting = _fitting(claim, volumes) if selected_node is None else []
    return OpenClaim(
        claim,
        requested_bytes(claim),
        selected_node,
        Ranked((volume, reach_of(volume)) for volume in fitting),
        {volume.metadata.name: rank for rank, volume in enumerate(fitting)},
        _provisioning(claim, storage_class, objects),
    )


def _fitting(claim: PersistentVolumeClaim, volumes: AssumedVolumes) -> list[PersistentVolume]:
    """What may be bound to the claim, the smallest first; one set aside for it excludes all others."""
    spec, class_name = claim.spec, class_of_claim(claim)
    size_nanos = quantity.nano_value(spec.resources.requests.get("storage", 0))
    for volume in volumes.volumes_naming(claim.metadata.namespace, claim.metadata.name):
        if class_of_volume(volume) == class_name and names_claim(volume, claim) and _suits(volume, claim, size_nanos):
            return [volume]
    wanted = selectors.compile_label_selector(spec.selector) if spec.selector is not None else None
    modes = frozenset(spec.access_modes)
    found = [
        (quantity.nano_value(volume.spec.capacity.get("storage", 0)), volume.metadata.name, volume)
        for volume in volumes.free_volumes(class_name)
        if volume.status.phase == "Available"
        and _suits(volume, claim, size_nanos)
        and modes.issubset(volume.spec.access_modes)
        and (wanted is None or wanted.matches(volume.metadata.labels))
    ]
    found.sort()  # by size, then by name: that no two share
    return [volume for _, _, volume in found]


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim, size_nanos: int) -> bool:
    """By size, mode and volume attributes class, and not about to go."""
    spec, theirs = claim.spec, volume.spec
    return (
        quantity.nano_value(theirs.capacity.get("storage", 0)) >= size_nanos
        and (theirs.volume_mode or "Filesystem") == (spec.volume_mode or "Filesystem")
        and (theirs.volume_attributes_class_name or "") == (spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def may_serve(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is of the claim's class and free, or set aside for it."""
    if class_of_volume(volume) != class_of_claim(claim):
        return False
    free = volume.spec.claim_ref is None and volume.status.phase == "Available"
    return free or names_claim(volume, claim)


def _provisioning(
    claim: PersistentVolumeClaim, storage_class: StorageClass, objects: ObjectIndex
) -> Provisioning | None:
    if storage_class.provisioner in _NO_PROVISIONER:
        return None
    return Provisioning(_allowed(storage_class), _capacities(claim, storage_class, objects))


def _allowed(storage_class: StorageClass) -> Terms:
    if not storage_class.allowed_topologies:
        return EVERYWHERE
    return tuple(
        tuple(Requirement(each.key, "in", each.values) for each in term.match_label_expressions)
        for term in storage_class.allowed_topologies
        if term.match_label_expressions
    )


def _capacities(
    claim: PersistentVolumeClaim, storage_class: StorageClass, objects: ObjectIndex
) -> Ranked[CSIStorageCapacity] | None:
    """Where there is room for the claim, by name; None where the driver does not publish it."""
    driver: CSIDriver | None = objects.get("CSIDriver", storage_class.provisioner)
    if driver is None or not driver.spec.storage_capacity or "storage" not in claim.spec.resources.requests:
        return None
    size_bytes = requested_bytes(claim)
    enough = [
        capacity
        for capacity in objects.list("CSIStorageCapacity")
        if capacity.storage_class_name == storage_class.metadata.name
        and capacity.node_topology is not None
        and (limit := storage_limit(capacity)) is not None
        and limit >= size_bytes
    ]
    enough.sort(key=lambda capacity: (capacity.metadata.namespace, capacity.metadata.name))
    return Ranked(
        (capacity, terms_of_labels(selectors.compile_label_selector(capacity.node_topology))) for capacity in enough
    )
