"""NodeAffinity."""

from __future__ import annotations

import pytest

from kubesched.api.core import NodeAffinity, PreferredSchedulingTerm
from kubesched.api.errors import SelectorError
from kubesched.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kubesched.config.plugin_args import NodeAffinityArgs
from kubesched.framework.plugin import PreFilterResult
from kubesched.framework.status import Code, Status
from kubesched.plugins import node_affinity
from tests.build import NodeBuilder, PodBuilder, make_node, make_pod
from tests.plugins.rig import QUEUE, SKIP, Rig, hints, registered

MISMATCH = "UnschedulableAndUnresolvable: node(s) didn't match Pod's node affinity/selector"
ENFORCED = "UnschedulableAndUnresolvable: node(s) didn't match scheduler-enforced node affinity"

NODES = [
    make_node("n1").label("disk", "ssd").label("cores", "8").zone("a"),
    make_node("n2").label("disk", "hdd").label("cores", "16").zone("b"),
    make_node("n3").label("disk", "").label("cores", "many"),
    make_node("n4").zone("c"),
]
NAMES = ("n1", "n2", "n3", "n4")


def pod_with_term(*expressions: tuple[str, str, list[str]], fields: list[tuple[str, str, list[str]]] | None = None):
    return make_pod().node_affinity_term(*expressions, fields=fields or [])


ZONE = "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("pod", "fitting"),
    [
        pytest.param(make_pod().node_selector({"disk": "ssd"}), "n1", id="selector"),
        pytest.param(make_pod().node_selector({"disk": "ssd", ZONE: "b"}), "", id="selector-all-must-hold"),
        pytest.param(make_pod().node_selector({"disk": ""}), "n3", id="selector-empty-is-not-absent"),
        pytest.param(make_pod().node_selector({"disk": "nvme"}), "", id="selector-value-nobody-has"),
        pytest.param(make_pod().node_selector({"unknown": "x"}), "", id="selector-key-nobody-has"),
        pytest.param(pod_with_term(("disk", "In", ["ssd"])), "n1", id="in-one"),
        pytest.param(pod_with_term(("disk", "In", ["ssd", "hdd", "nvme"])), "n1 n2", id="in-several"),
        pytest.param(pod_with_term(("disk", "In", ["nvme"])), "", id="in-unknown-value"),
        pytest.param(pod_with_term(("disk", "In", ["nvme", "tape"])), "", id="in-unknown-values"),
        pytest.param(pod_with_term(("disk", "NotIn", ["ssd"])), "n2 n3 n4", id="not-in-matches-without-label"),
        pytest.param(pod_with_term(("disk", "NotIn", ["ssd", "", "nvme"])), "n2 n4", id="not-in-several"),
        pytest.param(pod_with_term(("disk", "Exists", [])), "n1 n2 n3", id="exists"),
        pytest.param(pod_with_term(("disk", "DoesNotExist", [])), "n4", id="does-not-exist"),
        pytest.param(pod_with_term(("cores", "Gt", ["8"])), "n2", id="gt-numbers-only"),
        pytest.param(pod_with_term(("cores", "Lt", ["16"])), "n1", id="lt-numbers-only"),
        pytest.param(
            pod_with_term(("disk", "Exists", []), (ZONE, "In", ["a", "c"])), "n1", id="requirements-are-anded"
        ),
        pytest.param(
            pod_with_term(("disk", "In", ["ssd"])).node_affinity_term((ZONE, "In", ["c"])), "n1 n4", id="terms-are-ored"
        ),
        pytest.param(
            pod_with_term(("disk", "In", ["ssd"])).node_selector({ZONE: "b"}), "", id="selector-and-affinity-both"
        ),
        pytest.param(
            pod_with_term((ZONE, "Exists", []), fields=[("metadata.name", "In", ["n4"])]), "n4", id="fields-and-labels"
        ),
        pytest.param(pod_with_term(fields=[("metadata.name", "NotIn", ["n4"])]), "n1 n2 n3", id="field-not-in"),
        pytest.param(pod_with_term(fields=[("metadata.name", "In", ["ghost"])]), "", id="field-ghost"),
        pytest.param(
            pod_with_term(fields=[("metadata.name", "NotIn", ["ghost"])]), "n1 n2 n3 n4", id="field-not-ghost"
        ),
        pytest.param(pod_with_term(fields=[("metadata.uid", "In", ["n4"])]), "", id="other-fields-are-empty"),
        pytest.param(
            pod_with_term(fields=[("metadata.uid", "NotIn", ["n4"])]), "n1 n2 n3 n4", id="other-fields-negated"
        ),
        pytest.param(pod_with_term(fields=[("metadata.name", "In", ["n1", "n2"])]), "", id="field-with-two-values"),
        pytest.param(pod_with_term(("disk", "Wants", ["x"])), "", id="unknown-operator-matches-nothing"),
    ],
)
def test_filter(pod: PodBuilder, fitting: str) -> None:
    rig = Rig(NODES)
    expected = {name: None if name in fitting.split() else MISMATCH for name in NAMES}
    assert rig.filter(rig.plugin("NodeAffinity"), pod) == expected
    for name, why in expected.items():
        assert node_affinity.fits(pod.obj(), rig.info(name)) is (why is None)


