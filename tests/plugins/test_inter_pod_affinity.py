"""InterPodAffinity. Ids with BR are of reports from the field."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.config.plugin_args import InterPodAffinityArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Code, Status
from kubesched.state import consistency
from kubesched.state.pod_info import PodInfo
from tests.build import Builder, NodeBuilder, PodBuilder, make_namespace, make_node, make_pod
from tests.plugins.rig import QUEUE, SKIP, Rig, hints, registered

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"
EXISTING = "Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules"
ANTI = "Unschedulable: node(s) didn't match pod anti-affinity rules"
AFFINITY = "UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules"
WEB = {"app": "web"}
BAD = {"matchExpressions": [{"key": "app", "operator": "Near", "values": []}]}


def two_zones() -> list[NodeBuilder]:
    return [make_node("a1").zone("a"), make_node("a2").zone("a"), make_node("b1").zone("b")]


def web(name: str, where: str) -> PodBuilder:
    return make_pod(name).labels(WEB).node(where)


def guard(name: str, where: str, key: str = HOST, **options: Any) -> PodBuilder:
    """A pod that wants no `app: web` near it."""
    return make_pod(name).node(where).pod_anti_affinity(key, WEB, **options)


NEAR, FAR = make_pod("asks").pod_affinity(ZONE, WEB), make_pod("asks").pod_anti_affinity(ZONE, WEB)

CASES = [
    pytest.param(two_zones(), [web("1", "a1")], NEAR, {"a1": None, "a2": None, "b1": AFFINITY}, id="near"),
    pytest.param(two_zones(), [web("1", "a1")], FAR, {"a1": ANTI, "a2": ANTI, "b1": None}, id="far"),
    pytest.param(two_zones(), [], NEAR, {"a1": AFFINITY, "a2": AFFINITY, "b1": AFFINITY}, id="nobody-to-be-near"),
    pytest.param(
        two_zones(), [], NEAR.copy().labels(WEB), {"a1": None, "a2": None, "b1": None}, id="the-first-of-a-group"
    ),
    pytest.param(
        [*two_zones(), make_node("c1")],
        [],
        NEAR.copy().labels(WEB),
        {"a1": None, "a2": None, "b1": None, "c1": AFFINITY},
        id="the-first-of-a-group-needs-the-label",
    ),
    pytest.param(
        [*two_zones(), make_node("c1")],
        [web("1", "c1")],
        NEAR.copy().labels(WEB),
        {"a1": None, "a2": None, "b1": None, "c1": AFFINITY},
        id="a-partner-outside-all-domains-is-none",
    ),
    pytest.param(
        two_zones(),
        [web("1", "a1")],
        NEAR.copy().labels(WEB),
        {"a1": None, "a2": None, "b1": AFFINITY},
        id="the-second-of-a-group",
    ),
    pytest.param(
        two_zones(),
        [web("1", "a1"), make_pod("2").label("tier", "y").node("a1"), web("3", "b1").label("tier", "y")],
        make_pod("asks").pod_affinity(HOST, WEB).pod_affinity(HOST, {"tier": "y"}),
        {"a1": AFFINITY, "a2": AFFINITY, "b1": None},
        id="BR-49-one-pod-must-match-all-affinity-terms",
    ),
    pytest.param(
        two_zones(),
        [web("1", "a1"), make_pod("2").label("tier", "y").node("a2")],
        make_pod("asks").pod_anti_affinity(HOST, WEB).pod_anti_affinity(HOST, {"tier": "y"}),
        {"a1": ANTI, "a2": ANTI, "b1": None},
        id="BR-49-each-anti-affinity-term-counts-alone",
    ),
    pytest.param(
        [make_node("n1").zone("a"), make_node("n2").zone("a").label(RACK, "1")],
        [],
        make_pod("asks").labels(WEB).pod_affinity(ZONE, WEB).pod_affinity(RACK, WEB),
        {"n1": AFFINITY, "n2": None},
        id="BR-50-affinity-needs-every-key",
    ),
    pytest.param(
        [make_node("n1").zone("a"), make_node("n2").zone("a").label(RACK, "1")],
        [web("1", "n1"), web("2", "n2")],
        make_pod("asks").pod_anti_affinity(RACK, WEB),
        {"n1": None, "n2": ANTI},
        id="BR-50-anti-affinity-passes-where-the-key-is-missing",
    ),
    pytest.param(
        two_zones(),
        [guard("1", "a1")],
        make_pod("asks").labels(WEB),
        {"a1": EXISTING, "a2": None, "b1": None},
        id="BR-47-repelled",
    ),
    pytest.param(
        two_zones(),
        [guard("1", "a1", ZONE), guard("2", "b1")],
        make_pod("asks").labels(WEB),
        {"a1": EXISTING, "a2": EXISTING, "b1": EXISTING},
        id="BR-47-repelled-everywhere",
    ),
    pytest.param(
        two_zones(),
        [guard("1", "a1", ZONE), web("2", "a2"), web("3", "b1")],
        make_pod("asks").labels(WEB).pod_affinity(ZONE, {"app": "none"}).pod_anti_affinity(HOST, WEB),
        {"a1": AFFINITY, "a2": AFFINITY, "b1": AFFINITY},
        id="affinity-is-told-first",
    ),
    pytest.param(
        two_zones(),
        [guard("1", "a1", ZONE), web("2", "a2")],
        make_pod("asks").labels(WEB).pod_anti_affinity(HOST, WEB),
        {"a1": EXISTING, "a2": ANTI, "b1": None},
        id="own-anti-affinity-before-that-of-others",
    ),
    pytest.param(
        two_zones(),
        [web("1", "a1")],
        make_pod("asks").pod_anti_affinity(ZONE),
        {"a1": None, "a2": None, "b1": None},
        id="BR-55-anti-affinity-without-selector",
    ),
    pytest.param(
        two_zones(),
        [web("1", "a1")],
        make_pod("asks").labels(WEB).pod_affinity(ZONE),
        {"a1": AFFINITY, "a2": AFFINITY, "b1": AFFINITY},
        id="BR-55-affinity-without-selector-matches-not-even-itself",
    ),
    pytest.param(
        two_zones(),
        [make_pod("1").node("a1"), make_pod("2").namespace("other").node("b1")],
        make_pod("asks").pod_anti_affinity(ZONE, selector={}),
        {"a1": ANTI, "a2": ANTI, "b1": None},
        id="BR-55-an-empty-selector-matches-all-of-the-namespace",
    ),
    pytest.param(
        two_zones(),
        [web("1", "a1").deleting()],
        NEAR,
        {"a1": None, "a2": None, "b1": AFFINITY},
        id="terminating-pods-count",
    ),
]


@pytest.mark.parametrize(("nodes", "placed", "pod", "expected"), CASES)
def test_filter(
    nodes: list[NodeBuilder], placed: list[PodBuilder], pod: PodBuilder, expected: dict[str, str | None]
) -> None:
    rig = Rig(nodes, placed)
    assert rig.filter(rig.plugin("InterPodAffinity"), pod) == expected
    assert consistency.check(rig.state) == []


TEAM_S = {"matchLabels": {"team": "s"}}
NOT_S = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["s"]}]}


@pytest.mark.parametrize(
    ("options", "namespaces"),
    [
        pytest.param({}, {"default"}, id="BR-52-own"),
        pytest.param({"namespaces": ["b"]}, {"b"}, id="BR-52-listed"),
        pytest.param({"namespace_selector": {}}, {"default", "a", "b", "c"}, id="BR-52-all"),
        pytest.param({"namespace_selector": TEAM_S}, {"a"}, id="BR-52-selected"),
        pytest.param({"namespaces": ["b"], "namespace_selector": TEAM_S}, {"a", "b"}, id="BR-52-listed-and-selected"),
        # Namespace c has no object: it counts as one without labels.
        pytest.param({"namespace_selector": NOT_S}, {"default", "b", "c"}, id="BR-52-negated"),
    ],
)
def test_namespaces(options: dict[str, Any], namespaces: set[str]) -> None:
    """Of the new pod's terms and, the other way round, of those of placed pods."""
    names = ["default", "a", "b", "c"]
    objects = [
        make_namespace("default"),
        make_namespace("a").label("team", "s"),
        make_namespace("b").label("team", "t"),
    ]
    nodes = [make_node(f"n-{name}") for name in names]
    rig = Rig(nodes, [web(f"p-{name}", f"n-{name}").namespace(name) for name in names], objects)
    wants = make_pod("asks").pod_anti_affinity(HOST, WEB, **options)
    assert rig.filter(rig.plugin("InterPodAffinity"), wants) == {
        f"n-{name}": ANTI if name in namespaces else None for name in names
    }
    rig = Rig(nodes, [guard("g", "n-a", **options)], objects)
    plugin = rig.plugin("InterPodAffinity")
    repelled = {
        name for name in names if rig.filter(plugin, make_pod("asks").labels(WEB).namespace(name))["n-a"] == EXISTING
    }
    assert repelled == namespaces


