"""Disks of former in-tree drivers, as their CSI drivers see them."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api.core import PersistentVolume
from kubesched.plugins import csi_migration
from kubesched.plugins.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE
from tests.build import VolumeBuilder, make_csi_node, make_pod, make_pv

DRIVER_ZONE = "topology.gke.io/zone"


def handle_of(volume: PersistentVolume) -> tuple[str, str | None] | None:
    migration = csi_migration.of_volume(volume)
    if migration is None:
        return None
    source = getattr(volume.spec, migration.source)
    return migration.driver, csi_migration.volume_handle(migration, source, volume.metadata.labels)


def gce(**labels: str) -> VolumeBuilder:
    return make_pv("pv").labels(labels).source(gcePersistentDisk={"pdName": "d"})


def ebs(volume_id: str) -> VolumeBuilder:
    return make_pv("pv").source(awsElasticBlockStore={"volumeID": volume_id})


EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        pytest.param(ebs("vol-1"), (EBS, "vol-1"), id="ebs"),
        pytest.param(ebs("aws://us-east-1a/vol-1"), (EBS, "vol-1"), id="ebs-with-zone"),
        pytest.param(ebs("aws:///vol-1"), (EBS, "vol-1"), id="ebs-url"),
        pytest.param(ebs("aws:///us-east-1a/vol-1"), (EBS, None), id="ebs-path"),
        pytest.param(ebs("aws://us-east-1a/disk-1"), (EBS, None), id="ebs-no-volume"),
        pytest.param(gce(), (GCE, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"), id="gce-without-zone"),
        pytest.param(gce(**{ZONE: "us-c-a"}), (GCE, "projects/UNSPECIFIED/zones/us-c-a/disks/d"), id="gce-zone"),
        pytest.param(
            gce(**{ZONE: "us-c-a", BETA_ZONE: "us-c-b"}),
            (GCE, "projects/UNSPECIFIED/zones/us-c-b/disks/d"),
            id="gce-old",
        ),
        pytest.param(
            gce(**{ZONE: "us-c-a__us-c-b"}), (GCE, "projects/UNSPECIFIED/regions/us-c/disks/d"), id="gce-region"
        ),
        pytest.param(gce(**{ZONE: "us-c-a__us-d-b"}), (GCE, None), id="gce-two-regions"),
        pytest.param(gce(**{ZONE: "a__b"}), (GCE, None), id="gce-zones-that-are-none"),
        pytest.param(
            make_pv("pv").source(azureDisk={"diskName": "d", "diskURI": "/sub/d"}),
            ("disk.csi.azure.com", "/sub/d"),
            id="az",
        ),
        pytest.param(make_pv("pv").source(cinder={"volumeID": "c"}), ("cinder.csi.openstack.org", "c"), id="cinder"),
        pytest.param(make_pv("pv").source(portworxVolume={"volumeID": "p"}), ("pxd.portworx.com", "p"), id="portworx"),
        pytest.param(
            make_pv("pv").source(vsphereVolume={"volumePath": "p"}), ("csi.vsphere.vmware.com", None), id="uncounted"
        ),
        pytest.param(make_pv("pv").csi("d"), None, id="csi"),
        pytest.param(make_pv("pv").local(), None, id="local"),
    ],
)
def test_driver_and_handle(volume: VolumeBuilder, expected: Any) -> None:
    assert handle_of(volume.obj()) == expected


def test_disks_inside_pods_and_provisioners() -> None:
    volumes = make_pod().volume(gcePersistentDisk={"pdName": "d"}).volume(emptyDir={}).obj().spec.volumes
    found = [csi_migration.of_pod_volume(volume) for volume in volumes]
    assert [migration and migration.driver for migration in found] == [GCE, None]
    by_name = csi_migration.of_plugin("kubernetes.io/azure-file")
    assert by_name is not None
    assert not by_name.counts
    assert csi_migration.of_plugin("csi.example.com") is None


@pytest.mark.parametrize(
    ("listed", "migrated"),
    [
        ("kubernetes.io/gce-pd", True),
        ("x,kubernetes.io/gce-pd,y", True),
        ("kubernetes.io/gce-pd-2", False),
        ("", False),
    ],
)
def test_nodes_say_what_is_migrated(listed: str, migrated: bool) -> None:
    csi_node = make_csi_node("n").annotation(csi_migration.MIGRATED_PLUGINS, listed).obj()
    assert csi_migration.is_migrated("kubernetes.io/gce-pd", csi_node) is migrated
    assert not csi_migration.is_migrated("kubernetes.io/gce-pd", None)
    assert not csi_migration.is_migrated("kubernetes.io/gce-pd", make_csi_node("n").obj())


@pytest.mark.parametrize(
    ("volume", "terms"),
    [
        pytest.param(gce(), None, id="nothing-to-say"),
        pytest.param(gce(**{ZONE: "a"}), [[(DRIVER_ZONE, ["a"])]], id="label"),
        pytest.param(gce(**{ZONE: "b__ a__"}), [[(DRIVER_ZONE, ["a", "b"])]], id="label-with-several"),
        pytest.param(gce(**{BETA_ZONE: "a"}), [[(DRIVER_ZONE, ["a"])]], id="label-of-old"),
        pytest.param(gce().node_affinity_in(ZONE, ["a"]), [[(DRIVER_ZONE, ["a"])]], id="term"),
        pytest.param(
            gce(**{ZONE: "b"}).node_affinity_in(ZONE, ["a"]), [[(DRIVER_ZONE, ["a"])]], id="term-before-label"
        ),
        pytest.param(
            gce(**{ZONE: "b"}).node_affinity_in("x", ["y"]),
            [[("x", ["y"]), (DRIVER_ZONE, ["b"])]],
            id="label-beside-term",
        ),
        pytest.param(gce().node_affinity_in(BETA_ZONE, ["a"]), [[(DRIVER_ZONE, ["a"])]], id="term-of-old"),
        pytest.param(
            gce().node_affinity_in(BETA_ZONE, ["a"]).node_affinity_in(BETA_REGION, ["r"]),
            [[(DRIVER_ZONE, ["a"])], [(REGION, ["r"])]],
            id="region-of-old",
        ),
        pytest.param(gce().node_affinity_in("x", ["y"]), [[("x", ["y"])]], id="other-terms"),
    ],
)
def test_affinity_in_terms_of_the_driver(volume: VolumeBuilder, terms: Any) -> None:
    translated = csi_migration.translated_affinity(volume.obj(), DRIVER_ZONE)
    if translated is None:
        assert terms is None
        return
    assert terms == [
        [(each.key, list(each.values)) for each in term.match_expressions] for term in translated.node_selector_terms
    ]