def test_filter_follows_labels() -> None:
    rig = Rig([make_node("n1").label("pool", "a"), make_node("n2")])
    plugin, pod = rig.plugin("NodeAffinity"), make_pod().node_selector({"pool": "b"})
    assert rig.filter(plugin, pod) == {"n1": MISMATCH, "n2": MISMATCH}
    rig.state.set_node(make_node("n2").label("pool", "b").obj())
    rig.state.set_node(make_node("n3").label("pool", "b").obj())
    assert rig.filter(plugin, pod) == {"n1": MISMATCH, "n2": None, "n3": None}
    rig.state.remove_node("n1")
    assert rig.filter(plugin, pod) == {"n2": None, "n3": None}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make_pod(), Status.skip(), id="nothing-asked-skips"),
        pytest.param(
            make_pod().preferred_node_affinity(1, ("disk", "Exists", [])), Status.skip(), id="preferences-skip"
        ),
        pytest.param(make_pod().node_selector({"a": "b"}), None, id="selector-narrows-nothing"),
        pytest.param(make_pod().node_affinity_name("n1"), {"n1"}, id="one-name"),
        pytest.param(make_pod().node_affinity_name("n1", "n2"), {"n1", "n2"}, id="a-name-a-term"),
        pytest.param(
            make_pod().node_affinity_name("n1").node_affinity_in("disk", ["ssd"]), None, id="one-term-without"
        ),
        pytest.param(make_pod().node_affinity_name("ghost"), {"ghost"}, id="ghost"),
        pytest.param(
            pod_with_term(fields=[("metadata.name", "In", ["n1"]), ("metadata.name", "In", ["n2"])]),
            Status.unresolvable("pod affinity terms conflict"),
            id="conflict-within-the-term",
        ),
        pytest.param(
            pod_with_term(fields=[("metadata.name", "In", ["n1"]), ("metadata.name", "In", ["n2"])]).node_affinity_name(
                "n3"
            ),
            {"n3"},
            id="conflict-in-one-of-two-terms",
        ),
        pytest.param(pod_with_term(fields=[("metadata.name", "NotIn", ["n1"])]), None, id="not-in-narrows-nothing"),
    ],
)
def test_pre_filter(pod: PodBuilder, expected: object) -> None:
    rig = Rig(NODES)
    answer = rig.pre_filter(rig.plugin("NodeAffinity"), pod)
    if isinstance(expected, set):
        assert isinstance(answer, PreFilterResult)
        assert set(answer.node_names or ()) == expected
    else:
        assert answer == expected


# -- Score