def test_labels_of_a_namespace_may_change() -> None:
    rig = Rig(two_zones(), [web("1", "a1").namespace("team"), guard("2", "b1", namespace_selector=TEAM_S)])
    plugin = rig.plugin("InterPodAffinity")
    near = make_pod("asks").pod_affinity(ZONE, WEB, namespace_selector=TEAM_S)
    visitor = make_pod("visitor").labels(WEB).namespace("team")
    for labels, expected, repelled in (
        ({}, {"a1": AFFINITY, "a2": AFFINITY, "b1": AFFINITY}, None),
        ({"team": "s"}, {"a1": None, "a2": None, "b1": AFFINITY}, EXISTING),
        ({"team": "t"}, {"a1": AFFINITY, "a2": AFFINITY, "b1": AFFINITY}, None),
    ):
        before = plugin.sign_version()
        rig.state.objects.put("Namespace", make_namespace("team").labels(labels).obj())
        assert plugin.sign_version() != before
        assert rig.filter(plugin, near) == expected
        assert rig.filter(plugin, visitor)["b1"] == repelled
        assert consistency.check(rig.state) == []


def test_nothing_to_filter_is_skipped() -> None:
    rig = Rig(two_zones(), [web("1", "a1"), guard("2", "unknown")])
    plugin = rig.plugin("InterPodAffinity")
    preferring = make_pod().pod_affinity(ZONE, WEB, weight=1)
    for pod in (make_pod(), preferring, make_pod().labels(WEB)):
        assert rig.pre_filter(plugin, pod) == Status.skip()


