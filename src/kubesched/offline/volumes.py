"""What the volume controller and provisioners do to volumes and claims, as far as later pods depend on it.

Pure functions from objects to objects. A provisioned volume can be reached from where its node is: by the topology keys
that the node's CSI driver reports, else by those of the class, else from everywhere. Published capacities are left as
they are; a real provisioner refreshes them every so often.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kubesched.api.core import (
    CSIPersistentVolumeSource,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from kubesched.api.meta import ObjectMeta, ObjectReference
from kubesched.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kubesched.api.storage import CSINode, StorageClass

_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


def bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> tuple[PersistentVolume, PersistentVolumeClaim]:
    """Both sides of a finished binding."""
    reference = ObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.uid,
        resource_version=claim.metadata.resource_version,
    )
    bound_volume = replace(
        volume,
        metadata=_annotated(volume.metadata, {_BOUND_BY_CONTROLLER: "yes"}),
        spec=replace(volume.spec, claim_ref=reference),
        status=replace(volume.status, phase="Bound"),
    )
    bound_claim = replace(
        claim,
        metadata=_annotated(claim.metadata, {_BIND_COMPLETED: "yes", _BOUND_BY_CONTROLLER: "yes"}),
        spec=replace(claim.spec, volume_name=volume.name),
        status=replace(
            claim.status, phase="Bound", access_modes=volume.spec.access_modes, capacity=volume.spec.capacity
        ),
    )
    return bound_volume, bound_claim


def with_selected_node(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    return replace(claim, metadata=_annotated(claim.metadata, {_SELECTED_NODE: node_name}))


def provisioned(
    claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node, csi_node: CSINode | None
) -> PersistentVolume:
    """A new volume for the claim, of exactly the size it asks for."""
    name = f"pvc-{claim.uid}"
    return PersistentVolume(
        metadata=ObjectMeta(name=name, uid=name, annotations={_PROVISIONED_BY: storage_class.provisioner}),
        spec=PersistentVolumeSpec(
            capacity={"storage": claim.spec.resources.requests.get("storage", "0")},
            access_modes=claim.spec.access_modes,
            storage_class_name=storage_class.name,
            volume_mode=claim.spec.volume_mode,
            volume_attributes_class_name=claim.spec.volume_attributes_class_name,
            persistent_volume_reclaim_policy=storage_class.reclaim_policy or "Delete",
            node_affinity=_near(node, _topology_keys(storage_class, csi_node)),
            csi=CSIPersistentVolumeSource(driver=storage_class.provisioner, volume_handle=name),
        ),
    )


def _topology_keys(storage_class: StorageClass, csi_node: CSINode | None) -> list[str]:
    for driver in csi_node.spec.drivers if csi_node is not None else ():
        if driver.name == storage_class.provisioner and driver.topology_keys:
            return list(driver.topology_keys)
    expressions = (e for term in storage_class.allowed_topologies for e in term.match_label_expressions)
    return list(dict.fromkeys(expression.key for expression in expressions))


def _near(node: Node, keys: Iterable[str]) -> VolumeNodeAffinity | None:
    labels = node.metadata.labels
    same = [NodeSelectorRequirement(key=key, operator="In", values=(labels[key],)) for key in keys if key in labels]
    if not same:
        return None
    return VolumeNodeAffinity(
        required=NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=tuple(same)),))
    )


def _annotated(metadata: ObjectMeta, more: dict[str, str]) -> ObjectMeta:
    return replace(metadata, annotations={**metadata.annotations, **more})