@pytest.mark.parametrize(
    ("pod", "raw", "normalized"),
    [
        pytest.param(
            make_pod().preferred_node_affinity(10, ("disk", "In", ["ssd"])),
            [10, 0, 0, 0],
            [100, 0, 0, 0],
            id="one-term",
        ),
        pytest.param(
            make_pod()
            .preferred_node_affinity(10, ("disk", "In", ["ssd"]))
            .preferred_node_affinity(5, (ZONE, "Exists", [])),
            [15, 5, 0, 5],
            [100, 33, 0, 33],
            id="weights-add-up",
        ),
        pytest.param(
            make_pod().preferred_node_affinity(0, ("disk", "In", ["ssd"])).preferred_node_affinity(7),
            [0, 0, 0, 0],
            [0, 0, 0, 0],
            id="weight-0-and-empty-terms-count-nothing",
        ),
        pytest.param(
            make_pod()
            .preferred_node_affinity(0, ("cores", "Gt", ["x"]))
            .preferred_node_affinity(1, ("disk", "Exists", [])),
            [1, 1, 1, 0],
            [100, 100, 100, 0],
            id="weight-0-is-not-even-parsed",
        ),
    ],
)
def test_score(pod: PodBuilder, raw: list[int], normalized: list[int]) -> None:
    rig = Rig(NODES)
    plugin = rig.plugin("NodeAffinity")
    assert list(rig.raw(plugin, pod).values()) == raw
    assert list(rig.normalized(plugin, pod).values()) == normalized
    assert [node_affinity.score(pod.obj(), rig.info(name)) for name in NAMES] == raw


def test_score_is_skipped_without_preferences() -> None:
    rig = Rig(NODES)
    assert rig.pre_score(rig.plugin("NodeAffinity"), make_pod().node_selector({"a": "b"})) == Status.skip()


def test_a_preference_that_cannot_be_parsed_fails_the_attempt() -> None:
    rig = Rig(NODES)
    pod = (
        make_pod().preferred_node_affinity(1, ("disk", "Exists", [])).preferred_node_affinity(2, ("cores", "Gt", ["x"]))
    )
    status = rig.pre_score(rig.plugin("NodeAffinity"), pod)
    assert status is not None
    assert status.code is Code.ERROR
    assert "[1].matchExpressions[0].values[0]: Invalid value" in status.message
    with pytest.raises(SelectorError, match="must be an integer"):
        node_affinity.score(pod.obj(), rig.info("n1"))


# -- args