def test_terms_that_cannot_be_parsed() -> None:
    rig = Rig(two_zones())
    plugin = rig.plugin("InterPodAffinity")
    reason = '"Near" is not a valid label selector operator'
    status = rig.pre_filter(plugin, make_pod().pod_affinity(ZONE, selector=BAD).pod_anti_affinity(ZONE, selector=BAD))
    assert isinstance(status, Status)
    assert (status.code, status.message) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        f"parsing pod: [requiredAffinityTerms: {reason}, requiredAntiAffinityTerms: {reason}]",
    )
    status = rig.pre_score(plugin, make_pod().pod_affinity(ZONE, selector=BAD, weight=3))
    assert status is not None
    assert (status.code, status.message) == (
        Code.ERROR,
        f"failed to parse pod: preferredAffinityTerms: {reason}",
    )


# -- pods tried on and off


def tried(rig: Rig, pod: PodBuilder) -> tuple[Any, CycleState, Any]:
    plugin, obj = rig.plugin("InterPodAffinity"), pod.obj()
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


@pytest.mark.parametrize(
    ("pod", "other", "with_other", "without"),
    [
        pytest.param(FAR, web("o", "a1"), [ANTI, ANTI, None], [None, None, None], id="BR-58-unwanted"),
        pytest.param(NEAR, web("o", "a1"), [None, None, AFFINITY], [AFFINITY, AFFINITY, AFFINITY], id="BR-58-partner"),
        pytest.param(
            NEAR.copy().labels(WEB),
            web("o", "a1"),
            [None, None, AFFINITY],
            [None, None, None],
            id="the-last-partner-of-a-group",
        ),
        pytest.param(
            make_pod("asks").labels(WEB).pod_anti_affinity(ZONE, {"app": "none"}),
            guard("o", "a1"),
            [EXISTING, None, None],
            [None, None, None],
            id="repelling",
        ),
        pytest.param(FAR, web("o", "a1").namespace("x"), [None] * 3, [None] * 3, id="of-another-namespace"),
    ],
)
def test_pods_come_and_go_in_a_copy_only(
    pod: PodBuilder, other: PodBuilder, with_other: list[str | None], without: list[str | None]
) -> None:
    rig = Rig(two_zones(), [other])
    plugin, state, obj = tried(rig, pod)
    twin = state.clone()
    assert verdicts(rig, plugin, twin, obj) == with_other
    plugin.remove_pod(twin, obj, PodInfo(other.obj()), rig.info("a1"))
    assert verdicts(rig, plugin, twin, obj) == without
    plugin.add_pod(twin, obj, PodInfo(other.obj()), rig.info("a1"))
    assert verdicts(rig, plugin, twin, obj) == with_other
    plugin.add_pod(twin, obj, PodInfo(other.copy().uid("more").obj()), rig.info("a1"))
    plugin.remove_pod(twin, obj, PodInfo(other.obj()), rig.info("a1"))
    assert verdicts(rig, plugin, twin, obj) == with_other
    assert verdicts(rig, plugin, state, obj) == with_other


