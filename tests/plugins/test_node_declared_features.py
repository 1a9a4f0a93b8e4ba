"""NodeDeclaredFeatures."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Status
from kubesched.plugins import node_declared_features
from kubesched.state.pod_info import PodInfo
from tests.build import PodBuilder, make_node, make_pod
from tests.plugins.rig import QUEUE, SKIP, Rig, hints, registered

RESTART, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
LACKING = "UnschedulableAndUnresolvable: node(s) didn't match Pod's required features"
ON = {"NodeDeclaredFeatures": True}


def restarting(action: str = "RestartAllContainers", *, init: bool = False) -> PodBuilder:
    pod = make_pod()
    rules = [{"action": action, "exitCodes": {"operator": "In", "values": [42]}}]
    container = {"name": "x", "restartPolicy": "Never", "restartPolicyRules": rules}
    pod._list("spec", "initContainers" if init else "containers").append(container)
    return pod


def host_network(host_users: bool | None) -> PodBuilder:
    pod = make_pod().host_network()
    if host_users is not None:
        pod._in("spec")["hostUsers"] = host_users
    return pod


@pytest.mark.parametrize(
    ("pod", "needs"),
    [
        pytest.param(make_pod(), set(), id="plain"),
        pytest.param(restarting(), {RESTART}, id="restart-all"),
        pytest.param(restarting(init=True), {RESTART}, id="restart-all-from-an-init-container"),
        pytest.param(restarting("Restart"), set(), id="restart-one"),
        pytest.param(host_network(False), {USERS}, id="own-users-on-host-network"),
        pytest.param(host_network(True), set(), id="host-users-on-host-network"),
        pytest.param(host_network(None), set(), id="users-not-stated"),
    ],
)
def test_what_a_pod_needs(pod: PodBuilder, needs: set[str]) -> None:
    assert node_declared_features.required(pod.obj()) == needs
    rig = Rig([make_node("n1").feature(RESTART), make_node("n2").feature(USERS, RESTART), make_node("n3")], features=ON)
    declared = {"n1": {RESTART}, "n2": {RESTART, USERS}, "n3": set[str]()}
    expected = {name: None if needs <= has else LACKING for name, has in declared.items()}
    plugin = rig.plugin("NodeDeclaredFeatures")
    assert rig.filter(plugin, pod) == expected
    assert {name: node_declared_features.fits(pod.obj(), rig.info(name)) for name in declared} == {
        name: status is None for name, status in expected.items()
    }
    assert (rig.pre_filter(plugin, pod) == Status.skip()) is (not needs)


def test_without_the_feature_gate_nothing_is_asked() -> None:
    rig = Rig([make_node()])
    plugin = rig.plugin("NodeDeclaredFeatures")
    assert rig.pre_filter(plugin, restarting()) == Status.skip()
    assert plugin.events_to_register() == []


def test_details_name_what_is_missing() -> None:
    rig = Rig([make_node("n1").feature("Other")], features=ON)
    pod = restarting().obj()
    details = rig.plugin("NodeDeclaredFeatures").details(CycleState(PodInfo(pod)), pod, rig.info("n1"))
    assert details == {"missing": [RESTART]}


@pytest.mark.parametrize(
    ("kind", "old", "new", "hint"),
    [
        pytest.param("Node", None, make_node("n").feature(RESTART), QUEUE, id="node-with-it"),
        pytest.param("Node", None, make_node("n"), SKIP, id="node-without-it"),
        pytest.param("Node", make_node("n"), make_node("n").feature("Other"), SKIP, id="another-feature"),
        pytest.param("TargetPod", restarting(), make_pod(), QUEUE, id="needs-it-no-more"),
        pytest.param("TargetPod", restarting(), restarting().label("a", "b"), SKIP, id="label"),
        pytest.param("TargetPod", restarting(), make_pod().uid("other"), SKIP, id="another-pod"),
    ],
)
def test_hints(kind: str, old: Any, new: Any, hint: object) -> None:
    plugin = Rig(features=ON).plugin("NodeDeclaredFeatures")
    assert ("Node", "NodeAdd|UpdateNodeTaint|UpdateNodeDeclaredFeature") in registered(plugin)
    assert hints(plugin, kind, restarting(), old, new) == {hint}
