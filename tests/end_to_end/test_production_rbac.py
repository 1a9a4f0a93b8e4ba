"""The rights in deploy/ are those that a run needs, which makes every request that the scheduler can make: no less, no
more."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import aiohttp
import yaml

from kubesched import config
from kubesched.apiserver import Account, Answer, DropConnection, Server
from kubesched.app.flags import Flags
from kubesched.app.live import LiveOptions, LiveScheduler
from kubesched.app.run import RunOptions, _serving
from kubesched.client.kubeconfig import ClientConfig, ClusterConfig, UserConfig
from kubesched.framework import Plugin, Status
from kubesched.plugins.registry import IN_TREE
from kubesched.scheduler.profiles import plugin_info
from tests.build import make_node, make_pod, make_pv, make_pvc, make_storage_class
from tests.end_to_end.cluster import PATIENCE_S
from tests.end_to_end.process import FAST
from tests.ports import free_port

RBAC = Path(__file__).resolve().parents[2] / "deploy" / "second-scheduler" / "rbac.yaml"
MASTERS = ("system:masters", "system:authenticated")
SETTINGS = {
    **FAST,
    "leaderElection": {"leaderElect": True, "resourceName": "kubesched"},
    "profiles": [{"schedulerName": "kubesched"}],
}


class Never(Plugin):
    """Rejects one pod, whatever happens, and wants it tried again whatever happens."""

    name = "Never"

    def filter(self, state, pod, node):
        return Status.unschedulable("unwanted") if pod.metadata.name == "unwanted" else None


class Recorder:
    """What is asked with our token, as RBAC sees it: (verb, group, resource, namespace, name)."""

    def __init__(self):
        self.asked: set[tuple[str, str, str, str, str]] = set()
        self.changed = asyncio.Event()
        self.drops = 0
        self.refuse_watch_lists = True

    async def __call__(self, request, proceed):
        if request.query.get("sendInitialEvents") and self.refuse_watch_lists:
            await proceed()  # routing fills in what was asked
            self._note(request)
            return Answer(422, b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}')
        reply = await proceed()
        self._note(request)
        if request.path.endswith("/binding") and self.drops:
            self.drops -= 1
            raise DropConnection
        return reply

    def _note(self, request):
        if request.resource is None or "token-own" not in request.headers.get("authorization", ""):
            return
        resource = request.resource
        full = f"{resource.plural}/{request.subresource}" if request.subresource else resource.plural
        name = "" if request.verb == "create" and not request.subresource else request.name
        self.asked.add((request.verb, resource.group, full, request.namespace, name))
        self.changed.set()

    def has(self, verb, resource):
        return any((asked[0], asked[2]) == (verb, resource) for asked in self.asked)

    async def until(self, verb, resource):
        async with asyncio.timeout(PATIENCE_S):
            while not self.has(verb, resource):
                self.changed.clear()
                await self.changed.wait()


def rules(kind):
    """(verb, group, resource, name) of all rules of a kind of role; name "" is any."""
    documents = [doc for doc in yaml.safe_load_all(RBAC.read_text()) if doc["kind"] == kind]
    return {
        (verb, group, resource, name)
        for document in documents
        for rule in document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


async def recorded_run(folder):
    recorder = Recorder()
    accounts = {"token-own": Account("kubesched", MASTERS), "token-low": Account("low")}
    async with Server(accounts=accounts, node_simulator=False) as server:
        server.intercept(recorder)
        server.load([make_node("n1").capacity(cpu=4, memory="8Gi", pods=20).dict()])
        connection = ClientConfig(ClusterConfig(server.url), UserConfig(token="token-own"))
        settings = config.load(SETTINGS, plugins=[plugin_info(Never)], enable=[Never.name])
        live = LiveScheduler(
            connection,
            LiveOptions(settings, {**IN_TREE, Never.name: Never}, seed=1),
        )
        flags = Flags(bind_address="127.0.0.1", secure_port=free_port(), cert_dir=str(folder))
        serving = _serving(live, RunOptions(live._options, flags=flags))
        assert serving is not None
        await serving.start()
        await live.start()
        running = asyncio.create_task(live.run())
        try:
            await exercise(server, recorder, serving.port, folder)
        finally:
            await live.stop()
            await serving.stop()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    return recorder.asked


async def exercise(server, recorder, port, folder):
    def ours(name):
        return make_pod(name).scheduler("kubesched")

    # Bound, with the answer lost twice, so that the live pod is looked at.
    recorder.drops = 2
    server.load([ours("plain").cpu(1).priority(1).dict()])
    await recorder.until("get", "pods")
    # Not to be placed: a condition, an event, and the same event again and again.
    server.load([ours("unwanted").dict()])
    await recorder.until("patch", "pods/status")
    for count in range(40):
        if recorder.has("patch", "events"):
            break
        node = make_node("n1").capacity(cpu=4, memory="8Gi", pods=20).label("count", str(count)).dict()
        server.load([node])
        recorder.changed.clear()
        await asyncio.wait_for(recorder.changed.wait(), PATIENCE_S)
    await recorder.until("patch", "events")
    # Making room.
    server.load([ours("vip").cpu("3500m").priority(1000).dict()])
    await recorder.until("delete", "pods")
    # Volumes: one that is there, one to be made.
    waiting = make_storage_class("waiting").wait_for_first_consumer()
    server.load(
        [
            waiting.dict(),
            make_pv("disk").storage_class("waiting").capacity("5Gi").source(hostPath={"path": "/mnt"}).dict(),
        ]
    )
    server.load([make_pvc("there").storage_class("waiting").request("1Gi").dict()])
    server.load([make_storage_class("making").provisioner("example.com/disk").wait_for_first_consumer().dict()])
    server.load([make_pvc("made").storage_class("making").request("1Gi").dict()])
    server.load(
        [ours("with-disk").priority(2000).pvc("there").dict(), ours("new-disk").priority(2000).pvc("made").dict()]
    )
    await recorder.until("update", "persistentvolumes")
    await recorder.until("update", "persistentvolumeclaims")
    # Somebody asks for the metrics.
    context = ssl.create_default_context(cafile=folder / "kube-scheduler.crt")
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer token-low"}) as session:
        answer = await session.get(f"https://127.0.0.1:{port}/metrics", ssl=context)
        assert answer.status == 403
    await recorder.until("update", "leases")


async def test_every_request_is_allowed_and_nothing_else(tmp_path):
    asked = await recorded_run(tmp_path)
    cluster, own = rules("ClusterRole"), rules("Role")
    needed, needed_own = set(), set()
    for verb, group, resource, namespace, name in asked:
        own_kinds = {("coordination.k8s.io", "leases"), ("", "events"), ("", "configmaps")}
        if namespace == "kube-system" and (group, resource) in own_kinds:
            needed_own.add((verb, group, resource, name))
        else:
            needed.add((verb, group, resource, ""))
    assert needed - cluster == set(), "requests that the ClusterRole does not allow"
    assert cluster - needed == set(), "rules of the ClusterRole that nothing needs"
    assert needed_own - own == set(), "requests that the Role does not allow"
    assert own - needed_own == set(), "rules of the Role that nothing needs"


def test_bindings_name_the_account_of_the_deployment():
    documents = list(yaml.safe_load_all(RBAC.read_text()))
    deployment = yaml.safe_load((RBAC.parent / "deployment.yaml").read_text())
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    bindings = [doc for doc in documents if doc["kind"].endswith("Binding")]
    assert len(bindings) == 2
    for binding in bindings:
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "kube-system"}]
        assert binding["roleRef"]["name"] in {
            doc["metadata"]["name"] for doc in documents if doc["kind"] in ("Role", "ClusterRole")
        }
