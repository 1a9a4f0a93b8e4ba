"""NodeVolumeLimits."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kubesched.api import kinds
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import ActionType, ClusterEvent
from kubesched.framework.status import Status
from kubesched.state.pod_info import PodInfo
from tests.build import (
    Builder,
    ClaimBuilder,
    PodBuilder,
    VolumeBuilder,
    make_csi_node,
    make_node,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
)
from tests.plugins.rig import QUEUE, SKIP, Rig, hints

EXCEEDED = "Unschedulable: node(s) exceed max volume count"
EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"


def attachment(name: str, volume: str, *, node: str = "n1", attacher: str = EBS) -> Builder[Any]:
    spec = {"attacher": attacher, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return Builder(kinds.VOLUME_ATTACHMENT, name, spec=spec)


def bound(name: str, driver: str = EBS, handle: str = "") -> list[Any]:
    """A claim and its volume."""
    return [make_pvc(name).bound_to(f"pv-{name}"), make_pv(f"pv-{name}").csi(driver, handle)]


def node_with(limit: int | None, driver: str = EBS) -> Builder[Any]:
    return make_csi_node("n1").driver(driver, count=limit)


def owned(name: str, pod: str, storage_class: str = "fast") -> ClaimBuilder:
    return make_pvc(name).owner("Pod", pod, api_version="v1").storage_class(storage_class)


def aws(volume_id: str) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": volume_id}}


def in_tree(name: str, **source: Any) -> VolumeBuilder:
    return make_pv(name).source(**source)


A_POD = make_pod("old").pvc("a").node("n1")
CLASSES = [
    make_storage_class("fast").provisioner(EBS).wait_for_first_consumer(),
    make_storage_class("in-tree").provisioner("kubernetes.io/aws-ebs").wait_for_first_consumer(),
    make_storage_class("files").provisioner("kubernetes.io/azure-file").wait_for_first_consumer(),
]


@pytest.mark.parametrize(
    ("limit", "placed", "wanted", "objects", "fits"),
    [
        pytest.param(1, [], ["a"], bound("a"), True, id="one-of-one"),
        pytest.param(0, [], ["a"], bound("a"), False, id="none-at-all"),
        pytest.param(None, [A_POD], ["b"], bound("a") + bound("b"), True, id="no-limit-stated"),
        pytest.param(1, [A_POD], ["b"], bound("a") + bound("b"), False, id="one-more"),
        pytest.param(2, [A_POD], ["b"], bound("a") + bound("b"), True, id="one-more-of-two"),
        pytest.param(2, [A_POD], ["b", "c"], bound("a") + bound("b") + bound("c"), False, id="two-more"),
        pytest.param(1, [A_POD], ["b"], bound("a") + bound("b", GCE), True, id="another-driver"),
        pytest.param(1, [A_POD], ["a"], bound("a"), True, id="the-same-claim"),
        pytest.param(1, [A_POD], ["b"], bound("a", EBS, "h") + bound("b", EBS, "h"), True, id="the-same-handle"),
        pytest.param(1, [A_POD], ["b"], bound("a", GCE, "h") + bound("b", EBS, "h"), True, id="handle-of-another"),
        pytest.param(1, [], ["x"], [make_pvc("x").storage_class("fast")], True, id="to-be-provisioned"),
        pytest.param(0, [], ["x"], [make_pvc("x").storage_class("fast")], False, id="to-be-provisioned-too-many"),
        pytest.param(
            0, [], ["x"], [make_pvc("x").storage_class("in-tree")], False, id="to-be-provisioned-by-successor"
        ),
        pytest.param(0, [], ["x"], [make_pvc("x").storage_class("files")], True, id="to-be-provisioned-uncounted"),
        pytest.param(0, [], ["x"], [make_pvc("x").storage_class("gone")], True, id="class-missing"),
        pytest.param(0, [], ["x"], [make_pvc("x")], True, id="no-class"),
        pytest.param(0, [], ["x"], [make_pvc("x").storage_class("fast").bound_to("gone")], False, id="volume-missing"),
        pytest.param(0, [], ["x"], [make_pvc("x").bound_to("pv"), make_pv("pv").local()], True, id="not-a-csi-volume"),
        pytest.param(
            0,
            [],
            ["x"],
            [make_pvc("x").bound_to("pv"), in_tree("pv", **aws("vol-1"))],
            False,
            id="former-in-tree-volume",
        ),
        pytest.param(
            1,
            [make_pod("old").volume(**aws("aws://zone/vol-1")).node("n1")],
            ["x"],
            [make_pvc("x").bound_to("pv"), in_tree("pv", **aws("vol-1"))],
            True,
            id="the-same-disk-inside-a-pod",
        ),
        pytest.param(1, [], ["a"], [*bound("a"), *bound("b"), attachment("va", "pv-b")], False, id="left-attached"),
        pytest.param(
            2, [A_POD], ["b"], [*bound("a"), *bound("b"), attachment("va", "pv-a")], True, id="attached-for-a-pod"
        ),
        pytest.param(
            1, [], ["a"], [*bound("a"), *bound("b"), attachment("va", "pv-b", node="n2")], True, id="elsewhere"
        ),
        pytest.param(1, [], ["a"], [*bound("a"), attachment("va", "gone")], True, id="attachment-without-volume"),
        pytest.param(
            1, [make_pod("old").pvc("gone").node("n1")], ["a"], bound("a"), True, id="placed-pod-without-claim"
        ),
    ],
)
def test_filter(limit: int | None, placed: list[PodBuilder], wanted: list[str], objects: list[Any], fits: bool) -> None:
    rig = Rig([make_node("n1"), make_node("n2")], placed, [node_with(limit), *CLASSES, *objects])
    pod = make_pod()
    for claim in wanted:
        pod.pvc(claim)
    expected = {"n1": None if fits else EXCEEDED, "n2": None}
    assert rig.filter(rig.plugin("NodeVolumeLimits"), pod) == expected


def test_disks_inside_the_pod_count() -> None:
    rig = Rig([make_node("n1")], [make_pod("old").volume(**aws("vol-1")).node("n1")], [node_with(1)])
    plugin = rig.plugin("NodeVolumeLimits")
    assert rig.filter(plugin, make_pod().volume(**aws("vol-1")))["n1"] is None
    assert rig.filter(plugin, make_pod().volume(**aws("vol-2")))["n1"] == EXCEEDED
    assert rig.filter(plugin, make_pod().volume(azureFile={"secretName": "s", "shareName": "x"}))["n1"] is None


def test_claims_of_ephemeral_volumes_count_if_they_are_the_pods_own() -> None:
    rig = Rig([make_node("n1"), make_node("n2")], (), [node_with(0), *CLASSES, owned("pod-scratch", "pod")])
    plugin, pod = rig.plugin("NodeVolumeLimits"), make_pod().ephemeral_volume("scratch")
    assert rig.filter(plugin, pod) == {"n1": EXCEEDED, "n2": None}
    foreign = "Error: PVC default/pod-scratch was not created for pod default/pod (pod is not owner)"
    rig.state.objects.put("PersistentVolumeClaim", make_pvc("pod-scratch").storage_class("fast").obj())
    assert rig.filter(plugin, pod) == {"n1": foreign, "n2": foreign}


def test_a_placed_pod_with_somebody_elses_claim_is_an_error_where_it_matters() -> None:
    broken = make_pod("broken").ephemeral_volume("scratch").node("n1")
    objects = [*bound("a"), node_with(1), make_pvc("broken-scratch").storage_class("fast")]
    rig = Rig([make_node("n1"), make_node("n2")], [broken], objects)
    error = "Error: PVC default/broken-scratch was not created for pod default/broken (pod is not owner)"
    pod = make_pod().pvc("a").obj()
    plugin, state = rig.plugin("NodeVolumeLimits"), CycleState(PodInfo(pod))
    assert plugin.pre_filter(state, pod, rig.state.nodes.all_nodes()) is None
    verdicts = plugin.filter_rows(state, pod, rig.state.nodes.all_nodes())
    assert [s and f"{s.code.text}: {s.message}" for s in (verdicts.statuses[why] for why in verdicts.why)] == [
        error,
        None,
    ]


def test_a_missing_claim() -> None:
    rig = Rig([make_node("n1"), make_node("n2")])
    text = 'UnschedulableAndUnresolvable: looking up PVC default/gone: persistentvolumeclaim "gone" not found'
    assert rig.filter(rig.plugin("NodeVolumeLimits"), make_pod().pvc("gone")) == {"n1": text, "n2": text}


def test_pods_without_volumes_to_attach_are_skipped() -> None:
    rig = Rig([make_node()])
    plugin = rig.plugin("NodeVolumeLimits")
    for pod in (make_pod(), make_pod().volume(emptyDir={}), make_pod().volume(csi={"driver": EBS})):
        assert rig.pre_filter(plugin, pod) == Status.skip()
        assert plugin.sign(pod.obj()) == ()
    assert plugin.sign(make_pod().volume(**aws("v")).obj()) is None


def test_drivers_that_must_be_installed() -> None:
    driver: Builder[Any] = Builder(kinds.CSI_DRIVER, EBS, spec={"preventPodSchedulingIfMissing": True})
    objects = [driver, node_with(None), make_csi_node("n2").driver(GCE), *bound("a")]
    nodes = [make_node("n1"), make_node("n2"), make_node("n3")]
    missing = f"Unschedulable: {EBS} CSI driver is not installed on the node"
    pod = make_pod().pvc("a")
    rig = Rig(nodes, (), objects, features={"VolumeLimitScaling": True})
    assert rig.filter(rig.plugin("NodeVolumeLimits"), pod) == {"n1": None, "n2": missing, "n3": missing}
    rig = Rig(nodes, (), objects)
    assert rig.filter(rig.plugin("NodeVolumeLimits"), pod) == dict.fromkeys(("n1", "n2", "n3"), None)


def test_details_are_the_figures() -> None:
    rig = Rig([make_node("n1")], [A_POD], [node_with(1), *bound("a"), *bound("b"), *bound("c", GCE)])
    plugin, pod = rig.plugin("NodeVolumeLimits"), make_pod().pvc("b").pvc("c").obj()
    state = CycleState(PodInfo(pod))
    plugin.pre_filter(state, pod, rig.state.nodes.all_nodes())
    assert plugin.details(state, pod, rig.info("n1")) == {EBS: {"asked": 1, "attached": 1, "limit": 1}}


@pytest.mark.parametrize("seed", range(8))
def test_quick_and_exact_counts_agree_while_everything_changes(seed: int) -> None:
    """The quick bound must let no node pass that the exact count rejects, nor the other way round."""
    chance = random.Random(seed)
    names = [f"n{i}" for i in range(9)]
    rig = Rig([make_node(name) for name in names], (), CLASSES)
    plugin, objects = rig.plugin("NodeVolumeLimits"), rig.state.objects
    for i in range(12):
        objects.put("PersistentVolume", make_pv(f"pv-c{i}").csi(chance.choice([EBS, GCE]), f"h{i % 10}").obj())
        claim = make_pvc(f"c{i}")
        objects.put(
            "PersistentVolumeClaim", (claim.bound_to(f"pv-c{i}") if i % 3 else claim.storage_class("fast")).obj()
        )
    seen = set()
    for step in range(60):
        name = chance.choice(names)
        match chance.randrange(4):
            case 0:
                count = chance.choice([None, 0, 1, 2, 3, 5])
                objects.put("CSINode", make_csi_node(name).driver(EBS, count=count).driver(GCE, count=2).obj())
            case 1:
                va = attachment(f"va{chance.randrange(6)}", f"pv-c{chance.randrange(12)}", node=name)
                objects.put("VolumeAttachment", va.obj())
            case 2:
                rig.state.remove_pod(f"u{chance.randrange(8)}")
            case _:
                pod = make_pod(f"p{step}").uid(f"u{chance.randrange(8)}").node(name)
                for _ in range(chance.randrange(3)):
                    pod.pvc(f"c{chance.randrange(12)}")
                rig.state.set_pod(pod.obj())
        wanted = make_pod().pvc(f"c{chance.randrange(12)}").pvc(f"c{chance.randrange(12)}")
        answers = rig.filter(plugin, wanted)
        exact = plugin._wanted(wanted.obj())
        for node in rig.state.nodes.infos:
            rejected = bool(plugin._exceeded(exact, node, objects.get("CSINode", node.name)))
            assert (answers[node.name] is not None) is rejected
            seen.add(rejected)
    assert seen == {True, False}


def test_registered_events() -> None:
    assert {each.event for each in Rig().plugin("NodeVolumeLimits").events_to_register()} == {
        ClusterEvent("CSINode", ActionType.ADD | ActionType.UPDATE),
        ClusterEvent("Pod", ActionType.DELETE),
        ClusterEvent("PersistentVolumeClaim", ActionType.ADD),
        ClusterEvent("VolumeAttachment", ActionType.DELETE),
    }


@pytest.mark.parametrize(
    ("limit", "kind", "old", "new", "hint"),
    [
        pytest.param(2, "CSINode", node_with(1), node_with(2), QUEUE, id="limit-rose"),
        pytest.param(1, "CSINode", node_with(0), node_with(1), SKIP, id="limit-rose-not-enough"),
        pytest.param(None, "CSINode", node_with(1), node_with(None), QUEUE, id="limit-gone"),
        pytest.param(3, "CSINode", node_with(None), node_with(3), QUEUE, id="limit-stated"),
        pytest.param(3, "CSINode", node_with(3), node_with(3).annotation("a", "b"), SKIP, id="annotation"),
        pytest.param(2, "CSINode", None, node_with(2), QUEUE, id="csi-node-added"),
        pytest.param(1, "CSINode", None, node_with(1), SKIP, id="csi-node-added-full"),
        pytest.param(2, "CSINode", None, make_csi_node("gone").driver(EBS), SKIP, id="node-unknown"),
        pytest.param(2, "Pod", make_pod("x").pvc("z").node("n1"), None, QUEUE, id="pod-gone"),
        pytest.param(1, "Pod", make_pod("x").pvc("z").node("n1"), None, SKIP, id="pod-gone-still-full"),
        pytest.param(2, "Pod", make_pod("x").pvc("z").nominated("n1"), None, QUEUE, id="nominated-pod-gone"),
        pytest.param(2, "Pod", make_pod("x").pvc("z"), None, SKIP, id="pending-pod-gone"),
        pytest.param(2, "Pod", make_pod("x").node("n1"), None, SKIP, id="pod-without-volumes-gone"),
        pytest.param(2, "VolumeAttachment", attachment("va", "pv-z"), None, QUEUE, id="detached"),
        pytest.param(1, "VolumeAttachment", attachment("va", "pv-z"), None, SKIP, id="detached-still-full"),
        pytest.param(2, "VolumeAttachment", attachment("va", "pv-z", attacher=GCE), None, SKIP, id="other-driver"),
        pytest.param(1, "PersistentVolumeClaim", None, make_pvc("b"), QUEUE, id="own-claim"),
        pytest.param(1, "PersistentVolumeClaim", None, make_pvc("x"), SKIP, id="another-claim"),
    ],
)
def test_hints(limit: int | None, kind: str, old: Any, new: Any, hint: object) -> None:
    """The pod brings one volume to a node that has one; the cluster is as after the event."""
    rig = Rig([make_node("n1")], [A_POD], [node_with(limit), *bound("a"), *bound("b")])
    assert hints(rig.plugin("NodeVolumeLimits"), kind, make_pod().pvc("b"), old, new) == {hint}
