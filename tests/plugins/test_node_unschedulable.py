"""NodeUnschedulable."""

from __future__ import annotations

import pytest

from kubesched.plugins import node_unschedulable
from tests.build import NodeBuilder, PodBuilder, make_node, make_pod
from tests.plugins.rig import QUEUE, SKIP, Rig, hints, registered

CORDONED = "UnschedulableAndUnresolvable: node(s) were unschedulable"
TAINT = "node.kubernetes.io/unschedulable"


@pytest.mark.parametrize(
    ("pod", "fits_cordoned"),
    [
        pytest.param(make_pod(), False, id="no-toleration"),
        pytest.param(make_pod().toleration(TAINT, operator="Exists"), True, id="tolerates-by-key"),
        pytest.param(make_pod().toleration(TAINT, operator="Exists", effect="NoSchedule"), True, id="key-and-effect"),
        pytest.param(make_pod().toleration(TAINT, effect="NoSchedule"), True, id="equal-to-the-empty-value"),
        pytest.param(make_pod().toleration(TAINT, "x"), False, id="equal-to-another-value"),
        pytest.param(make_pod().toleration(TAINT, operator="Exists", effect="NoExecute"), False, id="other-effect"),
        pytest.param(make_pod().toleration(operator="Exists"), True, id="tolerates-everything"),
        pytest.param(make_pod().toleration("other", operator="Exists"), False, id="other-key"),
    ],
)
def test_filter(pod: PodBuilder, fits_cordoned: bool) -> None:
    rig = Rig([make_node("open"), make_node("cordoned").unschedulable(), make_node("tainted").taint(TAINT)])
    expected = {"open": None, "cordoned": None if fits_cordoned else CORDONED, "tainted": None}
    assert rig.filter(rig.plugin("NodeUnschedulable"), pod) == expected
    assert node_unschedulable.fits(pod.obj(), rig.info("cordoned")) is fits_cordoned
    assert node_unschedulable.fits(pod.obj(), rig.info("open"))


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        pytest.param(None, make_node(), QUEUE, id="open-node-added"),
        pytest.param(None, make_node().unschedulable(), SKIP, id="cordoned-node-added"),
        pytest.param(make_node().unschedulable(), make_node(), QUEUE, id="uncordoned"),
        pytest.param(make_node(), make_node().unschedulable(), SKIP, id="cordoned"),
        pytest.param(make_node().taint("x"), make_node(), SKIP, id="was-open-already"),
    ],
)
def test_node_hints(old: NodeBuilder | None, new: NodeBuilder, hint: object) -> None:
    plugin = Rig().plugin("NodeUnschedulable")
    assert registered(plugin) == {("Node", "NodeAdd|UpdateNodeTaint"), ("Pod", "PodUpdatePodToleration")}
    assert hints(plugin, "Node", make_pod(), old, new) == {hint}


@pytest.mark.parametrize(
    ("new", "hint"),
    [
        pytest.param(make_pod("p").toleration(TAINT, operator="Exists"), QUEUE, id="now-tolerates-cordoning"),
        pytest.param(make_pod("p").toleration("other", operator="Exists"), SKIP, id="tolerates-something-else"),
        pytest.param(make_pod("q").toleration(TAINT, operator="Exists"), SKIP, id="another-pod"),
    ],
)
def test_toleration_hints(new: PodBuilder, hint: object) -> None:
    assert hints(Rig().plugin("NodeUnschedulable"), "Pod", make_pod("p"), make_pod("p"), new) == {hint}
