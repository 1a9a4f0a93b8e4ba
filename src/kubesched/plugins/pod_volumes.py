"""What the volume plugins share: the claims that a pod names, and who owns the claim of an ephemeral volume."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubesched.api.core import PersistentVolumeClaim, Pod, Volume

READ_WRITE_ONCE_POD = "ReadWriteOncePod"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


class ClaimReference(NamedTuple):
    """`ephemeral`: the claim is made for this pod alone, by the controller, from the template in the pod."""

    name: str
    ephemeral: bool


def claim_references(pod: Pod) -> Iterator[ClaimReference]:
    """In the order of the pod's volumes."""
    for volume in pod.spec.volumes:
        reference = claim_reference(pod, volume)
        if reference is not None:
            yield reference


def claim_reference(pod: Pod, volume: Volume) -> ClaimReference | None:
    if volume.persistent_volume_claim is not None:
        return ClaimReference(volume.persistent_volume_claim.claim_name, ephemeral=False)
    if volume.ephemeral is not None:
        return ClaimReference(f"{pod.metadata.name}-{volume.name}", ephemeral=True)
    return None


def has_claims(pod: Pod) -> bool:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
            return True
    return False


def names_claim(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """By name: whether an ephemeral volume's claim is really the pod's own is not looked at."""
    return pod.metadata.namespace == claim.metadata.namespace and any(
        reference.name == claim.metadata.name for reference in claim_references(pod)
    )


def is_made_for(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether the claim is the one that the controller made for a volume of the pod."""
    owner = claim.metadata.controller
    return owner is not None and owner.uid == pod.metadata.uid


def not_made_for(pod: Pod, claim: PersistentVolumeClaim) -> str:
    mine, theirs = pod.metadata, claim.metadata
    return (
        f"PVC {theirs.namespace}/{theirs.name} was not created for pod {mine.namespace}/{mine.name} (pod is not owner)"
    )


def not_found(claim_name: str) -> str:
    return f'persistentvolumeclaim "{claim_name}" not found'
