"""VolumeRestrictions."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Status
from kubesched.plugins import volume_restrictions
from kubesched.state.pod_info import PodInfo
from tests.build import PodBuilder, make_node, make_pod, make_pvc
from tests.plugins.rig import QUEUE, SKIP, Rig, hints, registered

DISK = "Unschedulable: node(s) had no available disk"
ONE_POD = (
    "Unschedulable: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use"
    " by another pod"
)


def gce(name: str, *, reads: bool = False) -> PodBuilder:
    return make_pod().volume(gcePersistentDisk={"pdName": name, "readOnly": reads})


def ebs(name: str, *, reads: bool = False) -> PodBuilder:
    return make_pod().volume(awsElasticBlockStore={"volumeID": name, "readOnly": reads})


def iscsi(iqn: str, *, portal: str = "10.0.0.1:3260", lun: int = 0, reads: bool = False) -> PodBuilder:
    return make_pod().volume(iscsi={"targetPortal": portal, "iqn": iqn, "lun": lun, "readOnly": reads})


def rbd(image: str, *monitors: str, pool: str = "rbd", reads: bool = False) -> PodBuilder:
    return make_pod().volume(rbd={"monitors": list(monitors), "image": image, "pool": pool, "readOnly": reads})


@pytest.mark.parametrize(
    ("mounted", "wanted", "fits"),
    [
        pytest.param(gce("d"), gce("d"), False, id="gce-same"),
        pytest.param(gce("d"), gce("e"), True, id="gce-other"),
        pytest.param(gce("d", reads=True), gce("d", reads=True), True, id="gce-both-read"),
        pytest.param(gce("d", reads=True), gce("d"), False, id="gce-one-writes"),
        pytest.param(ebs("d"), ebs("d"), False, id="ebs-same"),
        pytest.param(ebs("d", reads=True), ebs("d", reads=True), False, id="ebs-even-if-both-read"),
        pytest.param(ebs("d"), gce("d"), True, id="same-name-other-kind"),
        pytest.param(iscsi("i"), iscsi("i", portal="10.0.0.2:3260", lun=3), False, id="iscsi-name-alone-counts"),
        pytest.param(iscsi("i", reads=True), iscsi("i", reads=True), True, id="iscsi-both-read"),
        pytest.param(iscsi("i"), iscsi("j"), True, id="iscsi-other"),
        pytest.param(rbd("i", "m1", "m2"), rbd("i", "m2", "m3"), False, id="rbd-shared-monitor"),
        pytest.param(rbd("i", "m1"), rbd("i", "m2"), True, id="rbd-other-monitors"),
        pytest.param(rbd("i", "m1"), rbd("i", "m1", pool="ssd"), True, id="rbd-other-pool"),
        pytest.param(rbd("i", "m1", reads=True), rbd("i", "m1", reads=True), True, id="rbd-both-read"),
        pytest.param(gce("x").volume(emptyDir={}), gce("y").volume(gcePersistentDisk={"pdName": "x"}), False, id="2nd"),
    ],
)
def test_disks(mounted: PodBuilder, wanted: PodBuilder, fits: bool) -> None:
    rig = Rig([make_node("n1"), make_node("n2")], [mounted.copy().namespace("other").node("n1")])
    expected = {"n1": None if fits else DISK, "n2": None}
    assert rig.filter(rig.plugin("VolumeRestrictions"), wanted) == expected
    assert volume_restrictions.disk_is_free(wanted.obj(), rig.info("n1")) is fits


def one_pod_claim(name: str = "data", namespace: str = "default") -> Any:
    return make_pvc(name).namespace(namespace).access_modes("ReadWriteOncePod")


@pytest.mark.parametrize(
    ("claims", "user", "free"),
    [
        pytest.param([one_pod_claim()], make_pod("u").pvc("data"), False, id="in-use"),
        pytest.param([one_pod_claim()], make_pod("u").pvc("other"), True, id="another-claim-in-use"),
        pytest.param([make_pvc("data")], make_pod("u").pvc("data"), True, id="bears-several-pods"),
        pytest.param([one_pod_claim()], make_pod("u").namespace("b").pvc("data"), True, id="name-in-use-elsewhere"),
    ],
)
def test_a_claim_that_bears_one_pod(claims: list[Any], user: PodBuilder, free: bool) -> None:
    rig = Rig([make_node("n1"), make_node("n2")], [user.copy().node("n1")], claims)
    expected = dict.fromkeys(("n1", "n2"), None if free else ONE_POD)
    assert rig.filter(rig.plugin("VolumeRestrictions"), make_pod().pvc("data")) == expected


def test_a_disk_comes_before_a_claim_in_use() -> None:
    users = [make_pod("u").pvc("data").node("n2"), gce("d").node("n1")]
    rig = Rig([make_node("n1"), make_node("n2")], users, [one_pod_claim()])
    assert rig.filter(rig.plugin("VolumeRestrictions"), gce("d").pvc("data")) == {"n1": DISK, "n2": ONE_POD}


def test_pre_filter() -> None:
    rig = Rig([make_node()], (), [one_pod_claim()])
    plugin = rig.plugin("VolumeRestrictions")
    assert rig.pre_filter(plugin, make_pod()) == Status.skip()
    assert rig.pre_filter(plugin, make_pod().pvc("data")) == Status.skip()
    missing = Status.unresolvable('persistentvolumeclaim "gone" not found')
    assert rig.pre_filter(plugin, make_pod().pvc("data").pvc("gone")) == missing
    assert rig.pre_filter(plugin, make_pod().ephemeral_volume("gone")) == Status.skip()


def test_preemption_frees_a_claim_and_reprieve_takes_it_again() -> None:
    foreign = make_pod("u").namespace("b").pvc("data").node("n1")
    rig = Rig([make_node("n1")], [make_pod("u").pvc("data").node("n1"), foreign], [one_pod_claim()])
    plugin, pod = rig.plugin("VolumeRestrictions"), make_pod().pvc("data").obj()
    state = CycleState(PodInfo(pod))
    assert plugin.pre_filter(state, pod, rig.state.nodes.all_nodes()) is None
    node = rig.info("n1")
    users = {info.key: info for info in node.pods.values()}
    dry = state.clone()

    def free() -> bool:
        return plugin.filter_rows(dry, pod, rig.state.nodes.all_nodes()) is None

    assert plugin.remove_pod(dry, pod, users["b/u"], node) is None
    assert not free()
    assert plugin.remove_pod(dry, pod, users["default/u"], node) is None
    assert free()
    assert plugin.add_pod(dry, pod, users["b/u"], node) is None
    assert free()
    assert plugin.add_pod(dry, pod, users["default/u"], node) is None
    assert not free()
    assert plugin.filter_rows(state, pod, rig.state.nodes.all_nodes()) is not None


def test_signs() -> None:
    plugin = Rig().plugin("VolumeRestrictions")
    assert plugin.sign(make_pod().volume(emptyDir={}).obj()) == ()
    assert plugin.sign(gce("d").obj()) == plugin.sign(gce("d").label("a", "b").obj()) != plugin.sign(gce("e").obj())
    assert plugin.sign(make_pod().pvc("data").obj()) is None


def test_details_name_the_disk_or_the_claim_and_who_has_it() -> None:
    pods = [gce("d").node("n1"), make_pod("u").pvc("data").node("n2")]
    rig = Rig([make_node("n1"), make_node("n2")], pods, [one_pod_claim()])
    plugin, pod = rig.plugin("VolumeRestrictions"), gce("d").pvc("data").obj()
    state = CycleState(PodInfo(pod))
    plugin.pre_filter(state, pod, rig.state.nodes.all_nodes())
    assert plugin.details(state, pod, rig.info("n1")) == {"disk": "d", "pod": "default/pod"}
    holder = {"claim": "default/data", "pod": "default/u", "node": "n2"}
    assert plugin.details(state, pod, rig.info("n2")) == holder


@pytest.mark.parametrize(
    ("waiting", "gone", "hint"),
    [
        pytest.param(gce("d"), gce("d").node("n1"), QUEUE, id="had-the-disk"),
        pytest.param(gce("d"), gce("d").namespace("b").node("n1"), QUEUE, id="had-the-disk-in-another-namespace"),
        pytest.param(gce("d"), gce("e").node("n1"), SKIP, id="had-another-disk"),
        pytest.param(make_pod().pvc("data"), make_pod("u").pvc("data").node("n1"), QUEUE, id="used-the-claim"),
        pytest.param(make_pod().pvc("data"), make_pod("u").pvc("x").node("n1"), SKIP, id="used-another-claim"),
        pytest.param(
            make_pod().pvc("data"), make_pod("u").namespace("b").pvc("data").node("n1"), SKIP, id="name-elsewhere"
        ),
    ],
)
def test_pod_hints(waiting: PodBuilder, gone: PodBuilder, hint: object) -> None:
    assert hints(Rig().plugin("VolumeRestrictions"), "Pod", waiting, gone, None) == {hint}


def test_other_hints() -> None:
    plugin = Rig().plugin("VolumeRestrictions")
    assert registered(plugin) == {
        ("Pod", "PodDelete"),
        ("Node", "NodeAdd|UpdateNodeTaint"),
        ("PersistentVolumeClaim", "PersistentVolumeClaimAdd"),
    }
    pod = make_pod().pvc("data")
    assert hints(plugin, "PersistentVolumeClaim", pod, None, make_pvc("data")) == {QUEUE}
    assert hints(plugin, "PersistentVolumeClaim", pod, None, make_pvc("x")) == {SKIP}
    assert hints(plugin, "PersistentVolumeClaim", pod, None, make_pvc("data").namespace("b")) == {SKIP}
    assert hints(plugin, "Node", pod, None, make_node()) == {QUEUE}
