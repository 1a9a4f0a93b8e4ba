"""Which pods the controllers of a cluster would add."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched import workloads
from tests.build import (
    make_daemon_set,
    make_deployment,
    make_job,
    make_node,
    make_pod,
    make_replica_set,
    make_replication_controller,
    make_stateful_set,
)

TEMPLATE = make_pod("t").label("app", "web").annotation("note", "kept").cpu("1")


def made(*manifests: dict[str, Any]) -> list[dict[str, Any]]:
    return [each.manifest for each in workloads.expand(manifests)]


def names(manifests: list[dict[str, Any]], kind: str = "Pod") -> list[str]:
    return [each["metadata"]["name"] for each in manifests if each["kind"] == kind]


def owned(pod: Any, owner: Any) -> dict[str, Any]:
    document: dict[str, Any] = pod.owner(
        owner["kind"], owner["metadata"]["name"], uid=owner["metadata"]["uid"], api_version=owner["apiVersion"]
    ).dict()
    return document


class TestReplicas:
    def test_a_deployment_makes_a_replica_set_and_its_pods(self) -> None:
        deployment = make_deployment("web").namespace("shop").replicas(3).selector({"app": "web"}).template(TEMPLATE)
        replica_set, *pods = made(deployment.dict())
        assert replica_set["kind"] == "ReplicaSet"
        hashed = replica_set["metadata"]["labels"]["pod-template-hash"]
        assert replica_set["metadata"]["name"] == f"web-{hashed}"
        assert replica_set["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": hashed}
        assert len(pods) == len(set(names(pods))) == 3
        for pod in pods:
            assert pod["metadata"]["namespace"] == "shop"
            assert pod["metadata"]["labels"] == {"app": "web", "pod-template-hash": hashed}
            assert pod["metadata"]["annotations"] == {"note": "kept"}
            assert pod["metadata"]["name"].startswith(f"web-{hashed}-")
            assert pod["metadata"]["ownerReferences"][0]["name"] == replica_set["metadata"]["name"]
            assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1"

    def test_a_running_deployment_makes_nothing(self) -> None:
        deployment = make_deployment("web").replicas(2).template(TEMPLATE).dict()
        replica_set = owned(make_replica_set("web-x").replicas(2).template(TEMPLATE), deployment)
        pods = [owned(make_pod(f"web-x-{each}"), replica_set) for each in "ab"]
        assert made(deployment, replica_set, *pods) == []

    @pytest.mark.parametrize(
        ("present", "adds"),
        [
            pytest.param([], 3, id="none there"),
            pytest.param([{}], 2, id="one there"),
            pytest.param([{"phase": "Failed"}, {"phase": "Succeeded"}], 3, id="finished ones do not count"),
            pytest.param([{"deleting": True}], 3, id="nor one that is going"),
            pytest.param([{"owner": "other"}], 3, id="nor those of others"),
            pytest.param([{}, {}, {}, {}], 0, id="too many there"),
        ],
    )
    @pytest.mark.parametrize("make", [make_replica_set, make_replication_controller])
    def test_up_to_the_wanted_number(self, make: Any, present: list[dict[str, Any]], adds: int) -> None:
        workload = make("web").replicas(3).template(TEMPLATE).dict()
        pods = []
        for number, shape in enumerate(present):
            pod = make_pod(f"web-{number}")
            if "phase" in shape:
                pod.phase(shape["phase"])
            if "deleting" in shape:
                pod.deleting()
            pods.append(owned(pod, make(shape.get("owner", "web")).dict()))
        assert len(names(made(workload, *pods))) == adds

    def test_absent_replicas_mean_one_and_zero_means_none(self) -> None:
        assert len(made(make_replica_set("web").template(TEMPLATE).dict())) == 1
        assert made(make_replica_set("web").replicas(0).template(TEMPLATE).dict()) == []

    def test_a_workload_without_template_makes_nothing(self) -> None:
        bare = [make("web").replicas(3).spec(template=None).dict() for make in (make_replica_set, make_deployment)]
        assert made(*bare) == []

    def test_same_manifests_same_names(self) -> None:
        deployment = make_deployment("web").replicas(5).template(TEMPLATE).dict()
        assert made(deployment) == made(deployment)

    def test_the_template_is_not_shared(self) -> None:
        first, second = made(make_replica_set("web").replicas(2).template(TEMPLATE).dict())
        first["spec"]["containers"][0]["name"] = "other"
        assert second["spec"]["containers"][0]["name"] != "other"


class TestStatefulSets:
    SET = (
        make_stateful_set("db")
        .replicas(3)
        .template(TEMPLATE)
        .spec(
            ordinals={"start": 1},
            volumeClaimTemplates=[
                {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
            ],
        )
    )

    def test_numbered_pods_with_claims_of_their_own(self) -> None:
        documents = made(self.SET.dict())
        assert names(documents) == ["db-1", "db-2", "db-3"]
        assert names(documents, "PersistentVolumeClaim") == ["data-db-1", "data-db-2", "data-db-3"]
        pod = next(each for each in documents if each["metadata"]["name"] == "db-2")
        assert pod["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-2"}}]
        assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-2"
        assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "2"

    def test_gaps_are_filled_and_claims_outlive_their_pods(self) -> None:
        owner = self.SET.dict()
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data-db-2"}, "spec": {}}
        documents = made(owner, claim, *(owned(make_pod(f"db-{number}"), owner) for number in (1, 3)))
        assert names(documents) == ["db-2"]
        assert names(documents, "PersistentVolumeClaim") == ["data-db-1", "data-db-3"]


class TestJobs:
    @pytest.mark.parametrize(
        ("spec", "phases", "adds"),
        [
            pytest.param({}, [], 1, id="one by default"),
            pytest.param({"parallelism": 3, "completions": 10}, [], 3, id="so many at a time"),
            pytest.param({"parallelism": 3, "completions": 10}, ["Running"], 2, id="beside those that run"),
            pytest.param({"parallelism": 3, "completions": 2}, [], 2, id="no more than wanted"),
            pytest.param({"parallelism": 3, "completions": 2}, ["Succeeded"], 1, id="less what is done"),
            pytest.param({"parallelism": 3, "completions": 1}, ["Succeeded"], 0, id="done"),
            pytest.param({"parallelism": 2}, ["Succeeded"], 0, id="one success is enough"),
            pytest.param({"parallelism": 2}, ["Failed"], 2, id="a failure is none"),
            pytest.param({"parallelism": 2, "suspend": True}, [], 0, id="suspended"),
            pytest.param({"parallelism": 0}, [], 0, id="no parallelism"),
        ],
    )
    def test_how_many(self, spec: dict[str, Any], phases: list[str], adds: int) -> None:
        job = make_job("train").template(TEMPLATE).spec(**spec).dict()
        pods = [owned(make_pod(f"train-{number}").phase(phase), job) for number, phase in enumerate(phases)]
        documents = made(job, *pods)
        assert len(documents) == adds
        assert all(each["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "train" for each in documents)

    def test_indexed(self) -> None:
        job = make_job("train").template(TEMPLATE).spec(completionMode="Indexed", completions=4, parallelism=3).dict()
        index = "batch.kubernetes.io/job-completion-index"
        done = owned(make_pod("train-0-x").annotation(index, "0").phase("Succeeded"), job)
        documents = made(job, done)
        assert [each["metadata"]["annotations"][index] for each in documents] == ["1", "2", "3"]
        assert [each["metadata"]["labels"][index] for each in documents] == ["1", "2", "3"]


class TestDaemonSets:
    NODES = (
        make_node("n1").label("role", "worker").dict(),
        make_node("n2").label("role", "worker").taint("dedicated", "gpu").dict(),
        make_node("n3").label("role", "edge").dict(),
        make_node("n4").label("role", "worker").unschedulable().taint("node.kubernetes.io/unschedulable").dict(),
    )

    def where(self, template: Any, *pods: dict[str, Any]) -> list[str]:
        documents = made(make_daemon_set("agent").template(template).dict(), *self.NODES, *pods)
        return [_pinned_to(each) for each in documents]

    def test_every_node_but_those_with_taints_of_others(self) -> None:
        assert self.where(TEMPLATE) == ["n1", "n3", "n4"]

    def test_tolerations_selectors_and_affinities_decide(self) -> None:
        tolerant = TEMPLATE.copy().toleration("dedicated", "gpu", effect="NoSchedule")
        assert self.where(tolerant) == ["n1", "n2", "n3", "n4"]
        assert self.where(TEMPLATE.copy().node_selector({"role": "edge"})) == ["n3"]
        assert self.where(TEMPLATE.copy().node_affinity_not_in("role", ["edge"])) == ["n1", "n4"]

    def test_nodes_that_are_served_are_left_out(self) -> None:
        owner = make_daemon_set("agent").template(TEMPLATE).dict()
        placed = owned(make_pod("agent-1").node("n1"), owner)
        pinned = owned(make_pod("agent-3").node_affinity_name("n3"), owner)
        assert self.where(TEMPLATE, placed, pinned) == ["n4"]

    def test_terms_are_kept_and_narrowed(self) -> None:
        (pod,) = made(
            make_daemon_set("agent").template(TEMPLATE.copy().node_affinity_in("role", ["edge"])).dict(), *self.NODES
        )
        (term,) = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        assert term["matchExpressions"] == [{"key": "role", "operator": "In", "values": ["edge"]}]
        assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]

    def test_host_network_tolerates_nodes_without_network(self) -> None:
        (pod, *_) = made(make_daemon_set("agent").template(TEMPLATE.copy().host_network()).dict(), self.NODES[0])
        keys = {toleration["key"] for toleration in pod["spec"]["tolerations"]}
        assert "node.kubernetes.io/network-unavailable" in keys


def _pinned_to(pod: dict[str, Any]) -> str:
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    name: str = terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
    return name
