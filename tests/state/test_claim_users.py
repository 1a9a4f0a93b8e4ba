"""Who uses which claim, however pods and nodes come and go."""

from __future__ import annotations

import random

import pytest

from kubesched.state import consistency
from kubesched.state.claim_users import ClaimUsers
from kubesched.state.cluster_state import ClusterState
from kubesched.state.pod_info import PodInfo
from tests.build import make_node, make_pod


def users(state: ClusterState, claim: str, namespace: str = "default") -> list[str]:
    return sorted(info.key for info in state.claim_users.of(namespace, claim))


def test_users_of_a_claim() -> None:
    state = ClusterState()
    state.set_node(make_node("n1").obj())
    assert users(state, "data") == []
    state.set_pod(make_pod("a").pvc("data").pvc("data").node("n1").obj())
    state.set_pod(make_pod("b").namespace("other").pvc("data").node("n1").obj())
    state.set_pod(make_pod("c").ephemeral_volume("data").node("n1").obj())
    assert users(state, "data") == ["default/a"]
    assert users(state, "data", "other") == ["other/b"]
    assert users(state, "c-data") == []
    assert state.claim_users.volume_counts()[: state.nodes.row_count].tolist() == [4]


def test_pods_count_nowhere_while_their_node_is_unknown() -> None:
    state = ClusterState()
    state.set_pod(make_pod("a").pvc("data").node("n1").obj())
    assert users(state, "data") == []
    state.set_node(make_node("n1").obj())
    assert users(state, "data") == ["default/a"]
    state.remove_node("n1")
    assert users(state, "data") == []


def test_assumed_pods_count() -> None:
    state = ClusterState()
    state.set_node(make_node("n1").obj())
    pod = PodInfo(make_pod("a").pvc("data").obj())
    assert users(state, "data") == []
    state.assume(pod, "n1")
    assert users(state, "data") == ["default/a"]
    state.forget(pod.uid)
    assert users(state, "data") == []


@pytest.mark.parametrize("seed", range(5))
def test_kept_up_to_date_is_the_same_as_counted_afresh(seed: int) -> None:
    chance = random.Random(seed)
    state = ClusterState()
    pods: dict[str, str] = {}
    for step in range(400):
        node = f"n{chance.randrange(70)}"
        pod = f"p{chance.randrange(60)}"
        match chance.randrange(5):
            case 0:
                state.set_node(make_node(node).obj())
            case 1:
                state.remove_node(node)
            case 2:
                state.remove_pod(f"u-{pod}")
                pods.pop(pod, None)
            case _:
                pods[pod] = node
                placed = make_pod(pod).uid(f"u-{pod}").pvc(f"c{chance.randrange(4)}").node(node)
                if chance.random() < 0.3:
                    placed.volume(iscsi={"targetPortal": "p", "iqn": "i", "lun": 0})
                state.set_pod(placed.obj())
        if step % 7 == 0:
            state.nodes.journal.trim(1)
        if step % 3 == 0:
            fresh = ClaimUsers(state.nodes)
            for claim in ("c0", "c1", "c2", "c3"):
                kept = {info.uid for info in state.claim_users.of("default", claim)}
                assert kept == {info.uid for info in fresh.of("default", claim)}
            assert consistency.check(state) == []


def test_the_self_check_sees_what_was_missed() -> None:
    state = ClusterState()
    state.set_node(make_node("n1").obj())
    assert users(state, "data") == []
    state.set_pod(make_pod("a").pvc("data").node("n1").obj())
    state.claim_users._position = state.nodes.journal.position
    assert consistency.check(state) == ["users of claims or volumes of nodes differ from a recount"]
