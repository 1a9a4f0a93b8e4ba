"""NodeName."""

from __future__ import annotations

import pytest

from kubesched.plugins import node_name
from tests.build import PodBuilder, make_node, make_pod
from tests.plugins.rig import QUEUE, SKIP, Rig, hints, registered

OTHER = "UnschedulableAndUnresolvable: node(s) didn't match the requested node name"


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make_pod(), {"n1": None, "n2": None, "n3": None}, id="no-name-fits-all"),
        pytest.param(make_pod().node("n2"), {"n1": OTHER, "n2": None, "n3": OTHER}, id="one-node"),
        pytest.param(make_pod().node("ghost"), {"n1": OTHER, "n2": OTHER, "n3": OTHER}, id="no-such-node"),
        pytest.param(make_pod().node("N2"), {"n1": OTHER, "n2": OTHER, "n3": OTHER}, id="case-matters"),
    ],
)
def test_filter(pod: PodBuilder, expected: dict[str, str | None]) -> None:
    rig = Rig([make_node("n1"), make_node("n2"), make_node("n3")])
    assert rig.filter(rig.plugin("NodeName"), pod) == expected
    for name, why in expected.items():
        assert node_name.fits(pod.obj(), rig.info(name)) is (why is None)


def test_filter_of_a_name_that_only_pods_know() -> None:
    rig = Rig([make_node("n1")], [make_pod("p").node("gone")])
    assert rig.filter(rig.plugin("NodeName"), make_pod().node("gone")) == {"n1": OTHER}


def test_filter_follows_rows_that_move() -> None:
    rig = Rig([make_node("n1"), make_node("n2"), make_node("n3")])
    rig.state.remove_node("n1")
    assert rig.filter(rig.plugin("NodeName"), make_pod().node("n3")) == {"n2": OTHER, "n3": None}


@pytest.mark.parametrize(
    ("pod", "hint"),
    [
        pytest.param(make_pod(), QUEUE, id="any-node"),
        pytest.param(make_pod().node("n1"), QUEUE, id="the-node"),
        pytest.param(make_pod().node("n2"), SKIP, id="another-node"),
    ],
)
def test_hints(pod: PodBuilder, hint: object) -> None:
    plugin = Rig().plugin("NodeName")
    assert registered(plugin) == {("Node", "NodeAdd|UpdateNodeTaint")}
    assert hints(plugin, "Node", pod, None, make_node("n1")) == {hint}