def test_a_pod_that_says_twice_what_it_keeps_away_is_one_pod() -> None:
    first, second = (guard(name, "a1", ZONE).pod_anti_affinity(ZONE, WEB) for name in "12")
    rig = Rig(two_zones(), [first, second])
    plugin, state, pod = tried(rig, make_pod("asks").labels(WEB).pod_anti_affinity(HOST, {"app": "none"}))
    plugin.remove_pod(state, pod, PodInfo(first.obj()), rig.info("a1"))
    assert verdicts(rig, plugin, state, pod)[0] == EXISTING, "the other one is still there"
    plugin.remove_pod(state, pod, PodInfo(second.obj()), rig.info("a1"))
    assert verdicts(rig, plugin, state, pod) == [None, None, None]
    plugin.add_pod(state, pod, PodInfo(second.obj()), rig.info("a1"))
    assert verdicts(rig, plugin, state, pod)[0] == EXISTING


# -- scores


@pytest.mark.parametrize(
    ("placed", "pod", "args", "raw", "normalized"),
    [
        pytest.param(
            [web("1", "a1"), web("2", "a2"), web("3", "b1")],
            make_pod().pod_affinity(ZONE, WEB, weight=10).pod_anti_affinity(HOST, WEB, weight=3),
            {},
            {"a1": 17, "a2": 17, "b1": 7},
            {"a1": 100, "a2": 100, "b1": 0},
            id="own-preferences",
        ),
        pytest.param(
            [make_pod("1").node("a1").pod_affinity(ZONE, WEB), guard("2", "b1", weight=7)],
            make_pod().labels(WEB),
            {"hard_pod_affinity_weight": 5},
            {"a1": 5, "a2": 5, "b1": -7},
            {"a1": 100, "a2": 100, "b1": 0},
            id="preferences-of-placed-pods",
        ),
        pytest.param(
            [
                make_pod("1").node("a1").pod_affinity(HOST, WEB, weight=1),
                make_pod("2").node("a2").pod_affinity(HOST, WEB, weight=3).pod_affinity(HOST, WEB, weight=4),
            ],
            make_pod().labels(WEB),
            {},
            {"a1": 1, "a2": 7, "b1": 0},
            {"a1": 14, "a2": 100, "b1": 0},
            id="equal-terms-of-one-pod-add-up",
        ),
        pytest.param(
            [
                make_pod("1").node("a1").pod_affinity(ZONE, WEB, weight=3),
                make_pod("2").node("a2").pod_anti_affinity(ZONE, WEB, weight=3),
            ],
            make_pod().labels(WEB),
            {},
            {"a1": 0, "a2": 0, "b1": 0},
            {"a1": 0, "a2": 0, "b1": 0},
            id="cancelled-out-is-not-skipped",
        ),
        pytest.param(
            [make_pod("1").node("a1").pod_affinity(ZONE, WEB, weight=3), web("2", "b1")],
            make_pod().labels(WEB).pod_affinity(HOST, WEB, weight=1),
            {"ignore_preferred_terms_of_existing_pods": True},
            {"a1": 3, "a2": 3, "b1": 1},
            {"a1": 100, "a2": 100, "b1": 0},
            id="placed-pods-are-not-ignored-by-a-pod-with-preferences",
        ),
    ],
)
def test_score(
    placed: list[PodBuilder],
    pod: PodBuilder,
    args: dict[str, Any],
    raw: dict[str, int],
    normalized: dict[str, int],
) -> None:
    rig = Rig(two_zones(), placed)
    plugin = rig.plugin("InterPodAffinity", InterPodAffinityArgs(**args))
    assert rig.raw(plugin, pod) == raw
    assert rig.normalized(plugin, pod) == normalized


