"""What the API server was recorded to fill in, as far as scheduling can tell."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubesched.manifests import apply_defaults
from tests import build
from tests.build import make_pod


def defaulted(manifest: dict[str, Any]) -> Any:
    """Makes sure on the way that the manifest is left alone and that a second time changes nothing."""
    before = copy.deepcopy(manifest)
    once = apply_defaults(manifest)
    assert manifest == before
    assert apply_defaults(once) == once
    return once


def bare_pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "registry.example/app:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers} | spec}


def test_a_minimal_pod():
    pod = defaulted(bare_pod())
    assert pod["metadata"]["namespace"] == "default"
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    assert pod["spec"]["restartPolicy"] == "Always"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 30
    assert pod["status"] == {"phase": "Pending"}
    assert "tolerations" not in pod["spec"]


def test_what_is_said_stays():
    said = bare_pod(schedulerName="mine", restartPolicy="Never", terminationGracePeriodSeconds=5)
    said["metadata"]["namespace"] = "shop"
    said["status"] = {"phase": "Running"}
    pod = defaulted(said)
    assert pod["spec"] == said["spec"]
    assert pod["metadata"]["namespace"] == "shop"
    assert pod["status"] == {"phase": "Running"}


def test_a_negative_grace_period_becomes_one_second():
    assert defaulted(bare_pod(terminationGracePeriodSeconds=-1))["spec"]["terminationGracePeriodSeconds"] == 1


@pytest.mark.parametrize("group", ["containers", "initContainers"])
@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        pytest.param(
            {"limits": {"cpu": "1", "example.com/gpu": "1"}}, {"cpu": "1", "example.com/gpu": "1"}, id="limits"
        ),
        pytest.param(
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
            {"cpu": "500m", "memory": "1Gi"},
            id="limits and some requests",
        ),
        pytest.param({"requests": {"cpu": "500m"}}, {"cpu": "500m"}, id="requests"),
        pytest.param({"requests": {"cpu": "0.0001", "memory": "1n"}}, {"cpu": "1m", "memory": "1m"}, id="rounded up"),
        pytest.param({"requests": {"cpu": 0.5, "memory": 100}}, {"cpu": 0.5, "memory": 100}, id="numbers"),
    ],
)
def test_requests_come_from_limits(group: str, resources: dict[str, Any], requests: dict[str, Any]):
    pod = defaulted(bare_pod(**{group: [{"name": "x", "resources": resources}]}))
    assert pod["spec"][group][0]["resources"]["requests"] == requests


def test_templates_keep_their_limits_to_themselves():
    template = make_pod().limits(cpu="1")
    deployment = defaulted(build.make_deployment("d").template(template).dict())
    assert deployment["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("resources", "containers", "requests"),
    [
        pytest.param({"limits": {"cpu": "2"}}, {}, {"cpu": "2"}, id="from the limit"),
        pytest.param({"limits": {"cpu": "2"}}, {"cpu": "500m"}, {"cpu": "500m"}, id="from the containers"),
        pytest.param(
            {"limits": {"cpu": "2"}}, {"memory": "1Gi"}, {"cpu": "2", "memory": "1073741824"}, id="one of each"
        ),
        pytest.param({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}, {"cpu": "500m"}, {"cpu": "1"}, id="said"),
        pytest.param({"requests": {"cpu": "1"}}, {"memory": "1Gi"}, {"cpu": "1"}, id="without limits nothing is added"),
    ],
)
def test_pod_level_requests(resources: dict[str, Any], containers: dict[str, str], requests: dict[str, str]):
    pod = defaulted(bare_pod(resources=resources, containers=[{"name": "c", "resources": {"requests": containers}}]))
    assert pod["spec"]["resources"]["requests"] == requests


@pytest.mark.parametrize("group", ["containers", "initContainers"])
def test_ports(group: str):
    containers = [{"name": "x", "ports": [{"containerPort": 8080}, {"containerPort": 53, "protocol": "UDP"}]}]
    plain = defaulted(bare_pod(**{group: containers}))
    assert plain["spec"][group][0]["ports"] == [
        {"containerPort": 8080, "protocol": "TCP"},
        {"containerPort": 53, "protocol": "UDP"},
    ]
    on_host = defaulted(bare_pod(hostNetwork=True, **{group: containers}))
    assert [port["hostPort"] for port in on_host["spec"][group][0]["ports"]] == [8080, 53]


def test_a_host_port_that_is_said_stays_under_host_network():
    pod = defaulted(bare_pod(hostNetwork=True, containers=[{"ports": [{"containerPort": 80, "hostPort": 8080}]}]))
    assert pod["spec"]["containers"][0]["ports"][0]["hostPort"] == 8080


@pytest.mark.parametrize(
    ("manifest", "path", "value"),
    [
        pytest.param(
            build.make_namespace("shop").dict(), "metadata.labels", {"kubernetes.io/metadata.name": "shop"}, id="ns"
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}},
            "status.phase",
            "Active",
            id="ns phase",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}, "status": {"capacity": {"cpu": "4"}}},
            "status.allocatable",
            {"cpu": "4"},
            id="node that tells its capacity only",
        ),
        pytest.param(
            build.make_node("x").allocatable(cpu="0.0001").dict(), "status.allocatable.cpu", "1m", id="node, rounded up"
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}, "spec": {"podCIDR": "10.0.0.0/24"}},
            "spec.podCIDRs",
            ["10.0.0.0/24"],
            id="node addresses",
        ),
        pytest.param(build.make_pvc("c").dict(), "spec.volumeMode", "Filesystem", id="claim"),
        pytest.param(build.make_pvc("c").volume_mode("Block").dict(), "spec.volumeMode", "Block", id="claim, said"),
        pytest.param(build.make_pv("v").dict(), "spec.volumeMode", "Filesystem", id="volume"),
        pytest.param(
            {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "s"}, "provisioner": "p"},
            "volumeBindingMode",
            "Immediate",
            id="storage class",
        ),
        pytest.param(
            {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d"}, "spec": {}},
            "spec",
            {"attachRequired": True, "storageCapacity": False},
            id="driver",
        ),
        pytest.param(
            build.make_priority_class("high", 5).dict(), "preemptionPolicy", "PreemptLowerPriority", id="priority class"
        ),
        pytest.param(build.make_deployment("d").dict(), "spec.replicas", 1, id="replicas"),
        pytest.param(build.make_deployment("d").replicas(0).dict(), "spec.replicas", 0, id="no replicas"),
        pytest.param(build.make_deployment("d").dict(), "spec.strategy.type", "RollingUpdate", id="strategy"),
        pytest.param(build.make_stateful_set("s").dict(), "spec.podManagementPolicy", "OrderedReady", id="order"),
        pytest.param(build.make_replica_set("s").dict(), "spec.template.spec.restartPolicy", "Always", id="template"),
        pytest.param(build.make_daemon_set("s").dict(), "spec.template.spec.restartPolicy", "Always", id="daemons"),
        pytest.param(build.make_job("j").dict(), "spec.completions", 1, id="job"),
        pytest.param(
            build.make_job("j").spec(parallelism=3).dict(), "spec.completions", None, id="job as a work queue"
        ),
        pytest.param(build.make_job("j").spec(completions=3).dict(), "spec.parallelism", 1, id="job, one at a time"),
        pytest.param(
            {
                "apiVersion": "v1",
                "kind": "ReplicationController",
                "metadata": {"name": "r"},
                "spec": {"template": {"metadata": {"labels": {"app": "r"}}, "spec": {"containers": []}}},
            },
            "spec.selector",
            {"app": "r"},
            id="selector of a replication controller",
        ),
    ],
)
def test_other_kinds(manifest: dict[str, Any], path: str, value: object):
    found = defaulted(manifest)
    for step in path.split("."):
        found = found.get(step)
    assert found == value


def test_unknown_kinds_come_back_as_they_are():
    manifest = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    assert defaulted(manifest) == manifest


def test_nulls_are_filled_like_gaps():
    pod = defaulted(bare_pod(schedulerName=None, initContainers=None, volumes=None) | {"status": None})
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    assert pod["status"] == {"phase": "Pending"}
