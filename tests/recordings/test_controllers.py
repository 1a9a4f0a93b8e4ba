"""What the controllers here write, held against what those of a real kube-controller-manager wrote."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

import pytest

from kubesched.apiserver import DEFAULT_PROFILE
from tests.apiserver.lively import Lively
from tests.recordings.compare import Comparison, Correspondence
from tests.recordings.scenario import Exchange, scenarios

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def exchange(scenario: str, index: int) -> Exchange:
    return scenarios()[scenario].exchanges[index]


class Held:
    """Compares documents of one cluster here with recorded ones, under one correspondence."""

    def __init__(self, cluster: Lively, began: str) -> None:
        self.known = Correspondence(time_shift_s=cluster.clock.now() - datetime.fromisoformat(began).timestamp())

    def differences(self, recorded: Any, actual: Any) -> list[str]:
        recorded, actual = copy.deepcopy(recorded), copy.deepcopy(actual)
        for document in (recorded, actual):  # how often something was written is each cluster's own affair
            del document["metadata"]["resourceVersion"]
            document["spec"].get("claimRef", {}).pop("resourceVersion", None)
        comparison = Comparison(self.known)
        comparison.equal(recorded, actual)
        return [str(difference) for difference in comparison.differences]


def test_deployment_through_its_rollouts() -> None:
    cluster = Lively()
    cluster.ok("POST", DEPLOYMENTS, exchange("a06-workloads", 2).body)
    held = Held(cluster, exchange("a06-workloads", 2).answer["metadata"]["creationTimestamp"])
    cluster.run()
    (replica_set,) = cluster.items("/apis/apps/v1/namespaces/default/replicasets")
    held.known.names["dep-5649b97b6f"] = replica_set["metadata"]["name"]
    assert held.differences(exchange("a06-workloads", 8).answer, cluster.get(f"{DEPLOYMENTS}/dep")) == []
    cluster.binds = False
    scale = exchange("a06-workloads", 10)
    cluster.clock.advance(1.0)
    cluster.ok("PATCH", scale.path, scale.body, scale.headers["content-type"])
    cluster.run()
    recorded = next(e["object"] for e in exchange("a06-workloads", 12).stream or () if e["type"] == "ADDED")
    assert held.differences(recorded, cluster.get(f"{DEPLOYMENTS}/dep")) == [], "two of four run"
    cluster.binds = True
    cluster.run()
    assert held.differences(exchange("a06-workloads", 13).answer, cluster.get(f"{DEPLOYMENTS}/dep")) == []


@pytest.mark.parametrize(
    ("writes", "read"),
    [
        pytest.param([1], 3, id="ready from the start"),
        pytest.param([1, 4], 5, id="cordoned"),
        pytest.param([1, 4, 6], 7, id="uncordoned"),
    ],
)
def test_node_and_its_taints(writes: list[int], read: int) -> None:
    cluster = Lively(nodes=0, profile=DEFAULT_PROFILE)
    held = Held(cluster, exchange("d01-default-admission", 1).answer["metadata"]["creationTimestamp"])
    for index in writes:
        write = exchange("d01-default-admission", index)
        cluster.ok(write.method, write.path, write.body, write.headers["content-type"])
        cluster.run(1.0)
    assert held.differences(exchange("d01-default-admission", read).answer, cluster.get("/api/v1/nodes/d2")) == []


def test_claim_and_volume_that_the_scheduler_matched() -> None:
    cluster = Lively(nodes=0)
    claim, volume = exchange("b06-volumes", 10).answer, exchange("b06-volumes", 11).answer
    held = Held(cluster, claim["metadata"]["creationTimestamp"])
    mode = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.ok("POST", "/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "local"}, **mode})
    claims, volumes = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/persistentvolumes"
    plain = {name: part for name, part in claim["spec"].items() if name != "volumeName"}
    made = cluster.ok("POST", claims, {"metadata": {"name": "c-a"}, "spec": plain})
    spec = {name: part for name, part in volume["spec"].items() if name != "claimRef"}
    cluster.ok("POST", volumes, {"metadata": {"name": "pv-a"}, "spec": spec})
    cluster.run()
    reference = {**volume["spec"]["claimRef"], "uid": made["metadata"]["uid"]}
    annotations = {"pv.kubernetes.io/bound-by-controller": "yes"}
    cluster.patch(f"{volumes}/pv-a", {"metadata": {"annotations": annotations}, "spec": {"claimRef": reference}})
    cluster.run()
    assert held.differences(claim, cluster.get(f"{claims}/c-a")) == []
    assert held.differences(volume, cluster.get(f"{volumes}/pv-a")) == []
