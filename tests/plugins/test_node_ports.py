"""NodePorts."""

from __future__ import annotations

import pytest

from kubesched.framework.cycle_state import CycleState, CycleStateError
from kubesched.framework.status import Status
from kubesched.plugins import node_ports
from kubesched.state.pod_info import PodInfo
from tests.build import PodBuilder, make_node, make_pod
from tests.plugins.rig import QUEUE, SKIP, Rig, hints, registered

TAKEN = "Unschedulable: node(s) didn't have free ports for the requested pod ports"


def port(number: int, protocol: str | None = "TCP", ip: str | None = None) -> PodBuilder:
    return make_pod().host_port(number, protocol=protocol, ip=ip)


@pytest.mark.parametrize(
    ("used", "wanted", "fits"),
    [
        pytest.param(port(8080), port(8080), False, id="same"),
        pytest.param(port(8080), port(8081), True, id="other-port"),
        pytest.param(port(8080), port(8080, "UDP"), True, id="other-protocol"),
        pytest.param(port(8080), port(8080, None), False, id="no-protocol-is-tcp"),
        pytest.param(port(8080, ip="10.0.0.1"), port(8080, ip="10.0.0.2"), True, id="other-address"),
        pytest.param(port(8080, ip="10.0.0.1"), port(8080), False, id="all-addresses-want-it"),
        pytest.param(port(8080), port(8080, ip="10.0.0.1"), False, id="all-addresses-have-it"),
        pytest.param(port(8080, ip="0.0.0.0"), port(8080, ip="10.0.0.1"), False, id="all-addresses-spelled-out"),
        pytest.param(port(8080), port(0), True, id="port-0-is-none"),
        pytest.param(port(8080), port(1).host_port(8080), False, id="the-second-port"),
        pytest.param(port(1).host_port(8080), port(8080), False, id="the-second-port-in-use"),
        pytest.param(port(1), make_pod(), True, id="no-port"),
    ],
)
def test_filter(used: PodBuilder, wanted: PodBuilder, fits: bool) -> None:
    # More nodes than are asked one by one.
    names = [f"n{number}" for number in range(12)]
    busy = {"n3", "n7", "gone"}
    pods = [used.copy().uid(f"u-{name}").node(name) for name in busy]
    rig = Rig([make_node(name) for name in names], pods)
    expected = {name: TAKEN if name in busy and not fits else None for name in names}
    assert rig.filter(rig.plugin("NodePorts"), wanted) == expected
    assert node_ports.fits(wanted.obj(), rig.info("n3")) is fits
    assert node_ports.fits(wanted.obj(), rig.info("n1"))


def test_a_port_is_free_again_when_its_last_user_goes() -> None:
    nodes = [make_node(f"n{number}") for number in range(12)]
    pods = [port(80, ip="10.0.0.1").uid("one").node("n1"), port(80, ip="10.0.0.2").uid("two").node("n1")]
    rig = Rig(nodes, pods)
    plugin = rig.plugin("NodePorts")
    rig.state.remove_pod("one")
    assert rig.filter(plugin, port(80))["n1"] == TAKEN
    assert rig.filter(plugin, port(80, ip="10.0.0.1"))["n1"] is None
    rig.state.remove_pod("two")
    assert rig.filter(plugin, port(80))["n1"] is None


def test_a_pod_may_want_one_port_on_several_addresses() -> None:
    rig = Rig([make_node("n1")], [port(80, ip="10.0.0.1").host_port(80, ip="10.0.0.2").uid("both").node("n1")])
    plugin = rig.plugin("NodePorts")
    assert rig.filter(plugin, port(80, ip="10.0.0.2"))["n1"] == TAKEN
    rig.state.remove_pod("both")
    assert rig.filter(plugin, port(80))["n1"] is None


def test_pre_filter_skips_pods_without_host_ports() -> None:
    rig = Rig([make_node()])
    assert rig.pre_filter(rig.plugin("NodePorts"), port(0)) == Status.skip()


def test_filter_without_pre_filter_names_the_key() -> None:
    rig = Rig([make_node()])
    pod = port(80).obj()
    with pytest.raises(CycleStateError, match='reading "PreFilterNodePorts" from cycleState: not found'):
        rig.plugin("NodePorts").filter_rows(CycleState(PodInfo(pod)), pod, rig.state.nodes.all_nodes())


def test_details_name_port_and_holder() -> None:
    rig = Rig([make_node()], [make_pod("web").host_port(8080).node("node")])
    state, pod = rig._cycle(port(80).host_port(8080))
    details = rig.plugin("NodePorts").details(state, pod, rig.info("node"))
    assert details == {"port": "TCP/8080", "pod": "default/web"}


@pytest.mark.parametrize(
    ("gone", "hint"),
    [
        pytest.param(port(8080).node("n1"), QUEUE, id="held-the-port"),
        pytest.param(port(8080, ip="10.0.0.1").node("n1"), QUEUE, id="held-it-on-one-address"),
        pytest.param(port(8081).node("n1"), SKIP, id="held-another"),
        pytest.param(port(8080, "UDP").node("n1"), SKIP, id="held-it-for-another-protocol"),
        pytest.param(make_pod().node("n1"), SKIP, id="held-none"),
        pytest.param(port(8080), SKIP, id="was-nowhere"),
        pytest.param(port(8080).nominated("n1"), QUEUE, id="was-nominated"),
    ],
)
def test_pod_hints(gone: PodBuilder, hint: object) -> None:
    plugin = Rig().plugin("NodePorts")
    assert registered(plugin) == {("Pod", "PodDelete"), ("Node", "NodeAdd|UpdateNodeTaint")}
    assert hints(plugin, "Pod", port(8080), gone, None) == {hint}


def test_a_new_node_always_wakes() -> None:
    assert hints(Rig().plugin("NodePorts"), "Node", port(8080), None, make_node()) == {QUEUE}