@pytest.mark.parametrize(
    ("placed", "pod", "args"),
    [
        pytest.param([], make_pod().pod_affinity(ZONE, WEB, weight=1), {}, id="nobody-matches"),
        pytest.param([web("1", "unknown")], make_pod().pod_affinity(ZONE, WEB, weight=1), {}, id="not-on-a-node"),
        pytest.param(
            [make_pod("1").node("a1").pod_affinity(ZONE, WEB)],
            make_pod().labels(WEB),
            {"hard_pod_affinity_weight": 0},
            id="required-affinity-weighs-nothing",
        ),
        pytest.param(
            [make_pod("1").node("a1").pod_affinity(ZONE, WEB, weight=1)],
            make_pod().labels(WEB),
            {"ignore_preferred_terms_of_existing_pods": True},
            id="preferences-of-placed-pods-are-ignored",
        ),
        pytest.param([guard("1", "a1")], make_pod().labels(WEB), {}, id="required-anti-affinity-is-no-score"),
    ],
)
def test_nothing_to_score_is_skipped(placed: list[PodBuilder], pod: PodBuilder, args: dict[str, Any]) -> None:
    rig = Rig(two_zones(), placed)
    assert rig.pre_score(rig.plugin("InterPodAffinity", InterPodAffinityArgs(**args)), pod) == Status.skip()


# -- what is kept


def test_sign_tells_pods_apart_by_what_concerns_them() -> None:
    rig = Rig(two_zones(), [guard("1", "a1")])
    plugin = rig.plugin("InterPodAffinity")
    plain, labelled = plugin.sign(make_pod().obj()), plugin.sign(make_pod().label("pod-name", "x").obj())
    repelled = plugin.sign(make_pod().labels(WEB).obj())
    assert plain == labelled != repelled
    version = plugin.sign_version()
    rig.state.remove_pod(guard("1", "a1").obj().metadata.uid)
    assert plugin.sign_version() != version
    assert plugin.sign(make_pod().labels(WEB).obj()) == plain
    signs = {
        plugin.sign(pod.obj())
        for pod in (NEAR, FAR, NEAR.copy().labels(WEB), NEAR.copy().namespace("x"), NEAR.copy().label("a", "b"))
    }
    assert len(signs) == 4


# -- explanations


