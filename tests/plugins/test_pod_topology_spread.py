"""PodTopologySpread. Ids with BR are of reports from the field."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kubesched.api import codec, kinds
from kubesched.api.core import TopologySpreadConstraint
from kubesched.config.plugin_args import PodTopologySpreadArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Code, Status
from kubesched.plugins.pod_topology_spread_counts import topology_weight
from kubesched.state import consistency
from kubesched.state.pod_info import PodInfo
from tests.build import (
    Builder,
    NodeBuilder,
    PodBuilder,
    make_node,
    make_pod,
    make_replica_set,
    make_replication_controller,
    make_service,
    make_stateful_set,
)
from tests.harness import Harness
from tests.plugins.rig import QUEUE, SKIP, Rig, hints, registered

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
SKEW = "Unschedulable: node(s) didn't match pod topology spread constraints"
LABEL = "UnschedulableAndUnresolvable: node(s) didn't match pod topology spread constraints (missing required label)"
CORDONED = "node.kubernetes.io/unschedulable"
WEB = {"app": "web"}


def node(name: str, zone: str | None = None) -> NodeBuilder:
    made = make_node(name).label(HOST, name)
    return made if zone is None else made.zone(zone)


def web(name: str, where: str) -> PodBuilder:
    return make_pod(name).labels(WEB).node(where)


def asks(*args: Any, **options: Any) -> PodBuilder:
    return make_pod("asks").labels(WEB).spread(*args, **options)


def three_zones() -> list[NodeBuilder]:
    return [node("a1", "a"), node("b1", "b"), node("c1", "c")]


CASES = [
    pytest.param(
        [node("a1", "a"), node("none")],
        [],
        asks(ZONE, WEB),
        {"a1": None, "none": LABEL},
        id="BR-34-a-node-lacks-the-key",
    ),
    pytest.param(
        [node("x"), node("y")], [], asks(ZONE, WEB), {"x": LABEL, "y": LABEL}, id="BR-34-all-nodes-lack-the-key"
    ),
    pytest.param(
        three_zones(),
        [web("1", "a1"), web("2", "b1")],
        asks(ZONE, WEB),
        {"a1": SKEW, "b1": SKEW, "c1": None},
        id="the-emptiest-domain",
    ),
    pytest.param(
        three_zones(),
        [web("1", "a1"), web("2", "a1"), web("3", "b1")],
        asks(ZONE, WEB, max_skew=2),
        {"a1": SKEW, "b1": None, "c1": None},
        id="a-skew-of-two",
    ),
    pytest.param(
        [node("n1", "a").label("rack", "1"), node("n2", "b").label("rack", "2"), node("n3", "c")],
        [web("1", "n1"), web("2", "n2")],
        asks(ZONE, WEB).spread("rack", WEB),
        {"n1": None, "n2": None, "n3": LABEL},
        id="BR-35-a-node-with-one-key-of-two-is-no-domain",
    ),
    pytest.param(
        [node("a1", "a"), node("b1", "b"), node("c1", "c").taint("x")],
        [web("1", "a1"), web("2", "b1")],
        asks(ZONE, WEB),
        {"a1": SKEW, "b1": SKEW, "c1": None},
        id="BR-37-taints-are-ignored-by-default",
    ),
    pytest.param(
        [node("a1", "a"), node("b1", "b"), node("c1", "c").taint("x")],
        [web("1", "a1"), web("2", "b1")],
        asks(ZONE, WEB, node_taints_policy="Honor"),
        {"a1": None, "b1": None, "c1": None},
        id="BR-37-taints-are-honored-on-request",
    ),
    pytest.param(
        [node("a1", "a"), node("b1", "b"), node("c1", "c").taint("x")],
        [web("1", "a1"), web("2", "b1")],
        asks(ZONE, WEB, node_taints_policy="Honor").toleration("x", operator="Exists"),
        {"a1": SKEW, "b1": SKEW, "c1": None},
        id="a-tolerated-taint-does-not-count",
    ),
    pytest.param(
        [node("a1", "a"), node("b1", "b"), node("c1", "c").taint("x")],
        [web("1", "a1"), web("2", "b1")],
        asks(ZONE, WEB).toleration("y", operator="Exists"),
        {"a1": SKEW, "b1": SKEW, "c1": None},
        id="BR-37-a-tainted-zone-counts-although-nobody-may-go-there",
    ),
    pytest.param(
        [node("a1", "a"), node("b1", "b"), node("c1", "c").unschedulable().taint(CORDONED)],
        [web("1", "a1"), web("2", "b1")],
        asks(ZONE, WEB),
        {"a1": SKEW, "b1": SKEW, "c1": None},
        id="BR-37-a-cordoned-zone-counts-by-default",
    ),
    pytest.param(
        [node("a1", "a"), node("b1", "b"), node("c1", "c").unschedulable().taint(CORDONED)],
        [web("1", "a1"), web("2", "b1")],
        asks(ZONE, WEB, node_taints_policy="Honor"),
        {"a1": None, "b1": None, "c1": None},
        id="BR-37-a-cordoned-zone-is-left-out-on-request",
    ),
    pytest.param(
        [node("a1", "a").label("pool", "x"), node("b1", "b").label("pool", "x"), node("c1", "c")],
        [web("1", "a1"), web("2", "b1")],
        asks(ZONE, WEB).node_selector({"pool": "x"}),
        {"a1": None, "b1": None, "c1": None},
        id="BR-38-the-node-selector-narrows-the-domains",
    ),
    pytest.param(
        [node("a1", "a").label("pool", "x"), node("b1", "b").label("pool", "x"), node("c1", "c")],
        [web("1", "a1"), web("2", "b1")],
        asks(ZONE, WEB, node_affinity_policy="Ignore").node_affinity_in("pool", ["x"]),
        {"a1": SKEW, "b1": SKEW, "c1": None},
        id="BR-38-node-affinity-is-ignored-on-request",
    ),
    pytest.param(
        three_zones(),
        [web(str(number), "a1") for number in range(5)],
        asks(ZONE),
        {"a1": None, "b1": None, "c1": None},
        id="BR-40-no-selector-counts-nothing",
    ),
    pytest.param(
        three_zones(),
        [web(str(number), "a1") for number in range(5)],
        asks(ZONE, selector={}),
        {"a1": None, "b1": None, "c1": None},
        id="BR-40-an-empty-selector-counts-nothing",
    ),
    pytest.param(
        three_zones(),
        [web("1", "a1").label("rev", "1"), web("2", "b1").label("rev", "2")],
        asks(ZONE, selector={}, match_label_keys=["rev", "absent"]).label("rev", "1"),
        {"a1": SKEW, "b1": None, "c1": None},
        id="BR-40-label-keys-fill-an-empty-selector",
    ),
    pytest.param(
        three_zones(),
        [web("1", "a1").label("rev", "1")],
        asks(ZONE, match_label_keys=["rev"]).label("rev", "1"),
        {"a1": None, "b1": None, "c1": None},
        id="BR-40-label-keys-do-not-fill-an-absent-selector",
    ),
    pytest.param(
        [node("a1", "a"), node("b1", "b")],
        [web("1", "a1")],
        make_pod("asks").label("app", "other").spread(ZONE, WEB),
        {"a1": None, "b1": None},
        id="BR-41-the-pod-does-not-count-itself",
    ),
    pytest.param(
        [node("a1", "a"), node("b1", "b")],
        [web("1", "a1").deleting(), web("2", "b1").namespace("other")],
        asks(ZONE, WEB),
        {"a1": None, "b1": None},
        id="BR-43-terminating-pods-and-other-namespaces",
    ),
    pytest.param(
        [node("a1", "a"), node("b1", "b")],
        [web("1", "a1"), web("2", "b1")],
        asks(ZONE, WEB, min_domains=3),
        {"a1": SKEW, "b1": SKEW},
        id="too-few-domains",
    ),
    pytest.param(
        three_zones(),
        [web("1", "a1"), web("2", "b1"), web("3", "c1")],
        asks(ZONE, WEB, min_domains=3),
        {"a1": None, "b1": None, "c1": None},
        id="enough-domains",
    ),
    pytest.param(
        [node("n1", "a"), node("n2", "a"), node("n3", "b")],
        [web("1", "n1"), web("2", "n2"), web("3", "n3"), web("4", "n3"), web("5", "n1")],
        asks(ZONE, WEB).spread(HOST, WEB),
        {"n1": SKEW, "n2": SKEW, "n3": SKEW},
        id="joint-constraints-can-lock-each-other",
    ),
    pytest.param(
        [node("a1", "a"), node("none")],
        [web(str(number), "none") for number in range(3)],
        asks(ZONE, WEB),
        {"a1": None, "none": LABEL},
        id="pods-on-nodes-without-the-key-do-not-count",
    ),
]


@pytest.mark.parametrize(("nodes", "placed", "pod", "expected"), CASES)
def test_filter(
    nodes: list[NodeBuilder], placed: list[PodBuilder], pod: PodBuilder, expected: dict[str, str | None]
) -> None:
    rig = Rig(nodes, placed)
    assert rig.filter(rig.plugin("PodTopologySpread"), pod) == expected
    assert consistency.check(rig.state) == []


async def test_br_41_pods_that_do_not_match_their_own_selector_never_fill_up_a_zone() -> None:
    harness = Harness()
    harness.apply(*(each.obj() for each in (node("a1", "a"), node("b1", "b"), web("1", "a1"))))
    pods = [make_pod(f"p{k}").label("app", "other").spread(ZONE, WEB).obj() for k in range(6)]
    harness.apply(*pods)
    await harness.settle()
    assert all(harness.node_of(pod) for pod in pods)


async def test_br_46_joint_constraints_lock_each_other_after_five_pods() -> None:
    harness = Harness()
    harness.apply(*(each.obj() for each in (node("n1", "a"), node("n2", "a"), node("n3", "b"))))
    pods = [make_pod(f"p{number}").labels(WEB).spread(ZONE, WEB).spread(HOST, WEB).obj() for number in range(7)]
    for pod in pods:
        harness.apply(pod)
        await harness.settle()
    placed = [harness.node_of(pod) for pod in pods]
    assert sorted(placed[:5]) in (["n1", "n1", "n2", "n3", "n3"], ["n1", "n2", "n2", "n3", "n3"])
    assert placed[5:] == ["", ""]
    await harness.stop()


def test_nothing_to_filter_is_skipped() -> None:
    rig = Rig(three_zones())
    plugin = rig.plugin("PodTopologySpread")
    for pod in (make_pod(), asks(ZONE, WEB, when="ScheduleAnyway")):
        assert rig.pre_filter(plugin, pod) == Status.skip()
    assert rig.pre_score(plugin, asks(ZONE, WEB)) == Status.skip()


def test_a_selector_that_cannot_be_compiled_fails_the_attempt() -> None:
    rig = Rig(three_zones())
    plugin = rig.plugin("PodTopologySpread")
    bad = {"matchExpressions": [{"key": "app", "operator": "Near", "values": []}]}
    reason = '"Near" is not a valid label selector operator'
    status = rig.pre_filter(plugin, asks(ZONE, selector=bad))
    assert isinstance(status, Status)
    assert (status.code, status.message) == (
        Code.ERROR,
        f"get constraints from pod: obtaining pod's hard topology spread constraints: {reason}",
    )
    status = rig.pre_score(plugin, asks(ZONE, selector=bad, when="ScheduleAnyway"))
    assert status is not None
    assert (status.code, status.message) == (
        Code.ERROR,
        f"calculating preScoreState: obtaining pod's soft topology spread constraints: {reason}",
    )


# -- pods tried on and off


def tried(rig: Rig, pod: PodBuilder) -> tuple[Any, CycleState, Any]:
    plugin, obj = rig.plugin("PodTopologySpread"), pod.obj()
    state = CycleState(PodInfo(obj))
    assert plugin.pre_filter(state, obj, rig.state.nodes.all_nodes()) is None
    return plugin, state, obj


def verdicts(rig: Rig, plugin: Any, state: CycleState, pod: Any) -> list[str | None]:
    nodes = rig.state.nodes.all_nodes()
    said = plugin.filter_rows(state, pod, nodes)
    if said is None:
        return [None] * len(nodes)
    statuses = [said.statuses[why] for why in said.why.tolist()]
    return [None if status is None else f"{status.code.text}: {status.message}" for status in statuses]


def test_pods_come_and_go_in_a_copy_only() -> None:
    rig = Rig(three_zones(), [web("1", "a1"), web("2", "b1")])
    plugin, state, pod = tried(rig, asks(ZONE, WEB))
    twin = state.clone()
    plugin.add_pod(twin, pod, PodInfo(make_pod("3").labels(WEB).obj()), rig.info("c1"))
    assert verdicts(rig, plugin, twin, pod) == [None, None, None]
    plugin.remove_pod(twin, pod, PodInfo(web("1", "a1").obj()), rig.info("a1"))
    assert verdicts(rig, plugin, twin, pod) == [None, SKEW, SKEW]
    assert verdicts(rig, plugin, state, pod) == [SKEW, SKEW, None]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(make_pod("o").label("app", "other"), id="other-labels"),
        pytest.param(make_pod("o").labels(WEB).namespace("other"), id="other-namespace"),
    ],
)
def test_pods_that_do_not_count_change_nothing(other: PodBuilder) -> None:
    rig = Rig(three_zones(), [web("1", "a1")])
    plugin, state, pod = tried(rig, asks(ZONE, WEB))
    before = verdicts(rig, plugin, state, pod)
    for name in ("a1", "b1", "c1"):
        plugin.add_pod(state, pod, PodInfo(other.obj()), rig.info(name))
    assert verdicts(rig, plugin, state, pod) == before


def test_br_44_a_pod_taken_off_a_node_that_is_no_domain_invents_none() -> None:
    nodes = [node("a1", "a"), node("b1", "b").taint("x"), node("none")]
    rig = Rig(nodes, [web("1", "a1"), web("2", "b1"), web("3", "none")])
    plugin, state, pod = tried(rig, asks(ZONE, WEB, node_taints_policy="Honor"))
    before = verdicts(rig, plugin, state, pod)
    plugin.remove_pod(state, pod, PodInfo(web("2", "b1").obj()), rig.info("b1"))
    plugin.remove_pod(state, pod, PodInfo(web("3", "none").obj()), rig.info("none"))
    assert verdicts(rig, plugin, state, pod) == before == [None, None, LABEL]


# -- scores


def test_scores_add_up_weighted_counts() -> None:
    nodes = [node("a1", "a"), node("a2", "a"), node("b1", "b"), node("none")]
    placed = [*(web(f"a{number}", "a1") for number in range(3)), web("b", "b1"), web("x", "none")]
    rig = Rig(nodes, placed)
    plugin = rig.plugin("PodTopologySpread")
    pod = asks(ZONE, WEB, max_skew=2, when="ScheduleAnyway").spread(HOST, WEB, when="ScheduleAnyway")
    zones, hosts = math.log(4), math.log(5)
    raw = {
        "a1": round(3 * zones + 1 + 3 * hosts),
        "a2": round(3 * zones + 1),
        "b1": round(zones + 1 + hosts),
        "none": 0,
    }
    scores = rig.raw(plugin, pod)
    assert {name: max(score, 0) for name, score in scores.items()} == raw == {"a1": 10, "a2": 5, "b1": 4, "none": 0}
    assert scores["none"] == -1
    assert rig.normalized(plugin, pod) == {
        "a1": 100 * (10 + 4 - 10) // 10,
        "a2": 100 * (10 + 4 - 5) // 10,
        "b1": 100,
        "none": 0,
    }


def test_all_empty_domains_score_highest() -> None:
    rig = Rig(three_zones())
    pod = asks(ZONE, WEB, when="ScheduleAnyway")
    assert rig.normalized(rig.plugin("PodTopologySpread"), pod) == {"a1": 100, "b1": 100, "c1": 100}


def test_weights_count_the_domains_of_the_nodes_that_fit() -> None:
    rig = Rig(three_zones(), [web(str(number), "a1") for number in range(8)])
    plugin, obj = rig.plugin("PodTopologySpread"), asks(ZONE, WEB, when="ScheduleAnyway").obj()
    for rows, weight in (([0, 1, 2], math.log(5)), ([0, 1], math.log(4)), ([0], math.log(3))):
        state, nodes = CycleState(PodInfo(obj)), rig.state.nodes.nodes_at(rows)
        assert plugin.pre_score(state, obj, nodes) is None
        assert plugin.score_rows(state, obj, nodes)[0] == round(8 * weight)


@pytest.mark.parametrize(
    ("count", "bits"),
    [
        # Where this algorithm and a correctly rounded logarithm differ in the last bit.
        (1, "0x1.193ea7aad030ap+0"),
        # Where they agree.
        (0, "0x1.62e42fefa39efp-1"),
        (2, "0x1.62e42fefa39efp+0"),
        (5000, "0x1.10901f6dc84b9p+3"),
    ],
)
def test_logarithms_to_the_last_bit(count: int, bits: str) -> None:
    assert topology_weight(count).hex() == bits


# -- default constraints

SOFT_AND_HARD = PodTopologySpreadArgs(
    default_constraints=(
        TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule"),
        TopologySpreadConstraint(max_skew=2, topology_key=HOST, when_unsatisfiable="ScheduleAnyway"),
    ),
    defaulting_type="List",
)
PLAIN = make_pod("asks").labels(WEB | {"tier": "front"})


@pytest.mark.parametrize(
    ("objects", "pod", "applies"),
    [
        pytest.param([], PLAIN, False, id="nothing-selects-the-pod"),
        pytest.param([make_service("s").selector(WEB)], PLAIN, True, id="service"),
        pytest.param([make_service("s").selector({"app": "other"})], PLAIN, False, id="another-service"),
        pytest.param([make_service("s").selector(WEB).namespace("other")], PLAIN, False, id="another-namespace"),
        pytest.param([make_service("s").selector({})], PLAIN, False, id="service-without-selector"),
        pytest.param(
            [make_replica_set("r").selector(WEB)], PLAIN.copy().owner("ReplicaSet", "r"), True, id="replica-set"
        ),
        pytest.param(
            [make_stateful_set("r").selector(WEB)], PLAIN.copy().owner("StatefulSet", "r"), True, id="stateful-set"
        ),
        pytest.param(
            [make_replication_controller("r").selector(WEB)],
            PLAIN.copy().owner("ReplicationController", "r", api_version="v1"),
            True,
            id="replication-controller",
        ),
        pytest.param([], PLAIN.copy().owner("ReplicaSet", "r"), False, id="owner-is-gone"),
        pytest.param(
            [make_replica_set("r").selector(WEB)],
            PLAIN.copy().owner("ReplicaSet", "r", controller=False),
            False,
            id="owner-is-no-controller",
        ),
        pytest.param(
            [make_replica_set("r").selector(WEB)],
            PLAIN.copy().owner("ReplicaSet", "r", api_version="example.com/v1"),
            False,
            id="owner-of-another-group",
        ),
        pytest.param(
            [make_service("s").selector(WEB)],
            PLAIN.copy().spread(ZONE, {"app": "nobody"}),
            False,
            id="own-constraints-replace-them",
        ),
    ],
)
def test_default_constraints(objects: list[Builder[Any]], pod: PodBuilder, applies: bool) -> None:
    rig = Rig(three_zones(), [web("1", "a1"), web("2", "b1")], objects)
    plugin = rig.plugin("PodTopologySpread", SOFT_AND_HARD)
    spread = {"a1": SKEW, "b1": SKEW, "c1": None}
    assert rig.filter(plugin, pod) == (spread if applies else dict.fromkeys(spread))
    assert (rig.pre_score(plugin, pod) is None) is applies


def test_default_constraints_count_what_service_and_owner_select_together() -> None:
    placed = [web("1", "a1").label("tier", "front"), web("2", "b1"), make_pod("3").label("tier", "front").node("c1")]
    objects: list[Builder[Any]] = [
        make_service("s").selector(WEB),
        make_replica_set("r").selector({"tier": "front"}),
    ]
    rig = Rig(three_zones(), placed, objects)
    plugin = rig.plugin("PodTopologySpread", SOFT_AND_HARD)
    assert rig.filter(plugin, PLAIN.copy().owner("ReplicaSet", "r")) == {"a1": SKEW, "b1": None, "c1": None}


def test_default_constraints_follow_their_objects() -> None:
    rig = Rig(three_zones(), [web("1", "a1"), web("2", "b1")])
    plugin = rig.plugin("PodTopologySpread", SOFT_AND_HARD)
    obj = PLAIN.obj()
    signs = [plugin.sign(obj)]
    assert rig.pre_filter(plugin, PLAIN) == Status.skip()
    versions = [plugin.sign_version()]
    rig.state.objects.put("Service", make_service("s").selector(WEB).obj())
    assert rig.filter(plugin, PLAIN)["a1"] == SKEW
    signs.append(plugin.sign(obj))
    versions.append(plugin.sign_version())
    rig.state.objects.remove("Service", ("default", "s"))
    assert rig.pre_filter(plugin, PLAIN) == Status.skip()
    signs.append(plugin.sign(obj))
    assert signs[0] == signs[2] != signs[1]
    assert versions[0] != versions[1]


def test_the_systems_defaults_spread_over_hosts_where_there_is_no_zone() -> None:
    bare = codec.from_dict(kinds.NODE, {"metadata": {"name": "bare"}})
    nodes = [node("a1", "a"), node("x"), node("y"), bare]
    rig = Rig(nodes, [web("1", "a1"), web("2", "x"), web("3", "x")], [make_service("s").selector(WEB)])
    plugin = rig.plugin("PodTopologySpread")
    # Two zones, that of a1 and none; four hosts. Offsets are maxSkew-1: 4 by zone, 2 by host.
    zones, hosts = math.log(4), math.log(6)
    assert rig.raw(plugin, make_pod().labels(WEB)) == {
        "a1": round(zones + 4 + hosts + 2),
        "x": round(2 * hosts + 2),
        "y": 2,
        "bare": 0,
    }


# -- what is kept


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param(asks(ZONE, WEB), asks(ZONE, WEB).label("pod-name", "x"), True, id="labels-that-nothing-reads"),
        pytest.param(asks(ZONE, WEB), asks(ZONE, WEB).label("app", "other"), False, id="labels-that-a-selector-reads"),
        pytest.param(
            asks(ZONE, WEB, match_label_keys=["rev"]).label("rev", "1"),
            asks(ZONE, WEB, match_label_keys=["rev"]).label("rev", "2"),
            False,
            id="labels-that-a-key-reads",
        ),
        pytest.param(asks(ZONE, WEB), asks(ZONE, WEB).namespace("other"), False, id="namespaces"),
        pytest.param(asks(ZONE, WEB), asks(ZONE, WEB, max_skew=2), False, id="constraints"),
        pytest.param(asks(ZONE, WEB), asks(ZONE, WEB).node_selector({"a": "b"}), False, id="node-selectors"),
        pytest.param(asks(ZONE, WEB), asks(ZONE, WEB).node_affinity_in("a", ["b"]), False, id="node-affinity"),
        pytest.param(asks(ZONE, WEB), asks(ZONE, WEB).toleration("a"), False, id="tolerations"),
        pytest.param(make_pod(), make_pod().label("a", "b").namespace("other"), True, id="without-constraints"),
    ],
)
def test_sign(one: PodBuilder, other: PodBuilder, same: bool) -> None:
    plugin = Rig(three_zones()).plugin("PodTopologySpread")
    assert (plugin.sign(one.obj()) == plugin.sign(other.obj())) is same


# -- explanations


def test_details_give_the_counts_by_domain() -> None:
    rig = Rig([*three_zones(), node("none")], [web("1", "a1"), web("2", "a1"), web("3", "b1")])
    plugin, state, pod = tried(rig, asks(ZONE, WEB).spread(HOST, WEB, max_skew=9))
    facts = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "domain": "a",
        "pods": 2,
        "lowest": 0,
        "self": 1,
        "domainCount": 3,
        "domains": {"c": 0, "b": 1, "a": 2},
    }
    assert plugin.details(state, pod, rig.info("a1")) == {"constraints": [facts]}
    assert plugin.details(state, pod, rig.info("none")) == {
        "constraints": [{"topologyKey": ZONE, "maxSkew": 1, "missingLabel": ZONE}]
    }
    assert plugin.details(state, pod, rig.info("c1")) == {}
    assert plugin.details(CycleState(PodInfo(pod)), pod, rig.info("a1")) == {}


# -- queueing hints


def test_registered_events() -> None:
    rig = Rig()
    own = {
        ("Pod", "PodAdd|Delete|UpdatePodLabel|UpdatePodToleration"),
        ("AssignedPod", "AssignedPodUpdate"),
        ("Node", "NodeAdd|Delete|UpdateNodeLabel|UpdateNodeTaint"),
    }
    siblings = {
        ("Service", "ServiceAdd|Delete|Update"),
        ("ReplicationController", "ReplicationControllerAdd|Delete|Update"),
        ("ReplicaSet", "apps/ReplicaSetAdd|Delete|Update"),
        ("StatefulSet", "apps/StatefulSetAdd|Delete|Update"),
    }
    assert registered(rig.plugin("PodTopologySpread")) == own
    assert registered(rig.plugin("PodTopologySpread", SOFT_AND_HARD)) == own | siblings


def hint_rig() -> tuple[Rig, Any]:
    """Zone b is the only one that would do."""
    rig = Rig([node("a1", "a"), node("b1", "b")], [web("1", "a1")])
    return rig, rig.plugin("PodTopologySpread")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, web("o", "a1"), QUEUE, id="a-pod-that-counts-comes"),
        pytest.param(web("o", "a1"), None, QUEUE, id="a-pod-that-counts-goes"),
        pytest.param(web("o", "a1"), web("o", "a1").label("app", "x"), QUEUE, id="a-pod-counts-no-more"),
        pytest.param(web("o", "a1"), web("o", "a1").label("more", "x"), SKIP, id="another-label"),
        pytest.param(None, make_pod("o").node("a1"), SKIP, id="a-pod-that-does-not-count"),
        pytest.param(None, make_pod("o").labels(WEB), SKIP, id="a-pod-that-waits-itself"),
        pytest.param(web("o", "a1").namespace("x"), None, SKIP, id="another-namespace"),
        pytest.param(asks(ZONE, WEB).label("app", "x"), asks(ZONE, WEB), QUEUE, id="own-label"),
        pytest.param(asks(ZONE, WEB).label("more", "x"), asks(ZONE, WEB), SKIP, id="own-other-label"),
        pytest.param(asks(ZONE, WEB).toleration("x"), asks(ZONE, WEB), SKIP, id="own-toleration-is-ignored"),
    ],
)
def test_hints_for_pods(old: PodBuilder | None, new: PodBuilder | None, expected: Any) -> None:
    _, plugin = hint_rig()
    assert hints(plugin, "Pod", asks(ZONE, WEB), old, new) == {expected}


def test_a_pod_is_woken_only_if_some_node_would_do() -> None:
    rig, plugin = hint_rig()
    rig.state.set_pod(web("2", "b1").obj())
    pod, other = asks(ZONE, WEB, min_domains=3), web("o", "a1")
    assert hints(plugin, "Pod", pod, None, other) == {SKIP}
    rig.state.set_node(node("c1", "c").obj())
    assert hints(plugin, "Pod", pod, None, other) == {QUEUE}


def test_an_own_revision_is_noticed() -> None:
    _, plugin = hint_rig()
    old, new = (asks(ZONE, WEB, match_label_keys=["rev"]).label("rev", revision) for revision in "12")
    assert hints(plugin, "Pod", new, old, new) == {QUEUE}


def test_a_pod_that_begins_to_terminate_makes_room_in_its_zone() -> None:
    nodes = [node("a1", "a"), node("b1", "b").taint("x")]
    rig = Rig(nodes, [web("1", "a1"), web("2", "a1").deleting()])
    plugin = rig.plugin("PodTopologySpread")
    old, new = web("2", "a1"), web("2", "a1").deleting()
    # Only zone b would do, as before.
    assert hints(plugin, "AssignedPod", asks(ZONE, WEB), old, new) == {SKIP}
    assert hints(plugin, "AssignedPod", asks(ZONE, WEB, max_skew=2), old, new) == {QUEUE}
    assert hints(plugin, "AssignedPod", asks(ZONE, WEB, max_skew=2), new, new) == {SKIP}
    assert hints(plugin, "AssignedPod", asks(ZONE, WEB, max_skew=2).namespace("x"), old, new) == {SKIP}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, node("b1", "b"), QUEUE, id="a-domain-comes"),
        pytest.param(None, node("x"), SKIP, id="a-node-without-the-key-comes"),
        pytest.param(node("x", "c"), None, QUEUE, id="a-domain-goes"),
        pytest.param(node("x"), None, SKIP, id="a-node-without-the-key-goes"),
        pytest.param(node("b1"), node("b1", "b"), QUEUE, id="a-node-gains-the-key"),
        pytest.param(node("x", "b"), node("x"), QUEUE, id="a-node-loses-the-key"),
        pytest.param(node("b1", "c"), node("b1", "b"), QUEUE, id="a-node-moves"),
        pytest.param(node("b1", "b").taint("x"), node("b1", "b"), QUEUE, id="a-taint-goes"),
        pytest.param(node("b1", "b").label("x", "y"), node("b1", "b"), SKIP, id="another-label"),
    ],
)
def test_hints_for_nodes(old: NodeBuilder | None, new: NodeBuilder | None, expected: Any) -> None:
    _, plugin = hint_rig()
    assert hints(plugin, "Node", asks(ZONE, WEB), old, new) == {expected}


def test_hints_for_what_default_constraints_are_made_of() -> None:
    rig = Rig([node("a1", "a"), node("b1", "b")], [web("1", "a1")])
    plugin = rig.plugin("PodTopologySpread", SOFT_AND_HARD)
    service = make_service("s").selector(WEB)
    assert hints(plugin, "Service", PLAIN, service, None) == {QUEUE}
    assert hints(plugin, "Service", PLAIN.copy().namespace("x"), service, None) == {SKIP}
    assert hints(plugin, "Service", asks(ZONE, WEB), service, None) == {SKIP}
