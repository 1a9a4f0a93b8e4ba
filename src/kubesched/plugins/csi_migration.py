"""Disks of the former in-tree drivers, as the CSI drivers that took over see them (csi-translation-lib v0.36).

A volume or a pod may still speak of `awsElasticBlockStore` and the like. Where a node's CSINode says so, such a disk is
served by a CSI driver, counts against that driver's limit, and its topology is that of the driver.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from kubesched.api.core import PersistentVolume, Volume
from kubesched.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kubesched.api.storage import CSINode

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"

#: Separates the zones of a volume that lies in several.
ZONE_DELIMITER: Final = "__"

#: Of a source and the labels of its volume (empty for one inside a pod); None if the driver could make nothing of it.
_Handle = Callable[[Any, Mapping[str, str]], str | None]


@dataclass(frozen=True, slots=True)
class Migration:
    """`source`: the attribute that holds the in-tree source. `topology_key` is None where zones stay as they are.

    `handle` is None for drivers that are translated but whose migration the scheduler does not know.
    """

    plugin: str
    driver: str
    source: str
    handle: _Handle | None = None
    topology_key: str | None = None

    @property
    def counts(self) -> bool:
        """Whether its disks count as those of `driver` on nodes with a CSINode."""
        return self.handle is not None


def _aws_handle(source: Any, labels: Mapping[str, str]) -> str | None:
    volume_id: str = source.volume_id
    if not volume_id.startswith("aws://"):
        return volume_id
    name = volume_id.removeprefix("aws://").partition("/")[2].strip("/")
    return name if re.fullmatch("vol-[^/]*", name) else None


def _gce_handle(source: Any, labels: Mapping[str, str]) -> str | None:
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE, "")).split(ZONE_DELIMITER)
    if len(zones) == 1:
        return f"projects/UNSPECIFIED/zones/{zones[0] or 'UNSPECIFIED'}/disks/{source.pd_name}"
    regions = {zone.rpartition("-")[0] for zone in zones}
    if len(regions) != 1 or any(zone.count("-") != 2 for zone in zones):
        return None
    return f"projects/UNSPECIFIED/regions/{regions.pop()}/disks/{source.pd_name}"


MIGRATIONS: Final = (
    Migration(
        "kubernetes.io/aws-ebs",
        "ebs.csi.aws.com",
        "aws_elastic_block_store",
        _aws_handle,
        "topology.ebs.csi.aws.com/zone",
    ),
    Migration(
        "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "gce_persistent_disk", _gce_handle, "topology.gke.io/zone"
    ),
    Migration("kubernetes.io/azure-disk", "disk.csi.azure.com", "azure_disk", lambda source, labels: source.disk_uri),
    Migration(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "cinder",
        lambda source, labels: source.volume_id,
        "topology.cinder.csi.openstack.org/zone",
    ),
    Migration(
        "kubernetes.io/portworx-volume",
        "pxd.portworx.com",
        "portworx_volume",
        lambda source, labels: source.volume_id,
    ),
    Migration("kubernetes.io/azure-file", "file.csi.azure.com", "azure_file"),
    Migration("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", "vsphere_volume"),
)

_BY_PLUGIN = {migration.plugin: migration for migration in MIGRATIONS}


def of_plugin(name: str) -> Migration | None:
    """By the in-tree provisioner that a storage class names."""
    return _BY_PLUGIN.get(name)


def of_pod_volume(volume: Volume) -> Migration | None:
    return next((each for each in MIGRATIONS if getattr(volume, each.source) is not None), None)


def of_volume(volume: PersistentVolume) -> Migration | None:
    return next((each for each in MIGRATIONS if getattr(volume.spec, each.source, None) is not None), None)


def volume_handle(migration: Migration, source: Any, labels: Mapping[str, str]) -> str | None:
    """The name by which the CSI driver knows the disk; None if there is none."""
    return migration.handle(source, labels) if migration.handle is not None else None


def is_migrated(plugin: str, csi_node: CSINode | None) -> bool:
    """Whether the node says that the in-tree plugin's disks are served by CSI there."""
    if csi_node is None:
        return False
    return plugin in csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")


def translated_affinity(volume: PersistentVolume, topology_key: str) -> NodeSelector | None:
    """The volume's required node affinity in terms of the CSI driver.

    Zones in its terms get the driver's key; without any, the zone label of the volume becomes a requirement. Labels and
    keys of before v1.17 are understood.
    """
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    return _translated(required, tuple(sorted(volume.metadata.labels.items())), topology_key)


@lru_cache(4096)
def _translated(
    required: NodeSelector | None, labels: tuple[tuple[str, str], ...], topology_key: str
) -> NodeSelector | None:
    volume_labels = dict(labels)
    terms = required.node_selector_terms if required is not None else ()
    zone, region = _topology_labels(terms, volume_labels)
    if _values(terms, zone):
        terms = _renamed(terms, zone, topology_key)
    elif zones := {part.strip() for part in volume_labels.get(zone, "").split(ZONE_DELIMITER)} - {""}:
        within = NodeSelectorRequirement(topology_key, "In", tuple(sorted(zones)))
        terms = tuple(
            msgspec.structs.replace(term, match_expressions=(*term.match_expressions, within))
            for term in terms or (NodeSelectorTerm(),)
        )
    if region == BETA_REGION and _values(terms, region):
        terms = _renamed(terms, region, REGION)
    if required is None and not terms:
        return None
    return NodeSelector(terms)


def _topology_labels(terms: Iterable[NodeSelectorTerm], labels: Mapping[str, str]) -> tuple[str, str]:
    """Whether the volume speaks of zones by today's keys or by those of old; its terms count before its labels."""
    keys = {requirement.key for term in terms for requirement in term.match_expressions}
    for known in (keys, labels):
        if ZONE in known:
            return ZONE, REGION
        if BETA_ZONE in known:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _values(terms: Iterable[NodeSelectorTerm], key: str) -> bool:
    return any(
        requirement.key == key and requirement.values for term in terms for requirement in term.match_expressions
    )


def _renamed(terms: Iterable[NodeSelectorTerm], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        msgspec.structs.replace(
            term,
            match_expressions=tuple(
                msgspec.structs.replace(each, key=new) if each.key == old else each for each in term.match_expressions
            ),
        )
        for term in terms
    )
