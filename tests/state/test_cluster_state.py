"""What the cluster state makes of newer versions of pods."""

from __future__ import annotations

import numpy as np

from kubesched.state import consistency
from kubesched.state.cluster_state import ClusterState
from kubesched.state.node_table import NodeSet
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


def test_rows_of_a_mask_are_looked_for_when_somebody_asks() -> None:
    state = ClusterState()
    for number in range(4):
        state.set_node(make_node(f"n{number}").obj())
    mask = np.array([False, True, False, True])
    nodes = NodeSet.where(state.nodes, mask, 2)
    mask[:] = True
    assert (len(nodes), nodes.size_bytes) == (2, 4)
    assert nodes.rows().tolist() == [1, 3]
    assert [node.name for node in nodes] == ["n1", "n3"]
    assert nodes.size_bytes == 2 * np.dtype(np.intp).itemsize
    assert state.nodes.all_nodes().size_bytes == 0
