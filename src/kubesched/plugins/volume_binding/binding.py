"""What has been decided for a pod's claims: assumed at once, written to the cluster, and waited for.

    Reserve   assume        volumes and claims count as taken for every pod that comes after
    PreBind   write         the volume gets its claimRef, or the claim its selected node, through the port
              wait          until the volume controller or the provisioner has finished, or given up
    Unreserve take_back     the assumptions; what is written stays and is seen through the watch

Waiting reads the index of objects, which the watch feeds, and looks when one of its objects changes, and every second.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubesched.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kubesched.api.errors import KubeschedError
from kubesched.api.meta import Object, ObjectReference
from kubesched.api.storage import CSINode
from kubesched.clock import Clock
from kubesched.framework.ports import ClusterPort
from kubesched.plugins import csi_migration
from kubesched.plugins.volume_binding.claims import SELECTED_NODE, is_fully_bound
from kubesched.plugins.volume_binding.judging import Decision
from kubesched.plugins.volume_binding.ranked import matches, terms_of_node_selector
from kubesched.plugins.volume_binding.supply import names_claim, reach_of
from kubesched.state.assumed_volumes import CLAIM, VOLUME, AssumedVolumes
from kubesched.state.cluster_state import ClusterState
from kubesched.state.node_info import NodeInfo

log = logging.getLogger("kubesched.plugins")

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"

_LOOK_EVERY_S: Final = 1.0


class VolumeBindingError(KubeschedError):
    """The volumes of a pod could not be bound; the text is the original's."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """Claims with the volume that each is to be bound to, and claims to be provisioned, both as they are to be."""

    node_name: str
    bind: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    provision: tuple[PersistentVolumeClaim, ...] = ()

    @property
    def all_bound(self) -> bool:
        return not self.bind and not self.provision


# -- assuming


def assume(decision: Decision, node_name: str, volumes: AssumedVolumes) -> Reserved:
    bind = []
    for claim, volume in decision.bind:
        to_be = bound_to(volume, claim)
        if to_be is not volume:
            volumes.assume_volume(to_be)
        bind.append((claim, to_be))
    provision = []
    for claim, _ in decision.provision:
        selected = selected_for(claim, node_name)
        if selected is not claim:
            volumes.assume_claim(selected)
        provision.append(selected)
    return Reserved(node_name, tuple(bind), tuple(provision))