def test_details_name_the_pod_in_the_way() -> None:
    rig = Rig(two_zones(), [guard("guard", "a1", ZONE), web("other", "b1")])
    pod = make_pod("asks").labels(WEB).pod_anti_affinity(HOST, WEB)
    plugin, state, obj = tried(rig, pod)
    term = {"topologyKey": ZONE, "selector": "app=web", "domain": "a"}
    assert plugin.details(state, obj, rig.info("a2")) == {"repelledBy": term | {"pod": "default/guard"}}
    term = {"topologyKey": HOST, "selector": "app=web", "domain": "b1"}
    assert plugin.details(state, obj, rig.info("b1")) == {"unwanted": term | {"pod": "default/other"}}
    plugin, state, obj = tried(
        rig, make_pod("asks").pod_affinity(ZONE, {"app": "db"}).pod_affinity(RACK, {"app": "db"})
    )
    assert plugin.details(state, obj, rig.info("b1")) == {
        "wants": [
            {"topologyKey": ZONE, "selector": "app=db", "domain": "b"},
            {"topologyKey": RACK, "selector": "app=db", "missingLabel": RACK},
        ]
    }
    plugin, state, obj = tried(rig, NEAR)
    assert plugin.details(state, obj, rig.info("b1")) == {}
    assert plugin.details(CycleState(PodInfo(obj)), obj, rig.info("a1")) == {}


# -- queueing hints


def test_registered_events() -> None:
    assert registered(Rig().plugin("InterPodAffinity")) == {
        ("Pod", "PodAdd|Delete|UpdatePodLabel"),
        ("Node", "NodeAdd|UpdateNodeLabel|UpdateNodeTaint"),
        ("Namespace", "NamespaceAdd|Delete|Update"),
    }


PENDING = make_pod("asks").labels(WEB)
BOTH = make_pod("asks").pod_anti_affinity(HOST, WEB).pod_anti_affinity(HOST, {"tier": "y"})


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        pytest.param(NEAR, None, web("o", "a1"), QUEUE, id="a-wanted-pod-comes"),
        pytest.param(NEAR, None, make_pod("o").node("a1"), SKIP, id="another-pod-comes"),
        pytest.param(NEAR, make_pod("o").node("a1"), web("o", "a1"), QUEUE, id="a-pod-becomes-wanted"),
        pytest.param(NEAR, web("o", "a1").namespace("x"), None, SKIP, id="a-pod-elsewhere-goes"),
        pytest.param(FAR, web("o", "a1"), None, QUEUE, id="an-unwanted-pod-goes"),
        pytest.param(FAR, web("o", "a1"), make_pod("o").node("a1"), QUEUE, id="a-pod-becomes-harmless"),
        pytest.param(FAR, None, web("o", "a1"), SKIP, id="an-unwanted-pod-comes"),
        pytest.param(BOTH, web("o", "a1"), None, QUEUE, id="one-of-two-terms-is-enough"),
        pytest.param(BOTH, web("o", "a1"), web("o", "a1").label("tier", "y"), SKIP, id="unwanted-all-the-same"),
        pytest.param(PENDING, guard("o", "a1"), None, QUEUE, id="a-repelling-pod-goes"),
        pytest.param(
            PENDING,
            guard("o", "a1").pod_anti_affinity(HOST, {"app": "x"}),
            None,
            QUEUE,
            id="a-pod-that-repels-others-too-goes",
        ),
        pytest.param(PENDING, guard("o", "a1"), guard("o", "a1").label("a", "b"), SKIP, id="it-changes-its-label"),
        pytest.param(PENDING, make_pod("o").node("a1"), None, SKIP, id="a-pod-without-terms-goes"),
        pytest.param(PENDING, PENDING.copy().label("a", "b"), PENDING, QUEUE, id="own-label"),
    ],
)
def test_hints_for_pods(pod: PodBuilder, old: PodBuilder | None, new: PodBuilder | None, expected: Any) -> None:
    rig = Rig(two_zones(), [web("partner", "b1")] if pod is NEAR else [])
    assert hints(rig.plugin("InterPodAffinity"), "Pod", pod, old, new) == {expected}