def requirement(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm((NodeSelectorRequirement(key, operator, values),))


def added(*required: NodeSelectorTerm, preferred: tuple[PreferredSchedulingTerm, ...] = ()) -> NodeAffinityArgs:
    selector = NodeSelector(required) if required else None
    return NodeAffinityArgs(
        NodeAffinity(
            required_during_scheduling_ignored_during_execution=selector,
            preferred_during_scheduling_ignored_during_execution=preferred,
        )
    )


@pytest.mark.parametrize(
    ("args", "pod", "expected"),
    [
        pytest.param(
            added(requirement("disk", "Exists")), make_pod(), [None, None, None, ENFORCED], id="applies-to-every-pod"
        ),
        pytest.param(
            added(requirement("disk", "Exists")),
            make_pod().node_selector({ZONE: "a"}),
            [None, MISMATCH, MISMATCH, ENFORCED],
            id="enforced-is-named-first",
        ),
        pytest.param(
            added(requirement("disk", "In", "ssd"), requirement(ZONE, "In", "c")),
            make_pod(),
            [None, ENFORCED, ENFORCED, None],
            id="added-terms-are-ored",
        ),
        pytest.param(
            added(preferred=(PreferredSchedulingTerm(1, requirement("disk", "Exists")),)),
            make_pod(),
            [None, None, None, None],
            id="preferred-filters-nothing",
        ),
    ],
)
def test_added_affinity(args: NodeAffinityArgs, pod: PodBuilder, expected: list[str | None]) -> None:
    rig = Rig(NODES)
    assert list(rig.filter(rig.plugin("NodeAffinity", args), pod).values()) == expected


def test_added_preferences_add_to_the_pods_own() -> None:
    rig = Rig(NODES)
    plugin = rig.plugin("NodeAffinity", added(preferred=(PreferredSchedulingTerm(3, requirement("disk", "Exists")),)))
    assert list(rig.raw(plugin, make_pod()).values()) == [3, 3, 3, 0]
    pod = make_pod().preferred_node_affinity(4, (ZONE, "In", ["a"]))
    assert list(rig.raw(plugin, pod).values()) == [7, 3, 3, 0]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param(
            added(requirement("cores", "Gt", "x")),
            "parsing addedAffinity.requiredDuringSchedulingIgnoredDuringExecution: ",
            id="required",
        ),
        pytest.param(
            added(preferred=(PreferredSchedulingTerm(1, requirement("cores", "Near", "x")),)),
            "parsing addedAffinity.preferredDuringSchedulingIgnoredDuringExecution: ",
            id="preferred",
        ),
    ],
)
def test_added_affinity_that_cannot_be_parsed_is_refused(args: NodeAffinityArgs, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        Rig().plugin("NodeAffinity", args)


def test_details_show_what_differs() -> None:
    rig = Rig(NODES)
    state, pod = rig._cycle(pod_with_term((ZONE, "In", ["c"])).node_selector({"disk": "ssd", "pool": "x"}))
    assert rig.plugin("NodeAffinity").details(state, pod, rig.info("n1")) == {
        "nodeSelector": {"pool": {"asked": "x", "has": None}},
        "terms": [f"{ZONE} in (c)"],
    }


# -- hints


@pytest.mark.parametrize(
    ("args", "old", "new", "hint"),
    [
        pytest.param(None, None, make_node().label("pool", "x"), QUEUE, id="matching-node-added"),
        pytest.param(None, None, make_node().label("pool", "y"), SKIP, id="other-node-added"),
        pytest.param(None, make_node(), make_node().label("pool", "x"), QUEUE, id="now-matches"),
        pytest.param(
            None,
            make_node().label("pool", "x"),
            make_node().label("pool", "x").label("a", "b"),
            SKIP,
            id="matched-before",
        ),
        pytest.param(None, make_node().label("pool", "x"), make_node(), SKIP, id="no-longer-matches"),
        pytest.param(
            added(requirement("ok", "Exists")), None, make_node().label("pool", "x"), SKIP, id="not-what-is-enforced"
        ),
        pytest.param(
            added(requirement("ok", "Exists")),
            make_node().label("pool", "x"),
            make_node().label("pool", "x").label("ok"),
            QUEUE,
            id="what-is-enforced-now-matches",
        ),
    ],
)
def test_hints(args: NodeAffinityArgs | None, old: NodeBuilder | None, new: NodeBuilder, hint: object) -> None:
    plugin = Rig().plugin("NodeAffinity", args)
    assert registered(plugin) == {("Node", "NodeAdd|UpdateNodeLabel"), ("Node", "NodeUpdateNodeTaint")}
    pod = make_pod().node_selector({"pool": "x"}).obj()
    assert plugin.after_node_change(pod, old and old.obj(), new.obj()) is hint


@pytest.mark.parametrize(
    ("new", "hint"),
    [
        pytest.param(make_node().label("pool", "x"), QUEUE, id="node-that-matches"),
        pytest.param(make_node(), SKIP, id="node-that-does-not"),
    ],
)
def test_taint_hints(new: NodeBuilder, hint: object) -> None:
    plugin = Rig().plugin("NodeAffinity")
    pod = make_pod().node_selector({"pool": "x"}).obj()
    assert plugin.after_taint_change(pod, new.copy().taint("not-ready").obj(), new.obj()) is hint
    assert hint in hints(plugin, "Node", pod, new.copy().taint("not-ready"), new)