def take_back(reserved: Reserved, volumes: AssumedVolumes) -> None:
    for _, volume in reserved.bind:
        volumes.forget_volume(volume.metadata.name)
    for claim in reserved.provision:
        volumes.forget_claim(claim.metadata.namespace, claim.metadata.name)


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume with the claim in its `claimRef`; the same one if it is there already.

    One that its owner had set aside for the claim is not marked as bound by the controller.
    """
    reference = volume.spec.claim_ref
    if names_claim(volume, claim) and reference is not None and reference.uid == claim.metadata.uid:
        return volume
    metadata = volume.metadata
    if not names_claim(volume, claim):
        annotations = {**metadata.annotations, BOUND_BY_CONTROLLER: "yes"}
        metadata = msgspec.structs.replace(metadata, annotations=annotations)
    return msgspec.structs.replace(
        volume,
        metadata=metadata,
        spec=msgspec.structs.replace(
            volume.spec,
            claim_ref=ObjectReference(
                kind=CLAIM,
                api_version="v1",
                namespace=claim.metadata.namespace,
                name=claim.metadata.name,
                uid=claim.metadata.uid,
                resource_version=claim.metadata.resource_version,
            ),
        ),
    )


def selected_for(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """The claim with the node selected for its provisioning; the same one if it is there already."""
    if claim.metadata.annotations.get(SELECTED_NODE) == node_name:
        return claim
    annotations = {**claim.metadata.annotations, SELECTED_NODE: node_name}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=annotations))


# -- binding


async def write(reserved: Reserved, port: ClusterPort) -> Reserved:
    """Put the decisions to the cluster, one after the other; returns them as the server has stored them."""
    bind = [(claim, await port.update_volume(volume, claim=claim)) for claim, volume in reserved.bind]
    provision = [await port.update_claim(claim, selected_node=reserved.node_name) for claim in reserved.provision]
    return Reserved(reserved.node_name, tuple(bind), tuple(provision))


async def wait(pod: Pod, written: Reserved, cluster: ClusterState, clock: Clock, timeout_s: float) -> None:
    """Until all is bound. Raises VolumeBindingError when it cannot be any more, or after `timeout_s` seconds."""
    started_s = clock.monotonic()
    log.info(
        "waiting for volumes to be bound pod=%s/%s node=%s bind=%s provision=%s",
        pod.metadata.namespace,
        pod.metadata.name,
        written.node_name,
        ",".join(f"{claim.metadata.name}:{volume.metadata.name}" for claim, volume in written.bind) or "-",
        ",".join(claim.metadata.name for claim in written.provision) or "-",
    )
    stir = _Stir(written, cluster)
    try:
        while True:
            try:
                if is_done(written, cluster):
                    return
            except VolumeBindingError as error:
                raise VolumeBindingError(f"binding volumes: {error}") from error
            left_s = started_s + timeout_s - clock.monotonic()
            if left_s <= 0:
                log.warning(
                    "volumes were not bound in time pod=%s/%s node=%s waited_s=%g claims=%s",
                    pod.metadata.namespace,
                    pod.metadata.name,
                    written.node_name,
                    timeout_s,
                    ",".join(claim.metadata.name for claim in _unbound(written, cluster)),
                )
                raise VolumeBindingError("binding volumes: context deadline exceeded")
            timer = clock.call_later(min(_LOOK_EVERY_S, left_s), stir.set)
            try:
                await stir.wait()
            finally:
                timer.cancel()
    finally:
        stir.close()


def is_done(written: Reserved, cluster: ClusterState) -> bool:
    """Whether every claim is bound now; raises VolumeBindingError when one can no longer be bound as decided."""
    node = cluster.nodes.by_name.get(written.node_name)
    if node is None or node.node is None:
        raise VolumeBindingError(f'failed to get node "{written.node_name}": node "{written.node_name}" not found')
    return all(_is_bound(claim, volume, node, cluster) for claim, volume in written.bind) and all(
        _is_provisioned(claim, node, cluster) for claim in written.provision
    )


def _is_bound(claim: PersistentVolumeClaim, written: PersistentVolume, node: NodeInfo, cluster: ClusterState) -> bool:
    name = written.metadata.name
    volume: PersistentVolume | None = cluster.objects.get(VOLUME, name)
    if volume is None:
        raise VolumeBindingError(f'failed to check binding: could not find v1.PersistentVolume "{name}": not found')
    seen = _claim_now(claim, cluster, "failed to check binding")
    if _is_behind(volume, written):
        return False
    _check_reach(volume, node, cluster)
    if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
        raise VolumeBindingError(f'ClaimRef got reset for pv "{name}"')
    return is_fully_bound(seen)


def _is_provisioned(written: PersistentVolumeClaim, node: NodeInfo, cluster: ClusterState) -> bool:
    claim = _claim_now(written, cluster, "failed to check provisioning pvc")
    if _is_behind(claim, written):
        return False
    name, annotations = claim.metadata.name, claim.metadata.annotations
    if not annotations:
        raise VolumeBindingError(f'selectedNode annotation reset for PVC "{name}"')
    if annotations.get(SELECTED_NODE) != node.name:
        # Provisioners take the annotation away when they cannot serve the node.
        raise VolumeBindingError(f'provisioning failed for PVC "{name}"')
    if claim.spec.volume_name:
        volume: PersistentVolume | None = cluster.objects.get(VOLUME, claim.spec.volume_name)
        if volume is None:
            return False  # the watch of volumes is a little behind that of claims
        _check_reach(volume, node, cluster)
    return is_fully_bound(claim)


def _claim_now(claim: PersistentVolumeClaim, cluster: ClusterState, context: str) -> PersistentVolumeClaim:
    namespace, name = claim.metadata.namespace, claim.metadata.name
    seen: PersistentVolumeClaim | None = cluster.objects.get(CLAIM, name, namespace)
    if seen is None:
        raise VolumeBindingError(f'{context}: could not find v1.PersistentVolumeClaim "{namespace}/{name}": not found')
    return seen


def _check_reach(volume: PersistentVolume, node: NodeInfo, cluster: ClusterState) -> None:
    reach = reach_of(volume)
    migration = csi_migration.of_volume(volume)
    if migration is not None and migration.topology_key is not None:
        csi_node: CSINode | None = cluster.objects.get("CSINode", node.name)
        if csi_migration.is_migrated(migration.plugin, csi_node):
            translated = csi_migration.translated_affinity(volume, migration.topology_key)
            reach = reach if translated is None else terms_of_node_selector(translated)
    if not matches(reach, node.labels):
        raise VolumeBindingError(
            f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node.name}": '
            "no matching NodeSelectorTerms"
        )


def _is_behind(seen: Object, written: Object) -> bool:
    """Whether the watch has not shown yet what was written."""
    try:
        return int(seen.metadata.resource_version) < int(written.metadata.resource_version)
    except ValueError:
        return False


def _unbound(written: Reserved, cluster: ClusterState) -> list[PersistentVolumeClaim]:
    claims = [*(claim for claim, _ in written.bind), *written.provision]
    found = ((claim, cluster.objects.get(CLAIM, claim.metadata.name, claim.metadata.namespace)) for claim in claims)
    return [claim for claim, seen in found if seen is None or not is_fully_bound(seen)]


class _Stir(asyncio.Event):
    """Set when a claim or volume that somebody waits for changes."""

    def __init__(self, written: Reserved, cluster: ClusterState) -> None:
        super().__init__()
        claims = [*(claim for claim, _ in written.bind), *written.provision]
        self._claims = {(claim.metadata.namespace, claim.metadata.name) for claim in claims}
        self._unsubscribe = [cluster.objects.subscribe(kind, self._changed) for kind in (VOLUME, CLAIM)]

    async def wait(self) -> Any:
        await super().wait()
        self.clear()

    def close(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def _changed(self, old: Any | None, new: Any | None) -> None:
        obj = new if new is not None else old
        if isinstance(obj, PersistentVolume):
            reference = obj.spec.claim_ref
            key = (reference.namespace, reference.name) if reference is not None else ("", "")
        else:
            assert obj is not None
            key = (obj.metadata.namespace, obj.metadata.name)
        if key in self._claims:
            self.set()
