"""`Cluster.capacity`: how many more of a pod fit."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched import Cluster
from kubesched.offline import OfflineError
from kubesched.state import consistency
from tests.build import make_node, make_pod, make_pv, make_pvc, make_storage_class

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def nodes(*cpus: str) -> list[Any]:
    return [
        make_node(f"n{k}").capacity(cpu=cpu, memory="64Gi", pods=10).label(HOST, f"n{k}").zone("ab"[k % 2]).dict()
        for k, cpu in enumerate(cpus)
    ]


def web(name: str = "web") -> Any:
    return make_pod(name).label("app", "web").cpu("1")


@pytest.mark.parametrize(
    ("held", "pod", "by_node", "message"),
    [
        pytest.param(
            nodes("4", "2"), web(), {"n0": 4, "n1": 2}, "0/2 nodes are available: 2 Insufficient cpu.", id="by-requests"
        ),
        pytest.param(
            [*nodes("4", "2"), make_pod("old").cpu("3").node("n0").dict()],
            web(),
            {"n0": 1, "n1": 2},
            "0/2 nodes are available: 2 Insufficient cpu.",
            id="beside-placed-pods",
        ),
        pytest.param(
            nodes("32"),
            make_pod("small"),
            {"n0": 10},
            "0/1 nodes are available: 1 Too many pods.",
            id="BR-144-a-pod-that-asks-for-nothing-by-pod-count",
        ),
        pytest.param(
            nodes("4", "4", "4"),
            web().pod_anti_affinity(HOST, {"app": "web"}),
            {"n0": 1, "n1": 1, "n2": 1},
            "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.",
            id="one-a-host",
        ),
        pytest.param(
            nodes("4", "1"),
            web().spread(ZONE, labels={"app": "web"}, max_skew=1),
            {"n0": 2, "n1": 1},
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints.",
            id="as-evenly-as-asked",
        ),
        pytest.param(
            [*nodes("2"), make_pod("low").cpu("1").priority(1).node("n0").dict()],
            web().priority(100),
            {"n0": 1},
            "0/1 nodes are available: 1 Insufficient cpu.",
            id="nobody-is-preempted",
        ),
        pytest.param([], web(), {}, "no nodes available to schedule pods", id="no-nodes"),
    ],
)
def test_capacity(held: list[Any], pod: Any, by_node: dict[str, int], message: str) -> None:
    cluster = Cluster(held)
    before = cluster.placements
    found = cluster.capacity(pod.dict())
    assert (found.by_node, found.count, found.message) == (by_node, sum(by_node.values()), message)
    assert cluster.placements == before
    assert cluster.pending == []
    assert consistency.check(cluster._state) == []
    assert cluster.capacity(pod.dict()).count == found.count  # nothing was left behind


def test_the_count_stops_at_the_limit() -> None:
    found = Cluster(nodes("4", "2")).capacity(web().dict(), limit=3)
    assert (found.count, found.message) == (3, "")


def test_br_142_pending_pods_take_no_room() -> None:
    cluster = Cluster([*nodes("4"), *(make_pod(f"waiting-{k}").cpu("2").dict() for k in range(3))])
    found = cluster.capacity(web().dict())
    assert (found.count, found.message) == (4, "0/1 nodes are available: 1 Insufficient cpu.")
    assert len(cluster.pending) == 3


def test_a_pending_pod_is_still_pending_afterwards() -> None:
    cluster = Cluster([*nodes("4"), web().dict()])
    assert cluster.capacity("web").count == 4
    assert cluster.pending == ["default/web"]
    assert cluster.schedule("web").node == "n0"


def test_volumes_that_copies_take_are_given_back() -> None:
    """One volume serves one claim, however many copies mount it."""
    late = make_storage_class("late").wait_for_first_consumer().provisioner("kubernetes.io/no-provisioner")
    volume = make_pv("v1").storage_class("late").capacity("5Gi").node_affinity_in(HOST, ["n1"])
    claim = make_pvc("data").storage_class("late").request("1Gi")
    cluster = Cluster([*nodes("2", "2"), late.dict(), volume.dict(), claim.dict()])
    pod = web().pvc("data").dict()
    assert cluster.capacity(pod).by_node == {"n1": 2}
    assert [volume.name for volume in cluster._state.volumes.free_volumes("late")] == ["v1"]
    assert cluster.schedule(pod).node == "n1"


def test_a_pod_of_another_scheduler_is_refused() -> None:
    with pytest.raises(OfflineError, match="no profile is named 'other'"):
        Cluster(nodes("4")).capacity(web().scheduler("other").dict())
