"""What the cluster state makes of newer versions of pods."""

from __future__ import annotations

from kubesched.state import consistency
from kubesched.state.cluster_state import ClusterState
from tests.build import make_node, make_pod


def test_ports_follow_a_pod_that_asks_for_the_same_as_before() -> None:
    """Pods that ask for the same share one sum of requests, which says nothing of their ports."""
    state = ClusterState()
    state.set_node(make_node("n0").capacity(cpu=4).obj())
    without = make_pod("a").cpu("1").node("n0").obj()
    with_port = make_pod("a").cpu("1").host_port(80).node("n0").obj()
    for pod, users in ((without, []), (with_port, ["n0"]), (without, []), (with_port, ["n0"])):
        state.set_pod(pod)
        assert [node.name for node in state.nodes.port_users("TCP", 80)] == users
        assert consistency.check(state) == []
    state.remove_pod(with_port.metadata.uid)
    assert state.nodes.port_users("TCP", 80) == []
    assert consistency.check(state) == []
