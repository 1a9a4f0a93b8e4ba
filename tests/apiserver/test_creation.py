"""What becomes of objects on creation where the recordings do not show it: what scheduling depends on."""

from __future__ import annotations

import pytest

from tests.apiserver.conftest import Client, Json, pod


def _container(**resources: Json) -> Json:
    return {"name": "c", "image": "app:1", "resources": resources}


async def test_limits_are_requested_in_pods_but_not_in_templates(client: Client) -> None:
    containers = [_container(limits={"cpu": "2", "memory": "1Gi"}, requests={"cpu": "1"})]
    made = await client.ok("POST", client.pods, {"metadata": {"name": "a"}, "spec": {"containers": containers}})
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers, "hostNetwork": True}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = "/apis/apps/v1/namespaces/default/replicasets"
    made = await client.ok("POST", path, {"metadata": {"name": "rs"}, "spec": spec})
    assert made["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}


async def test_limits_of_a_whole_pod_request_what_its_containers_do(client: Client) -> None:
    spec = {
        "containers": [_container(requests={"cpu": "300m"}), {**_container(), "name": "d"}],
        "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
    }
    made = await client.ok("POST", client.pods, {"metadata": {"name": "a"}, "spec": spec})
    assert made["spec"]["resources"]["requests"] == {"cpu": "300m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("0.5", "500m"), ("1000m", "1"), ("0.1m", "1m"), ("1024Mi", "1Gi"), (2, "2"), ("1e3", "1e3"), ("100n", "1m")],
)
async def test_amounts_are_written_back_in_one_way(client: Client, sent: object, kept: str) -> None:
    spec = {"containers": [_container(requests={"cpu": sent})]}
    made = await client.ok("POST", client.pods, {"metadata": {"name": "a"}, "spec": spec})
    assert made["spec"]["containers"][0]["resources"]["requests"]["cpu"] == kept


async def test_match_label_keys_become_requirements(client: Client) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "matchLabelKeys": ["pod-template-hash"],
    }
    labels = {"app": "x", "pod-template-hash": "h1"}
    made = await client.ok("POST", client.pods, pod("a", labels=labels, topologySpreadConstraints=[constraint]))
    assert made["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"] == [
        {"key": "pod-template-hash", "operator": "In", "values": ["h1"]}
    ]


async def test_claims_get_the_default_class(client: Client) -> None:
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    body = {"metadata": {"name": "std", "annotations": annotations}, "provisioner": "example.com/p"}
    before = await client.ok("POST", claims, {"metadata": {"name": "before"}, "spec": spec})
    await client.ok("POST", "/apis/storage.k8s.io/v1/storageclasses", body)
    after = await client.ok("POST", claims, {"metadata": {"name": "after"}, "spec": spec})
    none = await client.ok("POST", claims, {"metadata": {"name": "none"}, "spec": {**spec, "storageClassName": ""}})
    assert "storageClassName" not in before["spec"]
    assert (after["spec"]["storageClassName"], none["spec"]["storageClassName"]) == ("std", "")


async def test_unknown_fields_are_told_and_dropped(client: Client) -> None:
    document = pod("a")
    document["spec"]["noSuchField"] = 1
    async with client.session.post(client.server.url + client.pods, json=document) as response:
        assert response.headers["Warning"] == '299 - "unknown field \\"spec.noSuchField\\""'
        assert "noSuchField" not in (await response.json())["spec"]