def test_the_last_partner_of_a_group_goes() -> None:
    """The next of the group may then go anywhere, as the first did."""
    rig = Rig(two_zones())
    plugin = rig.plugin("InterPodAffinity")
    assert hints(plugin, "Pod", NEAR.copy().labels(WEB), web("o", "a1"), None) == {QUEUE}
    assert hints(plugin, "Pod", NEAR, web("o", "a1"), None) == {SKIP}


def test_a_pod_is_woken_only_if_some_node_would_do() -> None:
    rig = Rig(two_zones(), [web(name, name) for name in ("a1", "a2", "b1")])
    plugin = rig.plugin("InterPodAffinity")
    pod = make_pod("asks").pod_anti_affinity(HOST, WEB)
    assert hints(plugin, "Pod", pod, web("o", "a1"), None) == {SKIP}
    rig.state.remove_pod(web("a1", "a1").obj().metadata.uid)
    assert hints(plugin, "Pod", pod, web("o", "a1"), None) == {QUEUE}


@pytest.mark.parametrize(
    ("placed", "pod", "old", "new", "expected"),
    [
        pytest.param([], FAR, None, make_node("b1").zone("b"), QUEUE, id="a-node-comes"),
        pytest.param(
            [web("1", "b1")], FAR, None, make_node("b1").zone("b"), SKIP, id="a-node-comes-with-an-unwanted-pod"
        ),
        pytest.param([], NEAR, None, make_node("b1").zone("b"), SKIP, id="a-node-comes-without-a-wanted-pod"),
        pytest.param(
            [guard("g", "a1")], PENDING, None, make_node("b1").zone("b"), QUEUE, id="away-from-a-repelling-pod"
        ),
        pytest.param([], FAR, make_node("b1"), make_node("b1").zone("b"), QUEUE, id="a-node-moves"),
        pytest.param(
            [], FAR, make_node("b1").zone("b").label("x", "y"), make_node("b1").zone("b"), SKIP, id="other-label"
        ),
        pytest.param(
            [guard("g", "a1", ZONE)],
            PENDING,
            make_node("a1").zone("c"),
            make_node("a1").zone("a"),
            QUEUE,
            id="a-guard-moves",
        ),
        pytest.param(
            [], FAR, make_node("b1").zone("b").taint("x"), make_node("b1").zone("b"), QUEUE, id="a-taint-goes"
        ),
    ],
)
def test_hints_for_nodes(
    placed: list[PodBuilder], pod: PodBuilder, old: NodeBuilder | None, new: NodeBuilder, expected: Any
) -> None:
    rig = Rig(two_zones(), placed)
    assert hints(rig.plugin("InterPodAffinity"), "Node", pod, old, new) == {expected}


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        pytest.param(
            make_pod("asks").pod_affinity(ZONE, WEB, namespace_selector=TEAM_S),
            make_namespace("team"),
            make_namespace("team").label("team", "s"),
            QUEUE,
            id="a-namespace-is-selected",
        ),
        pytest.param(
            NEAR, make_namespace("team"), make_namespace("team").label("team", "s"), SKIP, id="not-by-this-pod"
        ),
        pytest.param(
            PENDING, make_namespace("default").label("team", "s"), make_namespace("default"), QUEUE, id="own-namespace"
        ),
        pytest.param(
            make_pod("asks").pod_affinity(ZONE, WEB, namespace_selector=TEAM_S),
            make_namespace("team").label("team", "s").annotation("a", "b"),
            make_namespace("team").label("team", "s"),
            SKIP,
            id="an-annotation",
        ),
    ],
)
def test_hints_for_namespaces(
    pod: PodBuilder, old: Builder[Any] | None, new: Builder[Any] | None, expected: Any
) -> None:
    objects = [make_namespace("team").label("team", "s")]
    rig = Rig(two_zones(), [web("1", "a1").namespace("team")], objects)
    assert hints(rig.plugin("InterPodAffinity"), "Namespace", pod, old, new) == {expected}
