"""TaintToleration."""

from __future__ import annotations

import pytest

from kubesched.plugins import taint_toleration
from tests.build import NodeBuilder, PodBuilder, make_node, make_pod
from tests.plugins.rig import QUEUE, SKIP, Rig, hints, registered

UNTOLERATED = "UnschedulableAndUnresolvable: node(s) had untolerated taint(s)"


@pytest.mark.parametrize(
    ("node", "pod", "fits"),
    [
        pytest.param(make_node(), make_pod(), True, id="no-taint"),
        pytest.param(make_node().taint("a"), make_pod(), False, id="no-schedule"),
        pytest.param(make_node().taint("a", effect="NoExecute"), make_pod(), False, id="no-execute"),
        pytest.param(make_node().taint("a", effect="PreferNoSchedule"), make_pod(), True, id="prefer-does-not-filter"),
        pytest.param(make_node().taint("a"), make_pod().toleration("a", operator="Exists"), True, id="exists"),
        pytest.param(make_node().taint("a", "x"), make_pod().toleration("a", "x"), True, id="equal-by-default"),
        pytest.param(make_node().taint("a", "x"), make_pod().toleration("a", "y"), False, id="other-value"),
        pytest.param(
            make_node().taint("a").taint("b"), make_pod().toleration("a", operator="Exists"), False, id="one-of-two"
        ),
        pytest.param(
            make_node().taint("a").taint("b", effect="PreferNoSchedule"),
            make_pod().toleration("a", operator="Exists"),
            True,
            id="the-hard-one-of-two",
        ),
        pytest.param(
            make_node().taint("a"),
            make_pod().toleration("a", operator="Exists", effect="NoExecute"),
            False,
            id="toleration-of-another-effect",
        ),
        pytest.param(
            make_node().taint("a").taint("b"), make_pod().toleration(operator="Exists"), True, id="everything"
        ),
        pytest.param(
            make_node().taint("a", "5"), make_pod().toleration("a", "3", operator="Gt"), False, id="gt-is-off"
        ),
    ],
)
def test_filter(node: NodeBuilder, pod: PodBuilder, fits: bool) -> None:
    rig = Rig([node, make_node("untainted")])
    assert rig.filter(rig.plugin("TaintToleration"), pod) == {"node": None if fits else UNTOLERATED, "untainted": None}
    assert taint_toleration.fits(pod.obj(), rig.info("node")) is fits


@pytest.mark.parametrize(
    ("operator", "value", "fits"),
    [
        pytest.param("Gt", "3", True, id="5-gt-3"),
        pytest.param("Gt", "5", False, id="5-gt-5"),
        pytest.param("Lt", "9", True, id="5-lt-9"),
        pytest.param("Lt", "09", False, id="not-how-people-write-it"),
    ],
)
def test_comparison_operators_behind_their_gate(operator: str, value: str, fits: bool) -> None:
    rig = Rig([make_node().taint("level", "5")], features={"TaintTolerationComparisonOperators": True})
    pod = make_pod().toleration("level", value, operator=operator)
    assert rig.filter(rig.plugin("TaintToleration"), pod) == {"node": None if fits else UNTOLERATED}
    assert taint_toleration.fits(pod.obj(), rig.info("node"), comparison_operators=True) is fits


def test_taint_lists_seen_later_are_judged_too() -> None:
    rig = Rig([make_node("n1").taint("a")])
    plugin, pod = rig.plugin("TaintToleration"), make_pod().toleration("a", operator="Exists")
    assert rig.filter(plugin, pod) == {"n1": None}
    rig.state.set_node(make_node("n2").taint("b").obj())
    rig.state.set_node(make_node("n1").taint("b").taint("a").obj())
    assert rig.filter(plugin, pod) == {"n1": UNTOLERATED, "n2": UNTOLERATED}
    rig.state.set_node(make_node("n2").obj())
    assert rig.filter(plugin, pod) == {"n1": UNTOLERATED, "n2": None}


def test_a_table_of_another_cluster_is_judged_anew() -> None:
    here, there = Rig([make_node().taint("a")]), Rig([make_node("x"), make_node("y").taint("a")])
    plugin = here.plugin("TaintToleration")
    assert here.filter(plugin, make_pod()) == {"node": UNTOLERATED}
    assert there.filter(plugin, make_pod()) == {"x": None, "y": UNTOLERATED}


