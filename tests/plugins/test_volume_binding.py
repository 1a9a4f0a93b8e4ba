"""VolumeBinding: Filter, Score and queueing hints. Binding itself is in test_volume_binding_reserve."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kubesched.api import kinds
from kubesched.config.plugin_args import UtilizationShapePoint, VolumeBindingArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import ActionType, ClusterEvent
from kubesched.framework.status import Status
from kubesched.plugins.volume_binding.binding import bound_to
from kubesched.plugins.volume_binding.claims import PodClaims, read_claims
from kubesched.plugins.volume_binding.judging import judge, judge_rows
from kubesched.plugins.volume_binding.supply import Supply
from kubesched.state.pod_info import PodInfo
from tests.build import (
    HOSTNAME,
    ZONE,
    Builder,
    ClaimBuilder,
    NodeBuilder,
    PodBuilder,
    StorageClassBuilder,
    VolumeBuilder,
    make_csi_node,
    make_node,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
)
from tests.plugins.rig import QUEUE, SKIP, Rig, hints

CONFLICT = "UnschedulableAndUnresolvable: node(s) didn't match PersistentVolume's node affinity"
NOTHING = "UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind"
NO_SPACE = "UnschedulableAndUnresolvable: node(s) did not have enough free storage"
NO_VOLUME = "UnschedulableAndUnresolvable: node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

DRIVER = "csi.example.com"
SELECTED = "volume.kubernetes.io/selected-node"


def late(name: str, provisioner: str = "kubernetes.io/no-provisioner") -> StorageClassBuilder:
    return make_storage_class(name).provisioner(provisioner).wait_for_first_consumer()


LOCAL, FAST = late("local"), late("fast", DRIVER)


def local(name: str, node: str | None = None, size: str = "10Gi") -> VolumeBuilder:
    volume = make_pv(name).storage_class("local").capacity(size).local()
    return volume if node is None else volume.node_affinity_in(HOSTNAME, [node])


def claim(name: str = "data", storage_class: str = "local", size: str = "5Gi") -> ClaimBuilder:
    return make_pvc(name).storage_class(storage_class).request(size)


def capacity(name: str, amount: str, *, zone: str | None = "a", of: str = "fast", largest: str = "") -> Builder[Any]:
    rest: dict[str, Any] = {"storageClassName": of, "capacity": amount}
    if zone is not None:
        rest["nodeTopology"] = {"matchLabels": {ZONE: zone}} if zone else {}
    if largest:
        rest["maximumVolumeSize"] = largest
    return Builder(kinds.CSI_STORAGE_CAPACITY, name, **rest)


def driver(*, publishes: bool) -> Builder[Any]:
    return Builder(kinds.CSI_DRIVER, DRIVER, spec={"storageCapacity": publishes})


def nodes(count: int = 3) -> list[NodeBuilder]:
    """n1 in zone a, n2 in zone b, n3 in zone c, ..."""
    return [make_node(f"n{i + 1}").zone("abcdefgh"[i]) for i in range(count)]


def planned(rig: Rig, pod: PodBuilder) -> dict[str, Any]:
    """Per node that fits what would be bound and provisioned."""
    plugin, obj = rig.plugin("VolumeBinding"), pod.obj()
    state = CycleState(PodInfo(obj))
    assert plugin.pre_filter(state, obj, rig.state.nodes.all_nodes()) is None
    fits = [name for name, status in rig.filter(plugin, pod).items() if status is None]
    return {name: plugin.planned_volumes(state, obj, rig.info(name)) for name in fits}


# -- PreFilter


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        pytest.param([], 'persistentvolumeclaim "data" not found', id="missing"),
        pytest.param([claim()], "pod has unbound immediate PersistentVolumeClaims", id="class-missing"),
        pytest.param(
            [claim(), make_storage_class("local")], "pod has unbound immediate PersistentVolumeClaims", id="immediate"
        ),
        pytest.param([make_pvc("data")], "pod has unbound immediate PersistentVolumeClaims", id="no-class"),
        pytest.param(
            [
                LOCAL,
                Builder(kinds.PERSISTENT_VOLUME_CLAIM, "data", spec={"volumeName": "pv", "storageClassName": "local"}),
            ],
            "pod has unbound immediate PersistentVolumeClaims",
            id="named-volume-not-bound-yet",
        ),
        pytest.param([LOCAL, claim().deleting()], 'persistentvolumeclaim "data" is being deleted', id="going"),
        pytest.param(
            [claim().bound_to("pv").deleting(), local("pv", "n1")],
            'persistentvolumeclaim "data" is being deleted',
            id="bound-but-going",
        ),
        pytest.param(
            [Builder(kinds.PERSISTENT_VOLUME_CLAIM, "data", spec={"volumeName": "pv"}, status={"phase": "Lost"})],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
            id="lost",
        ),
        pytest.param([LOCAL, claim()], None, id="waits-for-the-pod"),
        pytest.param([claim().bound_to("pv")], None, id="bound"),
    ],
)
def test_pre_filter(objects: list[Any], reason: str | None) -> None:
    rig = Rig(nodes(), (), objects)
    expected = None if reason is None else Status.unresolvable(reason)
    assert rig.pre_filter(rig.plugin("VolumeBinding"), make_pod().pvc("data")) == expected


def test_pre_filter_of_ephemeral_volumes() -> None:
    rig = Rig(nodes(), (), [LOCAL])
    plugin, pod = rig.plugin("VolumeBinding"), make_pod("p").ephemeral_volume("scratch")
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert rig.pre_filter(plugin, pod) == Status.unresolvable(waiting)
    rig.state.objects.put("PersistentVolumeClaim", claim("p-scratch").obj())
    foreign = "PVC default/p-scratch was not created for pod default/p (pod is not owner)"
    assert rig.pre_filter(plugin, pod) == Status.unresolvable(foreign)
    rig.state.objects.put("PersistentVolumeClaim", claim("p-scratch").owner("Pod", "p", api_version="v1").obj())
    assert rig.pre_filter(plugin, pod) is None


def test_pods_without_claims_are_skipped() -> None:
    rig = Rig(nodes())
    plugin, pod = rig.plugin("VolumeBinding"), make_pod().volume(emptyDir={})
    assert rig.pre_filter(plugin, pod) == Status.skip()
    assert plugin.sign(pod.obj()) == ()
    assert plugin.sign(make_pod().pvc("data").obj()) is None
    assert plugin.sign(make_pod().ephemeral_volume("x").obj()) is None


# -- bound claims


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        pytest.param(local("pv", "n1"), [None, CONFLICT, CONFLICT], id="on-one-node"),
        pytest.param(local("pv"), [None, None, None], id="everywhere"),
        pytest.param(make_pv("pv").node_affinity_in(ZONE, ["a", "c"]), [None, CONFLICT, None], id="two-zones"),
        pytest.param(
            make_pv("pv").node_affinity_in(ZONE, ["a"]).node_affinity_in(ZONE, ["b"]),
            [None, None, CONFLICT],
            id="terms",
        ),
        pytest.param(
            make_pv("pv").source(nodeAffinity={"required": {"nodeSelectorTerms": []}}),
            [CONFLICT, CONFLICT, CONFLICT],
            id="no-term",
        ),
        pytest.param(
            make_pv("pv").source(
                nodeAffinity={
                    "required": {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
                        ]
                    }
                }
            ),
            [CONFLICT, CONFLICT, CONFLICT],
            id="names-of-nodes-count-for-nothing",
        ),
        pytest.param(make_pv("other"), [NO_VOLUME, NO_VOLUME, NO_VOLUME], id="volume-missing"),
    ],
)
def test_a_bound_claim_goes_where_its_volume_is(volume: VolumeBuilder, expected: list[str | None]) -> None:
    rig = Rig(nodes(), (), [volume, claim().bound_to("pv")])
    answers = rig.filter(rig.plugin("VolumeBinding"), make_pod().pvc("data"))
    assert list(answers.values()) == expected


def test_of_several_bound_claims_the_first_that_fails_counts() -> None:
    objects: list[Any] = [local("pv-1", "n1"), claim("one").bound_to("pv-1"), claim("two").bound_to("gone")]
    rig = Rig(nodes(2), (), objects)
    plugin = rig.plugin("VolumeBinding")
    assert rig.filter(plugin, make_pod().pvc("one").pvc("two")) == {"n1": NO_VOLUME, "n2": CONFLICT}
    assert rig.filter(plugin, make_pod().pvc("two").pvc("one")) == {"n1": NO_VOLUME, "n2": NO_VOLUME}


def test_where_a_csi_driver_took_over_its_topology_counts() -> None:
    zone_of_driver = "topology.gke.io/zone"
    volume = make_pv("pv").source(gcePersistentDisk={"pdName": "d"}).node_affinity_in(ZONE, ["a"])
    migrated = make_csi_node("n2").annotation("storage.alpha.kubernetes.io/migrated-plugins", "x,kubernetes.io/gce-pd")
    cluster = [
        make_node("n1").zone("a"),
        make_node("n2").zone("a"),
        make_node("n3").label(zone_of_driver, "a"),
    ]
    rig = Rig(cluster, (), [volume, claim().bound_to("pv"), migrated])
    plugin, pod = rig.plugin("VolumeBinding"), make_pod().pvc("data")
    assert rig.filter(plugin, pod) == {"n1": None, "n2": CONFLICT, "n3": CONFLICT}
    rig.state.set_node(make_node("n2").zone("b").label(zone_of_driver, "a").obj())
    assert rig.filter(plugin, pod) == {"n1": None, "n2": None, "n3": CONFLICT}


# -- claims to be bound


@pytest.mark.parametrize(
    ("volumes", "asked", "chosen"),
    [
        pytest.param(
            [local("big", size="20Gi"), local("small", size="6Gi")], claim(), "small", id="smallest-that-fits"
        ),
        pytest.param([local("pv", size="4Gi")], claim(), None, id="too-small"),
        pytest.param([local("pv", size="5368709120")], claim(size="5Gi"), "pv", id="exactly-as-large"),
        pytest.param([local("b"), local("a")], claim(), "a", id="by-name-among-equals"),
        pytest.param([local("pv").storage_class("other")], claim(), None, id="other-class"),
        pytest.param([local("pv").volume_mode("Block")], claim(), None, id="other-mode"),
        pytest.param([local("pv").volume_mode("Block")], claim().volume_mode("Block"), "pv", id="same-mode"),
        pytest.param([local("pv").access_modes("ReadOnlyMany")], claim(), None, id="access-mode-lacking"),
        pytest.param(
            [local("pv").access_modes("ReadWriteOnce", "ReadOnlyMany")],
            claim(),
            "pv",
            id="more-access-modes-than-asked",
        ),
        pytest.param([local("pv")], claim().volume_selector({"a": "b"}), None, id="not-selected"),
        pytest.param([local("pv").label("a", "b")], claim().volume_selector({"a": "b"}), "pv", id="selected"),
        pytest.param([local("pv").deleting()], claim(), None, id="going"),
        pytest.param([local("pv").claimed_by("other")], claim(), None, id="taken"),
        pytest.param(
            [local("free", size="5Gi"), local("pv").claimed_by("data", uid="")], claim(), "pv", id="set-aside-for-it"
        ),
        pytest.param([local("pv").claimed_by("data", uid="former")], claim(), None, id="set-aside-for-a-namesake"),
        pytest.param(
            [local("pv").claimed_by("data", namespace="b", uid="")], claim(), None, id="set-aside-in-another-namespace"
        ),
        pytest.param(
            [local("pv").source(volumeAttributesClassName="gold")], claim(), None, id="other-volume-attributes-class"
        ),
    ],
)
def test_which_volume_a_claim_gets(volumes: list[VolumeBuilder], asked: ClaimBuilder, chosen: str | None) -> None:
    rig = Rig(nodes(1), (), [LOCAL, asked, *volumes])
    plan = planned(rig, make_pod().pvc("data"))
    assert plan == ({} if chosen is None else {"n1": {"bind": {"data": chosen}, "provision": []}})


def test_a_released_volume_is_not_free() -> None:
    volume = local("pv")
    volume._doc["status"] = {"phase": "Released"}
    rig = Rig(nodes(1), (), [LOCAL, claim(), volume])
    assert rig.filter(rig.plugin("VolumeBinding"), make_pod().pvc("data")) == {"n1": NOTHING}


def test_each_node_has_its_own_volumes() -> None:
    objects: list[Any] = [LOCAL, claim(), local("pv-1", "n1"), local("pv-2", "n2", "6Gi"), local("pv-3", "n2", "7Gi")]
    rig = Rig(nodes(), (), objects)
    assert planned(rig, make_pod().pvc("data")) == {
        "n1": {"bind": {"data": "pv-1"}, "provision": []},
        "n2": {"bind": {"data": "pv-2"}, "provision": []},
    }
    assert rig.filter(rig.plugin("VolumeBinding"), make_pod().pvc("data"))["n3"] == NOTHING


def test_one_set_aside_elsewhere_excludes_all_others() -> None:
    objects: list[Any] = [LOCAL, claim(), local("pv-1", "n1"), local("pv-2", "n2").claimed_by("data", uid="")]
    assert list(planned(Rig(nodes(), (), objects), make_pod().pvc("data"))) == ["n2"]


def test_several_claims_share_out_the_volumes_the_smallest_first() -> None:
    objects: list[Any] = [
        LOCAL,
        claim("large", size="8Gi"),
        claim("small", size="1Gi"),
        local("n1-8", "n1", "8Gi"),
        local("n1-9", "n1", "9Gi"),
        local("n2-8", "n2", "8Gi"),
        local("n2-2", "n2", "2Gi"),
        local("n3-8", "n3", "8Gi"),
    ]
    pod = make_pod().pvc("large").pvc("small")
    rig = Rig(nodes(), (), objects)
    assert planned(rig, pod) == {
        "n1": {"bind": {"small": "n1-8", "large": "n1-9"}, "provision": []},
        "n2": {"bind": {"small": "n2-2", "large": "n2-8"}, "provision": []},
    }


def test_a_claim_that_is_named_twice_is_bound_once() -> None:
    rig = Rig(nodes(1), (), [LOCAL, claim(), local("pv")])
    assert planned(rig, make_pod().pvc("data").pvc("data")) == {"n1": {"bind": {"data": "pv"}, "provision": []}}


# -- provisioning


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([FAST], [None, None, None], id="anywhere"),
        pytest.param([late("fast").provisioner("")], [NOTHING] * 3, id="no-provisioner"),
        pytest.param([late("fast", DRIVER).topology(ZONE, ["a", "b"])], [None, None, NOTHING], id="allowed-topologies"),
        pytest.param(
            [late("fast", DRIVER).topology(ZONE, ["a"]).topology(ZONE, ["b"])], [None, None, NOTHING], id="two-terms"
        ),
        pytest.param([FAST, driver(publishes=False)], [None, None, None], id="capacity-not-published"),
        pytest.param([FAST, driver(publishes=True)], [NO_SPACE] * 3, id="no-capacity-known"),
        pytest.param(
            [FAST, driver(publishes=True), capacity("c", "5Gi")], [None, NO_SPACE, NO_SPACE], id="room-in-one-zone"
        ),
        pytest.param([FAST, driver(publishes=True), capacity("c", "4Gi")], [NO_SPACE] * 3, id="too-little-room"),
        pytest.param(
            [FAST, driver(publishes=True), capacity("c", "9Gi", largest="4Gi")], [NO_SPACE] * 3, id="volumes-too-small"
        ),
        pytest.param(
            [FAST, driver(publishes=True), capacity("c", "9Gi", of="slow")], [NO_SPACE] * 3, id="room-of-another-class"
        ),
        pytest.param(
            [FAST, driver(publishes=True), capacity("c", "9Gi", zone=None)], [NO_SPACE] * 3, id="room-nowhere"
        ),
        pytest.param(
            [FAST, driver(publishes=True), capacity("bad", "9Gi", zone="no such zone"), capacity("c", "9Gi")],
            [None, NO_SPACE, NO_SPACE],
            id="room-in-a-place-that-cannot-be-read",
        ),
        pytest.param(
            [FAST, driver(publishes=True), capacity("c", "9Gi", zone="")], [None, None, None], id="room-everywhere"
        ),
        pytest.param(
            [late("fast", DRIVER).topology(ZONE, ["b"]), driver(publishes=True), capacity("c", "9Gi")],
            [NOTHING, NO_SPACE, NOTHING],
            id="topology-before-room",
        ),
    ],
)
def test_provisioning(objects: list[Any], expected: list[str | None]) -> None:
    rig = Rig(nodes(), (), [claim(storage_class="fast"), *objects])
    pod = make_pod().pvc("data")
    assert list(rig.filter(rig.plugin("VolumeBinding"), pod).values()) == expected
    assert all(plan == {"bind": {}, "provision": ["data"]} for plan in planned(rig, pod).values())


def test_a_selected_node_ties_the_claim() -> None:
    rig = Rig(nodes(), (), [FAST, claim(storage_class="fast").annotation(SELECTED, "n2")])
    answers = rig.filter(rig.plugin("VolumeBinding"), make_pod().pvc("data"))
    assert answers == {"n1": NOTHING, "n2": None, "n3": NOTHING}


def test_a_claim_with_a_selected_node_takes_no_volume_that_exists() -> None:
    volume = make_pv("pv").storage_class("fast").capacity("10Gi")
    rig = Rig(nodes(1), (), [FAST, volume, claim(storage_class="fast").annotation(SELECTED, "n1")])
    assert planned(rig, make_pod().pvc("data")) == {"n1": {"bind": {}, "provision": ["data"]}}


def test_reasons_of_bound_and_open_claims_add_up() -> None:
    objects: list[Any] = [LOCAL, local("pv", "n1").claimed_by("bound"), claim("bound").bound_to("pv"), claim("open")]
    rig = Rig(nodes(2), (), objects)
    answers = rig.filter(rig.plugin("VolumeBinding"), make_pod().pvc("bound").pvc("open"))
    both = f"{NOTHING}, {CONFLICT.removeprefix('UnschedulableAndUnresolvable: ')}"
    assert answers == {"n1": NOTHING, "n2": both}


def test_what_is_kept_of_the_supply_is_given_up_when_it_changes() -> None:
    objects: list[Any] = [LOCAL, FAST, claim(), claim("made", "fast"), local("pv", "n1")]
    rig = Rig(nodes(2), (), objects)
    plugin, static, dynamic = rig.plugin("VolumeBinding"), make_pod().pvc("data"), make_pod().pvc("made")

    def fits(pod: PodBuilder) -> list[str]:
        return [name for name, status in rig.filter(plugin, pod).items() if status is None]

    def change(kind: str, obj: Any) -> None:
        rig.state.objects.put(kind, obj.obj())

    assert (fits(static), fits(dynamic)) == (["n1"], ["n1", "n2"])
    change("PersistentVolume", local("pv-2", "n2"))
    assert fits(static) == ["n1", "n2"]
    rig.state.volumes.assume_volume(bound_to(local("pv").obj(), claim("x").obj()))
    assert fits(static) == ["n2"]
    rig.state.volumes.forget_volume("pv")
    assert fits(static) == ["n1", "n2"]
    change("CSIDriver", driver(publishes=True))
    assert fits(dynamic) == []
    change("CSIStorageCapacity", capacity("c", "9Gi", zone="b"))
    assert fits(dynamic) == ["n2"]
    change("StorageClass", late("fast", DRIVER).topology(ZONE, ["a"]))
    assert fits(dynamic) == []
    change("PersistentVolumeClaim", claim("made", "fast", "20Gi"))
    change("StorageClass", FAST)
    assert fits(dynamic) == []


# -- one node at a time and all at once


@pytest.mark.parametrize("seed", range(12))
def test_rows_are_judged_as_nodes_are(seed: int) -> None:
    chance = random.Random(seed)

    def size() -> str:
        return f"{chance.randrange(1, 8)}Gi"

    cluster = [make_node(f"n{i}").zone(chance.choice("abc")) for i in range(12)]
    objects: list[Any] = [late("local"), late("fast", DRIVER), driver(publishes=chance.random() < 0.7)]
    objects.append(late("zoned", DRIVER).topology(ZONE, chance.sample("abc", 2)))
    objects += [capacity(f"c{i}", size(), zone=chance.choice(["a", "b", "c", "", None])) for i in range(3)]
    for i in range(30):
        volume = make_pv(f"pv{i}").storage_class(chance.choice(["local", "local", "fast"])).capacity(size())
        match chance.randrange(5):
            case 0:
                pass
            case 1:
                volume.node_affinity_in(ZONE, chance.sample("abc", chance.randrange(1, 3)))
            case 2:
                volume.node_affinity_in(ZONE, ["a"]).node_affinity_in(HOSTNAME, [f"n{chance.randrange(12)}"])
            case _:
                volume.node_affinity_in(HOSTNAME, [f"n{chance.randrange(12)}"])
        if chance.random() < 0.1:
            volume.claimed_by(f"d{chance.randrange(4)}", uid="")
        objects.append(volume)
    pod = make_pod()
    for i in range(chance.randrange(1, 5)):
        asked = claim(f"d{i}", chance.choice(["local", "local", "fast", "zoned"]), size())
        if chance.random() < 0.2:
            asked.bound_to(f"pv{chance.randrange(33)}")
        elif chance.random() < 0.1:
            asked.annotation(SELECTED, f"n{chance.randrange(12)}")
        objects.append(asked)
        pod.pvc(f"d{i}")
    rig = Rig(cluster, (), objects)
    claims = read_claims(pod.obj(), Supply(rig.state.volumes, rig.state.objects))
    assert isinstance(claims, PodClaims)
    for way in rig._ways():
        at_once = judge_rows(claims, way, rig.state.objects).tolist()
        assert at_once == [judge(claims, node, rig.state.objects).reasons for node in way.infos()]
    for node in rig.state.nodes.infos:
        decision = judge(claims, node, rig.state.objects)
        volumes = [volume.metadata.name for _, volume in decision.bind]
        assert len(set(volumes)) == len(volumes)


# -- Score


SHAPE = (UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10))


@pytest.mark.parametrize(
    ("objects", "scores"),
    [
        pytest.param(
            [LOCAL, claim(), local("pv-1", "n1"), local("pv-2", "n2", "20Gi")], [50, 25], id="fuller-is-better"
        ),
        pytest.param(
            [FAST, driver(publishes=True), capacity("a", "50Gi"), capacity("b", "5Gi", zone="b")],
            [10, 100],
            id="capacity",
        ),
        pytest.param([FAST], [0, 0], id="capacity-unknown"),
    ],
)
def test_score(objects: list[Any], scores: list[int]) -> None:
    asked = [] if objects[0] is LOCAL else [claim(storage_class="fast")]
    rig = Rig(nodes(2), (), [*objects, *asked])
    plugin = rig.plugin("VolumeBinding", VolumeBindingArgs(shape=SHAPE))
    pod = make_pod().pvc("data").obj()
    state = CycleState(PodInfo(pod))
    assert plugin.pre_filter(state, pod, rig.state.nodes.all_nodes()) is None
    assert plugin.pre_score(state, pod, rig.state.nodes.all_nodes()) is None
    assert plugin.score_rows(state, pod, rig.state.nodes.all_nodes()).tolist() == scores


def test_classes_are_averaged_and_rounded() -> None:
    objects: list[Any] = [LOCAL, FAST, claim("a", size="1Gi"), claim("b", "fast", "2Gi"), claim("c", "fast", "2Gi")]
    objects += [local("l", size="8Gi"), make_pv("f").storage_class("fast").capacity("4Gi")]
    objects += [make_pv("g").storage_class("fast").capacity("4Gi")]
    rig = Rig(nodes(1), (), objects)
    plugin = rig.plugin("VolumeBinding", VolumeBindingArgs(shape=SHAPE))
    pod = make_pod().pvc("a").pvc("b").pvc("c").obj()
    state = CycleState(PodInfo(pod))
    plugin.pre_filter(state, pod, rig.state.nodes.all_nodes())
    # 1 of 8 and 4 of 8: 12 and 50
    assert plugin.score_rows(state, pod, rig.state.nodes.all_nodes()).tolist() == [31]


def test_nothing_is_scored_unless_a_shape_is_set() -> None:
    rig = Rig(nodes(1), (), [LOCAL, claim(), local("pv")])
    assert rig.pre_score(rig.plugin("VolumeBinding"), make_pod().pvc("data")) == Status.skip()


# -- explanations


def test_details_say_what_is_wrong_with_which_claim() -> None:
    objects: list[Any] = [
        LOCAL,
        late("fast", DRIVER).topology(ZONE, ["a"]),
        local("pv", "n1"),
        claim("bound").bound_to("pv"),
        claim("open"),
        claim("made", "fast"),
        claim("gone").bound_to("lost"),
        claim("moving", "fast").annotation(SELECTED, "n1"),
    ]
    rig = Rig(nodes(2), (), objects)
    plugin = rig.plugin("VolumeBinding")

    def details(*claims: str) -> Any:
        pod = make_pod()
        for name in claims:
            pod.pvc(name)
        obj = pod.obj()
        state = CycleState(PodInfo(obj))
        plugin.pre_filter(state, obj, rig.state.nodes.all_nodes())
        return plugin.details(state, obj, rig.info("n2"))["claims"]

    assert details("bound") == {"bound": "is bound to volume pv, which the node cannot reach"}
    assert details("gone") == {"gone": "is bound to volume lost, which does not exist"}
    assert details("made") == {"made": "its class does not provision for the node (allowedTopologies)"}
    assert details("moving") == {"moving": "is being provisioned for node n1"}
    assert details("open") == {
        "open": "no volume that the node can reach is free for it, and its class provisions none"
    }


# -- queueing hints


def test_registered_events() -> None:
    either = ActionType.ADD | ActionType.UPDATE
    assert {each.event for each in Rig().plugin("VolumeBinding").events_to_register()} == {
        ClusterEvent("StorageClass", either),
        ClusterEvent("PersistentVolumeClaim", either),
        ClusterEvent("PersistentVolume", either),
        ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT),
        ClusterEvent("CSINode", either),
        ClusterEvent("CSIDriver", ActionType.UPDATE),
        ClusterEvent("CSIStorageCapacity", either),
    }


_ZONED = late("fast", DRIVER).topology(ZONE, ["a"])
_MIGRATED = make_csi_node("n1").annotation("storage.alpha.kubernetes.io/migrated-plugins", "kubernetes.io/gce-pd")


@pytest.mark.parametrize(
    ("kind", "old", "new", "hint"),
    [
        pytest.param("StorageClass", None, _ZONED, QUEUE, id="class-of-a-claim-added"),
        pytest.param("StorageClass", None, late("other", DRIVER), SKIP, id="other-class-added"),
        pytest.param("StorageClass", FAST, _ZONED, QUEUE, id="topologies-changed"),
        pytest.param("StorageClass", _ZONED, _ZONED.copy().annotation("a", "b"), SKIP, id="class-annotated"),
        pytest.param("PersistentVolumeClaim", None, claim(), QUEUE, id="own-claim-added"),
        pytest.param("PersistentVolumeClaim", claim(), claim().bound_to("pv"), QUEUE, id="own-claim-bound"),
        pytest.param("PersistentVolumeClaim", claim(), claim().label("a", "b"), SKIP, id="own-claim-labelled"),
        pytest.param("PersistentVolumeClaim", None, claim("x"), SKIP, id="another-claim"),
        pytest.param("PersistentVolumeClaim", None, claim().namespace("b"), SKIP, id="a-namesake"),
        pytest.param("PersistentVolume", None, local("new"), QUEUE, id="volume-of-the-class-added"),
        pytest.param("PersistentVolume", local("new").claimed_by("x"), local("new"), QUEUE, id="volume-freed"),
        pytest.param("PersistentVolume", None, local("new").claimed_by("x"), SKIP, id="taken-volume-added"),
        pytest.param("PersistentVolume", None, local("new").claimed_by("data", uid=""), QUEUE, id="set-aside-added"),
        pytest.param("PersistentVolume", None, make_pv("x").storage_class("slow"), SKIP, id="volume-of-another-class"),
        pytest.param("PersistentVolume", None, local("pv-bound"), QUEUE, id="volume-of-a-bound-claim"),
        pytest.param("Node", None, make_node("n1"), QUEUE, id="node-that-fits"),
        pytest.param("Node", None, make_node("n2"), SKIP, id="node-that-does-not"),
        pytest.param("CSINode", None, make_csi_node("n2"), SKIP, id="csi-node-of-one-that-does-not-fit"),
        pytest.param("CSINode", make_csi_node("n1"), _MIGRATED, QUEUE, id="migration-changed"),
        pytest.param("CSINode", make_csi_node("n1"), make_csi_node("n1").driver(DRIVER), SKIP, id="driver-registered"),
        pytest.param("CSIDriver", driver(publishes=True), driver(publishes=False), QUEUE, id="no-more-capacities"),
        pytest.param("CSIDriver", driver(publishes=False), driver(publishes=True), SKIP, id="capacities-from-now-on"),
        pytest.param("CSIStorageCapacity", None, capacity("c", "5Gi"), QUEUE, id="room-added"),
        pytest.param("CSIStorageCapacity", None, capacity("c", "4Gi"), SKIP, id="too-little-room-added"),
        pytest.param("CSIStorageCapacity", capacity("c", "1Gi"), capacity("c", "5Gi"), QUEUE, id="room-grew"),
        pytest.param("CSIStorageCapacity", capacity("c", "9Gi"), capacity("c", "5Gi"), SKIP, id="room-shrank"),
        pytest.param("CSIStorageCapacity", None, capacity("c", "9Gi", of="x"), SKIP, id="room-of-another-class"),
    ],
)
def test_hints(kind: str, old: Any, new: Any, hint: object) -> None:
    """The pod has a claim of each sort; n1 would do, n2 would not."""
    objects: list[Any] = [LOCAL, _ZONED, local("pv", "n1"), local("pv-bound"), claim(), claim("made", "fast")]
    rig = Rig([make_node("n1").zone("a"), make_node("n2").zone("b")], (), [*objects, claim("has").bound_to("pv-bound")])
    pod = make_pod().pvc("data").pvc("made").pvc("has")
    assert hints(rig.plugin("VolumeBinding"), kind, pod, old, new) == {hint}


def test_an_inline_volumes_driver_counts_for_its_hint() -> None:
    pod = make_pod().volume(csi={"driver": DRIVER})
    off = (driver(publishes=True), driver(publishes=False))
    assert hints(Rig().plugin("VolumeBinding"), "CSIDriver", pod, *off) == {QUEUE}


def test_nothing_wakes_a_pod_that_is_rejected_as_a_whole() -> None:
    rig = Rig([make_node("n1")], (), [LOCAL, claim().deleting()])
    plugin, pod = rig.plugin("VolumeBinding"), make_pod().pvc("data")
    assert hints(plugin, "PersistentVolume", pod, None, local("pv")) == {SKIP}
    assert hints(plugin, "Node", pod, None, make_node("n1")) == {SKIP}
    assert hints(plugin, "PersistentVolumeClaim", pod, claim(), claim().deleting()) == {SKIP}
