"""Claims that wait for their first consumer, with a scheduler, controllers and kubelets: pod and volume meet in a zone.

The scheduler writes what its VolumeBinding plugin decides (the volume's claimRef, or the node chosen for the claim),
the controllers beside the embedded server bind, and the pod is bound once its claims are.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from kubesched import config
from kubesched.apiserver import CONTROLLERS, DEMO_PROVISIONER, Request, Server
from kubesched.app.live import LiveOptions
from kubesched.plugins.registry import IN_TREE
from tests.build import make_node, make_pod
from tests.end_to_end.cluster import PATIENCE_S, scheduling
from tests.end_to_end.process import FAST

ZONES = {"n1": "za", "n2": "zb", "n3": "zc"}


def storage_class(name, provisioner="kubernetes.io/no-provisioner", mode="WaitForFirstConsumer"):
    kind = {"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1"}
    return {**kind, "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


def volume(name, zone, class_name="local", size="10Gi"):
    term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}
    spec = {
        "storageClassName": class_name,
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return {"kind": "PersistentVolume", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec}


def claim(name, class_name):
    spec = {
        "storageClassName": class_name,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
    }
    metadata = {"name": name, "namespace": "default"}
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": metadata, "spec": spec}


def pod(name, *claims):
    document = make_pod(name).cpu("100m").dict()
    document["spec"]["volumes"] = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return document


class Running:
    """Waits until a pod runs; a watcher of the server's store, told in the same process."""

    def __init__(self, server):
        self._server = server
        self._changed = asyncio.Event()
        server.store.collections["", "pods"].add_watcher(self)

    def offer(self, change):
        self._changed.set()

    async def pod(self, name):
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = self.get("pods", name)
                if found["status"]["phase"] == "Running":
                    return found
                self._changed.clear()
                await self._changed.wait()

    async def rejection(self, name):
        """The message of the pod's PodScheduled condition once it is False."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for condition in self.get("pods", name)["status"].get("conditions", ()):
                    if condition["type"] == "PodScheduled" and condition["status"] == "False":
                        return condition["message"]
                self._changed.clear()
                await self._changed.wait()

    async def delete(self, name):
        await self._server.handle(Request("DELETE", f"/api/v1/namespaces/default/pods/{name}"))

    def get(self, plural, name, namespace="default"):
        return self._server.store.collections["", plural].get(namespace, name).document()


@asynccontextmanager
async def cluster():
    async with Server(controllers=CONTROLLERS) as server:
        server.load([make_node(n).capacity(cpu=8, memory="16Gi", pods=20).zone(z).dict() for n, z in ZONES.items()])
        settings = config.load({**FAST, "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1})
        async with scheduling(server, LiveOptions(settings, IN_TREE, seed=1)):
            yield server, Running(server)


async def test_a_waiting_claim_takes_the_volume_where_the_pod_can_go():
    async with cluster() as (server, running):
        server.load([storage_class("local"), volume("vol-b", "zb"), claim("data", "local"), pod("p", "data")])
        placed = await running.pod("p")
        assert placed["spec"]["nodeName"] == "n2", "the only volume is in its zone"
        bound, taken = running.get("persistentvolumeclaims", "data"), running.get("persistentvolumes", "vol-b", "")
        assert bound["status"]["phase"] == "Bound" and bound["spec"]["volumeName"] == "vol-b"
        assert taken["status"]["phase"] == "Bound" and taken["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]
        assert taken["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}


async def test_two_claims_of_one_pod_are_bound_in_one_zone():
    async with cluster() as (server, running):
        volumes = [volume("a1", "za"), volume("b1", "zb"), volume("b2", "zb"), volume("c1", "zc")]
        server.load([storage_class("local"), *volumes, claim("one", "local"), claim("two", "local")])
        server.load([pod("p", "one", "two")])
        placed = await running.pod("p")
        assert placed["spec"]["nodeName"] == "n2"
        names = {running.get("persistentvolumeclaims", name)["spec"]["volumeName"] for name in ("one", "two")}
        assert names == {"b1", "b2"}


async def test_a_volume_is_provisioned_in_the_zone_of_the_chosen_node():
    async with cluster() as (server, running):
        document = pod("p", "data")
        document["spec"]["nodeSelector"] = {"topology.kubernetes.io/zone": "zc"}
        server.load([claim("data", "demo"), document])
        placed = await running.pod("p")
        assert placed["spec"]["nodeName"] == "n3"
        bound = running.get("persistentvolumeclaims", "data")
        annotations = bound["metadata"]["annotations"]
        assert annotations["volume.kubernetes.io/selected-node"] == "n3"
        assert annotations["volume.kubernetes.io/storage-provisioner"] == DEMO_PROVISIONER
        made = running.get("persistentvolumes", bound["spec"]["volumeName"], "")
        (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zc"]}]
        assert made["spec"]["claimRef"]["name"] == "data"


async def test_a_second_pod_follows_the_volume():
    async with cluster() as (server, running):
        server.load([claim("data", "demo"), pod("first", "data")])
        first = await running.pod("first")
        server.load([pod("second", "data")])
        second = await running.pod("second")
        zones = [ZONES[placed["spec"]["nodeName"]] for placed in (first, second)]
        assert zones[0] == zones[1]


@pytest.mark.parametrize("class_name", ["demo-immediate", "made-at-once"])
async def test_an_immediate_claim_is_bound_before_its_pod(class_name):
    async with cluster() as (server, running):
        server.load([storage_class("made-at-once", DEMO_PROVISIONER, "Immediate"), claim("data", class_name)])
        server.load([pod("p", "data")])
        await running.pod("p")
        assert "volume.kubernetes.io/selected-node" not in running.get("persistentvolumeclaims", "data")[
            "metadata"
        ].get("annotations", {})


async def test_a_claim_for_one_pod_alone_that_is_in_use_rejects_the_next_until_it_is_free():
    async with cluster() as (server, running):
        asked, offered = claim("data", "local"), volume("vol-a", "za")
        asked["spec"]["accessModes"] = offered["spec"]["accessModes"] = ["ReadWriteOncePod"]
        server.load([storage_class("local"), offered, asked, pod("first", "data")])
        await running.pod("first")
        server.load([pod("second", "data")])
        message = await running.rejection("second")
        assert "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod" in message
        await running.delete("first")
        assert (await running.pod("second"))["spec"]["nodeName"] == "n1"