def test_many_kinds_of_pods_do_not_fill_the_memory() -> None:
    rig = Rig([make_node().taint("k5")])
    plugin = rig.plugin("TaintToleration")
    for number in range(2500):
        rig_pod = make_pod().toleration(f"k{number}", operator="Exists").obj()
        assert (rig.filter(plugin, rig_pod)["node"] is None) == (number == 5)
    assert len(plugin._judged) <= taint_toleration._REMEMBERED_MAX


SOFT = "PreferNoSchedule"


@pytest.mark.parametrize(
    ("pod", "raw", "normalized"),
    [
        pytest.param(make_pod(), [2, 1, 0], [0, 50, 100], id="reversed"),
        pytest.param(make_pod().toleration("a", operator="Exists"), [1, 0, 0], [0, 100, 100], id="one-tolerated"),
        pytest.param(make_pod().toleration(operator="Exists"), [0, 0, 0], [100, 100, 100], id="all-tolerated"),
        pytest.param(make_pod().toleration("a", effect=SOFT), [1, 0, 0], [0, 100, 100], id="of-this-effect"),
        pytest.param(
            make_pod().toleration("a", operator="Exists", effect="NoSchedule"), [2, 1, 0], [0, 50, 100], id="of-another"
        ),
    ],
)
def test_score(pod: PodBuilder, raw: list[int], normalized: list[int]) -> None:
    rig = Rig(
        [
            make_node("n1").taint("a", effect=SOFT).taint("b", effect=SOFT).taint("hard"),
            make_node("n2").taint("a", effect=SOFT),
            make_node("n3").taint("hard"),
        ]
    )
    plugin = rig.plugin("TaintToleration")
    assert rig.raw(plugin, pod) == dict(zip(("n1", "n2", "n3"), raw, strict=True))
    assert rig.normalized(plugin, pod) == dict(zip(("n1", "n2", "n3"), normalized, strict=True))
    assert [taint_toleration.unwelcome_count(pod.obj(), rig.info(name)) for name in ("n1", "n2", "n3")] == raw


def test_details_name_the_taint() -> None:
    rig = Rig([make_node().taint("a", effect=SOFT).taint("b", "x")])
    state, pod = rig._cycle(make_pod())
    details = rig.plugin("TaintToleration").details(state, pod, rig.info("node"))
    assert details == {"taint": {"key": "b", "value": "x", "effect": "NoSchedule"}}


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        pytest.param(None, make_node(), QUEUE, id="untainted-node-added"),
        pytest.param(None, make_node().taint("a"), QUEUE, id="node-with-a-tolerated-taint-added"),
        pytest.param(None, make_node().taint("b"), SKIP, id="node-with-an-untolerated-taint-added"),
        pytest.param(None, make_node().taint("b", effect=SOFT), QUEUE, id="soft-taints-keep-nobody-off"),
        pytest.param(make_node().taint("b"), make_node(), QUEUE, id="taint-gone"),
        pytest.param(make_node().taint("b"), make_node().taint("a"), QUEUE, id="taint-turned-into-a-tolerated-one"),
        pytest.param(make_node().taint("b"), make_node().taint("c"), SKIP, id="still-untolerated"),
        pytest.param(make_node().taint("a"), make_node(), SKIP, id="was-tolerated-already"),
        pytest.param(make_node(), make_node().taint("b"), SKIP, id="newly-tainted"),
    ],
)
def test_node_hints(old: NodeBuilder | None, new: NodeBuilder, hint: object) -> None:
    plugin = Rig().plugin("TaintToleration")
    assert registered(plugin) == {("Node", "NodeAdd|UpdateNodeTaint"), ("Pod", "PodUpdatePodToleration")}
    assert hints(plugin, "Node", make_pod().toleration("a", operator="Exists"), old, new) == {hint}


@pytest.mark.parametrize(
    ("updated", "hint"),
    [
        pytest.param(make_pod("p"), QUEUE, id="own-tolerations"),
        pytest.param(make_pod("q"), SKIP, id="those-of-another-pod"),
    ],
)
def test_toleration_hints(updated: PodBuilder, hint: object) -> None:
    new = updated.copy().toleration("a", operator="Exists")
    assert hints(Rig().plugin("TaintToleration"), "Pod", make_pod("p"), updated, new) == {hint}
