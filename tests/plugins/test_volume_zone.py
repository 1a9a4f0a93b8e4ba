"""VolumeZone."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import ActionType, ClusterEvent
from kubesched.framework.status import Status
from kubesched.plugins import volume_zone
from kubesched.state.pod_info import PodInfo
from tests.build import NodeBuilder, VolumeBuilder, make_node, make_pod, make_pv, make_pvc, make_storage_class
from tests.plugins.rig import QUEUE, SKIP, Rig, hints

WRONG = "UnschedulableAndUnresolvable: node(s) had no available volume zone"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def volume(**labels: str) -> VolumeBuilder:
    return make_pv("pv").labels(labels)


def rig_with(pv: VolumeBuilder, *nodes: NodeBuilder) -> Rig:
    return Rig(nodes, (), [pv, make_pvc("data").bound_to("pv")])


@pytest.mark.parametrize(
    ("of_volume", "of_node", "fits"),
    [
        pytest.param({ZONE: "a"}, {ZONE: "a"}, True, id="same-zone"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, False, id="other-zone"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b"}, True, id="BR-112-one-of-several"),
        pytest.param({ZONE: "a__b"}, {ZONE: "c"}, False, id="BR-112-none-of-several"),
        pytest.param({ZONE: "a__ b "}, {ZONE: "b"}, True, id="spaces-around-a-zone"),
        pytest.param({ZONE: "a__"}, {ZONE: "c"}, True, id="an-empty-zone-in-the-list-makes-it-void"),
        pytest.param({ZONE: "a"}, {"x": "y"}, True, id="BR-112-node-without-zones"),
        pytest.param({ZONE: "a"}, {REGION: "r"}, False, id="node-with-region-only"),
        pytest.param({BETA_ZONE: "a"}, {BETA_ZONE: "a"}, True, id="both-of-old"),
        pytest.param({BETA_ZONE: "a"}, {ZONE: "a"}, True, id="BR-112-volume-of-old-node-of-today"),
        pytest.param({BETA_ZONE: "a"}, {ZONE: "b"}, False, id="volume-of-old-node-of-today-elsewhere"),
        pytest.param({BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, False, id="label-of-old-comes-first"),
        pytest.param({ZONE: "a"}, {BETA_ZONE: "a"}, False, id="BR-112-volume-of-today-node-of-old"),
        pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False, id="region-differs"),
        pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "r"}, True, id="zone-and-region"),
        pytest.param({BETA_REGION: "r"}, {REGION: "r"}, True, id="region-of-old"),
    ],
)
def test_filter(of_volume: dict[str, str], of_node: dict[str, str], fits: bool) -> None:
    rig = rig_with(volume(**of_volume), make_node("n1").labels(of_node), make_node("n2").labels(of_volume))
    pod = make_pod().pvc("data")
    assert rig.filter(rig.plugin("VolumeZone"), pod)["n1"] == (None if fits else WRONG)
    assert volume_zone.fits(pod.obj(), rig.info("n1"), rig.state.objects) is fits


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        pytest.param([], 'persistentvolumeclaim "data" not found', id="no-claim"),
        pytest.param([make_pvc("data").bound_to("pv")], 'persistentvolume "pv" not found', id="no-volume"),
        pytest.param([make_pvc("data")], "PersistentVolumeClaim had no pv name and storageClass name", id="no-class"),
        pytest.param(
            [make_pvc("data").storage_class("x")], 'storageclass.storage.k8s.io "x" not found', id="class-missing"
        ),
        pytest.param(
            [make_pvc("data").storage_class("x"), make_storage_class("x")],
            "PersistentVolume had no name",
            id="class-binds-at-once",
        ),
        pytest.param(
            [make_pvc("data").storage_class("x"), make_storage_class("x").wait_for_first_consumer()],
            None,
            id="class-waits",
        ),
        pytest.param([make_pvc("data").bound_to("pv"), make_pv("pv")], None, id="volume-without-zones"),
    ],
)
def test_pre_filter(objects: list[Any], reason: str | None) -> None:
    rig = Rig([make_node()], (), objects)
    expected = Status.skip() if reason is None else Status.unresolvable(reason)
    assert rig.pre_filter(rig.plugin("VolumeZone"), make_pod().pvc("data")) == expected


def test_pods_without_named_claims_are_skipped() -> None:
    rig = Rig([make_node()])
    plugin = rig.plugin("VolumeZone")
    for pod in (make_pod(), make_pod().ephemeral_volume("scratch")):
        assert rig.pre_filter(plugin, pod) == Status.skip()
        assert plugin.sign(pod.obj()) == ()
    assert rig.pre_filter(plugin, make_pod().pvc("")) == Status.unresolvable("PersistentVolumeClaim had no name")
    assert plugin.sign(make_pod().pvc("data").obj()) is None


def test_details_name_volume_and_label() -> None:
    rig = rig_with(volume(**{ZONE: "a__b"}), make_node("n1").zone("c"))
    plugin, pod = rig.plugin("VolumeZone"), make_pod().pvc("data").obj()
    state = CycleState(PodInfo(pod))
    plugin.pre_filter(state, pod, rig.state.nodes.all_nodes())
    facts = {"volume": "pv", "label": ZONE, "allowed": ["a", "b"], "has": "c"}
    assert plugin.details(state, pod, rig.info("n1")) == facts


def test_hints() -> None:
    waits = make_storage_class("late").wait_for_first_consumer()
    rig = Rig([], (), [volume(**{ZONE: "a"}), make_pvc("data").bound_to("pv"), make_pvc("new").storage_class("late")])
    plugin = rig.plugin("VolumeZone")
    assert {each.event for each in plugin.events_to_register()} == {
        ClusterEvent("StorageClass", ActionType.ADD),
        ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT),
        ClusterEvent("PersistentVolumeClaim", ActionType.ADD | ActionType.UPDATE),
        ClusterEvent("PersistentVolume", ActionType.ADD | ActionType.UPDATE),
    }
    pod, unbound = make_pod().pvc("data"), make_pod().pvc("new")
    cases = [
        ("class-of-an-unbound-claim", "StorageClass", unbound, None, waits, QUEUE),
        ("class-of-nobody", "StorageClass", pod, None, waits, SKIP),
        ("class-that-binds-at-once", "StorageClass", unbound, None, make_storage_class("late"), SKIP),
        ("node-in-the-zone", "Node", pod, None, make_node("n").zone("a"), QUEUE),
        ("node-elsewhere", "Node", pod, None, make_node("n").zone("b"), SKIP),
        ("node-without-zones", "Node", pod, None, make_node("n"), QUEUE),
        ("own-claim", "PersistentVolumeClaim", pod, None, make_pvc("data"), QUEUE),
        ("own-claim-bound", "PersistentVolumeClaim", pod, make_pvc("data"), make_pvc("data").bound_to("pv"), QUEUE),
        ("own-claim-labelled", "PersistentVolumeClaim", pod, make_pvc("data"), make_pvc("data").label("a"), SKIP),
        ("another-claim", "PersistentVolumeClaim", pod, None, make_pvc("x"), SKIP),
        ("own-volume", "PersistentVolume", pod, None, volume(**{ZONE: "a"}), QUEUE),
        ("own-volume-moved", "PersistentVolume", pod, volume(**{ZONE: "b"}), volume(**{ZONE: "a"}), QUEUE),
        ("same-zones", "PersistentVolume", pod, volume(**{ZONE: "a__b"}), volume(**{ZONE: "b__a"}), SKIP),
        ("another-volume", "PersistentVolume", pod, None, make_pv("x").labels({ZONE: "a"}), SKIP),
    ]
    wrong = [name for name, kind, who, old, new, hint in cases if hints(plugin, kind, who, old, new) != {hint}]
    assert wrong == []
