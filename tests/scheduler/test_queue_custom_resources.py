"""Plugins may listen to any kind of object: custom resources are found by discovery and watched as they are."""

from __future__ import annotations

import asyncio
import json

from kubesched import config
from kubesched.api import codec, kinds
from kubesched.api.changes import Delete, Replace, Upsert
from kubesched.apiserver import Answer, Server
from kubesched.app.live import LiveOptions
from kubesched.app.plugin_loading import merged
from kubesched.clock import Chance
from kubesched.framework import Plugin, Status
from kubesched.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.plugins.registry import IN_TREE
from kubesched.scheduler.profiles import plugin_info
from tests.build import make_node, make_pod
from tests.end_to_end.cluster import scheduling
from tests.harness import Harness
from tests.scheduler.test_queue import incoming

QUOTAS = "quotas.v1alpha1.team.example.com"


class Quota(Plugin):
    """Lets a pod go when its namespace has a Quota that is open."""

    name = "Quota"
    watches = (QUOTAS,)

    def filter(self, state, pod, node):
        quotas = self.handle.state.objects.list(QUOTAS, pod.metadata.namespace)
        return None if any(quota.spec.get("open") for quota in quotas) else Status.unschedulable("no open quota")

    def events_to_register(self):
        changes = ActionType.ADD | ActionType.UPDATE_OTHER
        return [ClusterEventWithHint(ClusterEvent(QUOTAS, changes), self.after_change)]

    def after_change(self, pod, old, new):
        opened = new.spec.get("open") and not (old is not None and old.spec.get("open"))
        return QueueingHint.QUEUE if opened and new.namespace == pod.namespace else QueueingHint.SKIP


KIND = kinds.custom(QUOTAS, "Quota", namespaced=True)


def quota(version="1", namespace="default", **spec):
    metadata = {"name": "q", "namespace": namespace, "uid": "q", "resourceVersion": version}
    return {"apiVersion": "team.example.com/v1alpha1", "kind": "Quota", "metadata": metadata, "spec": spec}


def typed(document):
    return codec.from_dict(KIND, document)


def test_the_kind_of_a_custom_resource():
    assert KIND.path() == "/apis/team.example.com/v1alpha1/quotas" and KIND.event_resource == QUOTAS
    assert kinds.NODE.event_resource == "Node" and kinds.STORAGE_CLASS.event_resource == "StorageClass"
    assert kinds.is_custom(QUOTAS) and not kinds.is_custom("PersistentVolumeClaim") and not kinds.is_custom("foos.v1")


async def test_hints_see_a_custom_object_before_and_after():
    harness = Harness(Quota)
    harness.apply(make_node("n1").obj())
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"
    harness.scheduler.deliver([Upsert(KIND, typed(quota(open=False)))])
    harness.scheduler.deliver([Upsert(KIND, typed(quota(namespace="other", open=True)))])
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"
    harness.scheduler.deliver([Upsert(KIND, typed(quota("2", open=True)))])
    await harness.pass_time(3)
    assert harness.node_of(pod) == "n1"
    assert incoming(harness)["backoff quotas.v1alpha1.team.example.comUpdate"] == 1


async def test_a_custom_kind_of_a_known_name_is_not_taken_for_it():
    nodes = kinds.custom("nodes.v1.fleet.example.com", "Node", namespaced=False)
    harness = Harness()
    harness.apply(make_node("n1").obj())
    await harness.settle()
    machine = codec.from_dict(nodes, {"metadata": {"name": "m", "uid": "m"}, "spec": {"size": 3}})
    harness.scheduler.deliver([Upsert(nodes, machine), Replace(nodes, (machine,), "3")])
    await harness.settle()
    assert [info.name for info in harness.state.nodes.infos] == ["n1"]
    kept = harness.state.objects.get("nodes.v1.fleet.example.com", "m")
    assert kept is not None and kept.spec == {"size": 3}
    harness.scheduler.deliver([Delete(nodes, machine)])
    await harness.settle()
    assert harness.state.objects.get("nodes.v1.fleet.example.com", "m") is None


class Extended:
    """An API server that begins to serve quotas at some point."""

    def __init__(self):
        self.is_served = False
        self.rejected, self.bound = asyncio.Event(), asyncio.Event()

    async def intercept(self, request, proceed):
        if request.method == "POST" and request.path.endswith("/binding"):
            self.bound.set()
        if b"FailedScheduling" in request.body:
            self.rejected.set()
        if not request.path.startswith("/apis/team.example.com/"):
            return await proceed()
        if not self.is_served:
            return Answer(404, b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}')
        if request.path == "/apis/team.example.com/v1alpha1":
            resources = [
                {"name": "quotas", "kind": "Quota", "namespaced": True},
                {"name": "quotas/status", "kind": "Quota"},
            ]
            return self._json(
                {"kind": "APIResourceList", "groupVersion": "team.example.com/v1alpha1", "resources": resources}
            )
        if "watch" in request.query:
            if "sendInitialEvents" in request.query:
                return Answer(422, b'{"kind":"Status","status":"Failure","reason":"Invalid","code":422}')
            await asyncio.Event().wait()
        return self._json({"kind": "QuotaList", "metadata": {"resourceVersion": "7"}, "items": [quota(open=True)]})

    def _json(self, document):
        return Answer(200, json.dumps(document).encode())


def _options():
    registry = merged(IN_TREE, {"Quota": Quota})
    configuration = config.load(None, plugins=[plugin_info(Quota)], enable={"Quota": Quota})
    return LiveOptions(configuration, registry, seed=1, leader_elect=False, search_every_s=0.05)


async def test_a_custom_resource_is_found_and_watched():
    extended = Extended()
    extended.is_served = True
    async with Server(chance=Chance(1)) as server:
        server.interceptors.append(extended.intercept)
        server.load([make_node("n1").capacity(cpu=4, pods=10).dict(), make_pod("p").dict()])
        async with asyncio.timeout(60), scheduling(server, _options()):
            await extended.bound.wait()


async def test_one_that_is_not_served_yet_holds_up_nobody_and_is_found_later(caplog):
    extended = Extended()
    async with Server(chance=Chance(1)) as server:
        server.interceptors.append(extended.intercept)
        server.load([make_node("n1").capacity(cpu=4, pods=10).dict(), make_pod("p").dict()])
        async with asyncio.timeout(60), scheduling(server, _options()):
            await extended.rejected.wait()
            assert "is not served, will look again resource=quotas.v1alpha1.team.example.com" in caplog.text
            extended.is_served = True
            await extended.bound.wait()
