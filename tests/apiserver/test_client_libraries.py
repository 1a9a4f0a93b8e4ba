"""Two client libraries of the ecosystem against the embedded server: what they list, watch, patch and bind."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubesched.apiserver import Server, write_kubeconfig
from kubesched.tls import self_signed
from tests.apiserver.conftest import PATIENCE_S, node, pod


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[str]:
    """A server over TLS with a token, two nodes and three pods, and the file that leads to it."""
    async with Server(certificate=self_signed(["127.0.0.1"]), token="secret", node_simulator=False) as server:
        pods = [{"kind": "Pod", "apiVersion": "v1", **pod(f"p{n}", labels={"app": "web"})} for n in range(3)]
        server.load([node("n1", zone="a"), node("n2", zone="b"), *pods])
        write_kubeconfig(server, tmp_path / "config")
        yield str(tmp_path / "config")


async def aside(work: Callable[[str], Any], kubeconfig: str) -> Any:
    """The libraries block: they run on a thread, the server on the loop."""
    return await asyncio.wait_for(asyncio.to_thread(work, kubeconfig), PATIENCE_S)


async def test_kubernetes(kubeconfig: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("kubernetes")
        await aside(_with_kubernetes, kubeconfig)


def _with_kubernetes(kubeconfig: str) -> None:
    from kubernetes import client, config, watch
    from kubernetes.client.exceptions import ApiException

    with config.new_client_from_config(kubeconfig) as connection:
        core: Any = client.CoreV1Api(connection)
        listed = core.list_namespaced_pod("default", label_selector="app=web", limit=2)
        assert [p.metadata.name for p in listed.items] == ["p0", "p1"]
        rest = core.list_namespaced_pod(
            "default", label_selector="app=web", limit=2, _continue=listed.metadata._continue
        )
        assert [p.metadata.name for p in rest.items] == ["p2"]
        assert [n.metadata.labels["zone"] for n in core.list_node().items] == ["a", "b"]

        core.patch_namespaced_pod("p0", "default", {"metadata": {"labels": {"tier": "front"}}})
        assert core.read_namespaced_pod("p0", "default").metadata.labels == {"app": "web", "tier": "front"}
        target = client.V1ObjectReference(api_version="v1", kind="Node", name="n1")
        binding = client.V1Binding(metadata=client.V1ObjectMeta(name="p0"), target=target)
        core.create_namespaced_pod_binding("p0", "default", binding, _preload_content=False)
        with pytest.raises(ApiException) as refused:
            core.create_namespaced_pod_binding("p0", "default", binding, _preload_content=False)
        assert refused.value.status == 409 and 'already assigned to node \\"n1\\"' in str(refused.value.body)
        core.delete_namespaced_pod("p1", "default")

        events = watch.Watch().stream(
            core.list_namespaced_pod, "default", resource_version=rest.metadata.resource_version, timeout_seconds=1
        )
        seen = [(event["type"], event["object"].metadata.name) for event in events]
        assert seen == [("MODIFIED", "p0"), ("MODIFIED", "p0"), ("MODIFIED", "p1"), ("DELETED", "p1")]
        scale = client.AppsV1Api(connection)
        with pytest.raises(ApiException) as missing:
            scale.read_namespaced_deployment_scale("nope", "default")
        assert missing.value.status == 404


async def test_lightkube(kubeconfig: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("lightkube")
        await aside(_with_lightkube, kubeconfig)


def _with_lightkube(kubeconfig: str) -> None:
    from lightkube import ApiError, Client, KubeConfig
    from lightkube.models.core_v1 import ObjectReference
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import Binding, Node, Pod
    from lightkube.types import PatchType

    client: Any = Client(config=KubeConfig.from_file(kubeconfig), field_manager="tests")
    assert [p.metadata.name for p in client.list(Pod, labels={"app": "web"}, chunk_size=2)] == ["p0", "p1", "p2"]
    assert [n.metadata.labels["zone"] for n in client.list(Node)] == ["a", "b"]
    version = client.get(Pod, "p2").metadata.resourceVersion

    client.patch(Pod, "p0", {"metadata": {"labels": {"tier": "front"}}}, patch_type=PatchType.MERGE)
    target = ObjectReference(apiVersion="v1", kind="Node", name="n2")
    with suppress(msgspec.ValidationError):  # the answer is a Status, for which lightkube 1 has no type here
        client.create(Binding(metadata=ObjectMeta(name="p0", namespace="default"), target=target), "p0")
    assert [p.metadata.name for p in client.list(Pod, fields={"spec.nodeName": "n2"})] == ["p0"]
    with pytest.raises(ApiError) as refused:
        client.create(Binding(metadata=ObjectMeta(name="p0", namespace="default"), target=target), "p0")
    assert refused.value.status.code == 409
    applied = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p1", "labels": {"by": "apply"}}}
    assert client.apply(Pod.from_dict(applied), force=True).metadata.labels == {"app": "web", "by": "apply"}
    client.delete(Pod, "p2")

    seen = []
    for type_, found in client.watch(Pod, resource_version=version):
        seen.append((type_, found.metadata.name))
        if type_ == "DELETED":
            break
    assert seen == [*[("MODIFIED", "p0")] * 2, ("MODIFIED", "p1"), ("MODIFIED", "p2"), ("DELETED", "p2")]
