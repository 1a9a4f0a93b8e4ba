"""The real kubectl against the embedded server."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kubesched.apiserver import CONTROLLERS, Server, write_kubeconfig
from kubesched.apiserver.node_simulator import RUN_SECONDS
from kubesched.tls import self_signed
from tests.apiserver.conftest import PATIENCE_S, node
from tests.apiserver.lively import Binder

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

#: How many commands each test runs at least; where kubectl is present, they are together the proof that it works.
STEPS = {
    "test_get_in_all_forms": 17,
    "test_apply_twice_changes_once": 5,
    "test_server_side_apply_keeps_owners_apart": 6,
    "test_describe_and_explain": 5,
    "test_label_annotate_taint_cordon": 13,
    "test_create_sends_protobuf": 12,
    "test_create_of_each_kind": 5,
    "test_watch_and_delete": 9,
    "test_rollouts": 14,
    "test_drain_waits_for_a_budget": 9,
}
WANTED_STEPS = 40

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: c, image: "app:1", resources: {requests: {cpu: 100m}}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: dep}
spec:
  replicas: 2
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec: {containers: [{name: c, image: "app:1"}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
"""

_POD: dict[str, Any] = {"containers": [{"name": "c", "image": "app"}]}
_WORKLOAD = {
    "selector": {"matchLabels": {"app": "k"}},
    "template": {"metadata": {"labels": {"app": "k"}}, "spec": _POD},
}
_JOB = {"template": {"spec": {"restartPolicy": "Never", **_POD}}}
_STORED: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": "k"}
KINDS: dict[str, dict[str, Any]] = {
    "v1 Node": {},
    "v1 Namespace": {},
    "v1 Pod": {"spec": _POD},
    "v1 Service": {"spec": {"ports": [{"port": 80}], "selector": {"app": "k"}}},
    "v1 PersistentVolume": {"spec": {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}, **_STORED}},
    "v1 PersistentVolumeClaim": {"spec": {"resources": {"requests": {"storage": "1Gi"}}, **_STORED}},
    "storage.k8s.io/v1 StorageClass": {"provisioner": "example.com/p"},
    "scheduling.k8s.io/v1 PriorityClass": {"value": 7},
    "policy/v1 PodDisruptionBudget": {"spec": {"minAvailable": "50%", "selector": {}}},
    "apps/v1 Deployment": {"spec": _WORKLOAD},
    "apps/v1 ReplicaSet": {"spec": _WORKLOAD},
    "apps/v1 StatefulSet": {"spec": _WORKLOAD},
    "apps/v1 DaemonSet": {"spec": _WORKLOAD},
    "batch/v1 Job": {"spec": _JOB},
    "batch/v1 CronJob": {"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": _JOB}}},
}


def kinds_manifest() -> str:
    text = ""
    for told, content in KINDS.items():
        version, kind = told.split()
        text += json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": "k"}, **content}) + "\n"
    return text


class Kubectl:
    """kubectl with a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.steps = 0

    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.home), "KUBECONFIG": str(self.home / "config"), "PATH": os.environ["PATH"]}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        assert KUBECTL is not None
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            KUBECTL, *arguments, stdout=pipe, stderr=pipe, stdin=pipe, env=self.environment(), cwd=self.home
        )

    async def run(self, *arguments: str, stdin: str = "", fails: bool = False) -> str:
        """What the command prints (its errors when it is to fail)."""
        process = await self.start(*arguments)
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), 2 * PATIENCE_S)
        self.steps += 1
        assert (process.returncode != 0) is fails, (arguments, out, err)
        return (err if fails else out).decode()


async def said(process: asyncio.subprocess.Process) -> str:
    """The next line of its errors, "" when it has ended."""
    assert process.stderr is not None
    return (await asyncio.wait_for(process.stderr.readline(), PATIENCE_S)).decode()


@asynccontextmanager
async def serving(home: Path, name: str, *, alive: bool) -> AsyncIterator[Kubectl]:
    """kubectl with a server to talk to; an `alive` one has controllers, and pods are bound. Counts the steps."""
    certificate = self_signed(["127.0.0.1"])
    controllers = tuple(CONTROLLERS) if alive else ()
    async with Server(certificate=certificate, token="secret", controllers=controllers) as server:
        server.load([node("n1", zone="a"), node("n2", zone="b")])
        if alive:
            Binder(server)
        write_kubeconfig(server, home / "config")
        (home / "manifest.yaml").write_text(MANIFEST)
        kubectl = Kubectl(home)
        yield kubectl
        assert kubectl.steps >= STEPS[name]


@pytest.fixture
async def kubectl(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Kubectl]:
    async with serving(tmp_path, request.node.name, alive=False) as client:
        yield client


@pytest.fixture
async def live(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Kubectl]:
    async with serving(tmp_path, request.node.name, alive=True) as client:
        yield client


def test_enough_steps() -> None:
    """With the check at the end of each test: fewer steps than wanted fail the suite."""
    assert sum(STEPS.values()) >= WANTED_STEPS
    assert STEPS.keys() == {name for name in globals() if name.startswith("test_") and name != "test_enough_steps"}


async def test_get_in_all_forms(kubectl: Kubectl) -> None:
    assert (await kubectl.run("get", "pods")) == ""
    await kubectl.run("apply", "-f", "manifest.yaml")
    table = (await kubectl.run("get", "pods")).splitlines()
    assert table[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert table[1].split()[:4] == ["web", "0/1", "Pending", "0"]
    wide = await kubectl.run("get", "nodes", "-o", "wide")
    assert "INTERNAL-IP" in wide and wide.count("Ready") == 2
    assert "zone=a" in await kubectl.run("get", "nodes", "--show-labels")
    assert "resourceVersion" in await kubectl.run("get", "pod", "web", "-o", "yaml")
    assert '"kind": "Pod"' in await kubectl.run("get", "pod", "web", "-o", "json")
    assert await kubectl.run("get", "pod", "web", "-o", "jsonpath={.spec.schedulerName}") == "default-scheduler"
    assert await kubectl.run("get", "pods", "-o", "name") == "pod/web\n"
    assert await kubectl.run("get", "pods", "-l", "app=other", "-o", "name") == ""
    assert await kubectl.run("get", "pods", "--field-selector", "spec.nodeName=", "-o", "name") == "pod/web\n"
    assert "deployment.apps/dep" in await kubectl.run("get", "all", "-A")
    assert 'pods "nope" not found' in await kubectl.run("get", "pod", "nope", fails=True)
    assert await kubectl.run("get", "--raw", "/readyz") == "ok"
    assert "Pod" in await kubectl.run("api-resources")
    assert "policy/v1" in await kubectl.run("api-versions")
    assert "v1.36" in await kubectl.run("version")


async def test_apply_twice_changes_once(kubectl: Kubectl) -> None:
    created = await kubectl.run("apply", "-f", "manifest.yaml")
    assert created.count("created") == 3
    unchanged = await kubectl.run("apply", "-f", "manifest.yaml")
    assert unchanged.count("unchanged") == 3
    manifest = kubectl.home / "manifest.yaml"
    manifest.write_text(MANIFEST.replace("replicas: 2", "replicas: 3").replace("{app: web}", "{app: web, tier: front}"))
    changed = await kubectl.run("apply", "-f", "manifest.yaml")
    assert changed.splitlines() == [
        "pod/web configured",
        "deployment.apps/dep configured",
        "priorityclass.scheduling.k8s.io/high unchanged",
    ]
    assert await kubectl.run("get", "deploy", "dep", "-o", "jsonpath={.spec.replicas}") == "3"
    assert await kubectl.run("diff", "-f", "manifest.yaml") == ""
    invalid = MANIFEST.replace('image: "app:1"', 'image: "app:1", nonsense: 1', 1)
    assert "nonsense" in await kubectl.run("apply", "-f", "-", stdin=invalid, fails=True)


async def test_server_side_apply_keeps_owners_apart(kubectl: Kubectl) -> None:
    arguments = ("apply", "--server-side", "-f", "manifest.yaml")
    assert (await kubectl.run(*arguments)).count("serverside-applied") == 3
    version = await kubectl.run("get", "pod", "web", "-o", "jsonpath={.metadata.resourceVersion}")
    assert (await kubectl.run(*arguments)).count("serverside-applied") == 3
    assert await kubectl.run("get", "pod", "web", "-o", "jsonpath={.metadata.resourceVersion}") == version
    await kubectl.run("label", "pod", "web", "app=other", "--overwrite")
    refused = await kubectl.run(*arguments, fails=True)
    assert "conflict with" in refused and ".metadata.labels.app" in refused
    assert (await kubectl.run(*arguments, "--force-conflicts")).count("serverside-applied") == 3
    assert await kubectl.run("get", "pod", "web", "-o", "jsonpath={.metadata.labels.app}") == "web"


async def test_describe_and_explain(kubectl: Kubectl) -> None:
    await kubectl.run("apply", "-f", "manifest.yaml")
    described = await kubectl.run("describe", "pod", "web")
    assert "QoS Class:" in described and "Burstable" in described
    assert "Allocated resources" in await kubectl.run("describe", "node", "n1")
    assert "kubernetes.io/metadata.name=default" in await kubectl.run("describe", "namespace", "default")
    assert "tolerations" in await kubectl.run("explain", "pod.spec")


async def test_label_annotate_taint_cordon(kubectl: Kubectl) -> None:
    await kubectl.run("apply", "-f", "manifest.yaml")
    assert "labeled" in await kubectl.run("label", "pod", "web", "tier=front")
    assert "already has a value" in await kubectl.run("label", "pod", "web", "tier=back", fails=True)
    assert "unlabeled" in await kubectl.run("label", "pod", "web", "tier-")
    assert "annotated" in await kubectl.run("annotate", "node", "n1", "note=x")
    assert "tainted" in await kubectl.run("taint", "node", "n1", "gpu=yes:NoSchedule")
    assert await kubectl.run("get", "node", "n1", "-o", "jsonpath={.spec.taints[*].key}") == "gpu"
    assert "untainted" in await kubectl.run("taint", "node", "n1", "gpu-")
    assert "cordoned" in await kubectl.run("cordon", "n1")
    assert "SchedulingDisabled" in await kubectl.run("get", "node", "n1")
    assert "uncordoned" in await kubectl.run("uncordon", "n1")
    assert "image updated" in await kubectl.run("set", "image", "pod/web", "c=app:2")
    patch = '{"metadata":{"labels":{"a":"b"}}}'
    assert "patched" in await kubectl.run("patch", "pod", "web", "-p", patch)
    operation = '[{"op":"add","path":"/metadata/labels/c","value":"d"}]'
    assert "patched" in await kubectl.run("patch", "pod", "web", "--type=json", "-p", operation)


async def test_create_sends_protobuf(kubectl: Kubectl) -> None:
    assert "created" in await kubectl.run("create", "namespace", "team")
    assert "created" in await kubectl.run("create", "deployment", "d2", "--image=app", "-n", "team")
    assert "created" in await kubectl.run("create", "priorityclass", "low", "--value=5")
    assert "created" in await kubectl.run("create", "quota", "q", "--hard=pods=5,cpu=2500m")
    assert "created" in await kubectl.run("create", "configmap", "cm", "--from-literal=a=b")
    assert "created" in await kubectl.run("create", "job", "j", "--image=app")
    assert await kubectl.run("get", "quota", "q", "-o", "jsonpath={.spec.hard.cpu}") == "2500m"
    assert await kubectl.run("get", "pc", "low", "-o", "jsonpath={.value}") == "5"
    assert await kubectl.run("get", "deploy", "d2", "-n", "team", "-o", "jsonpath={.spec.replicas}") == "1"
    assert "scaled" in await kubectl.run("scale", "deploy", "d2", "-n", "team", "--replicas=4")
    assert await kubectl.run("auth", "can-i", "get", "pods") == "yes\n"
    assert "already exists" in await kubectl.run("create", "namespace", "team", fails=True)


async def test_watch_and_delete(kubectl: Kubectl) -> None:
    await kubectl.run("apply", "-f", "manifest.yaml")
    watching = await kubectl.start("get", "pods", "-w", "--output-watch-events", "--no-headers")
    assert watching.stdout is not None
    lines = [await asyncio.wait_for(watching.stdout.readline(), PATIENCE_S)]
    assert "deleted" in await kubectl.run("delete", "pod", "web")
    lines.append(await asyncio.wait_for(watching.stdout.readline(), PATIENCE_S))
    lines.append(await asyncio.wait_for(watching.stdout.readline(), PATIENCE_S))
    watching.terminate()
    await watching.communicate()
    assert [line.split()[0] for line in lines] == [b"ADDED", b"MODIFIED", b"DELETED"]
    assert "deleted" in await kubectl.run("delete", "node", "n2")
    assert await kubectl.run("get", "nodes", "-o", "name") == "node/n1\n"
    await kubectl.run("apply", "-f", "manifest.yaml")
    assert "deleted" in await kubectl.run("delete", "pods", "-l", "app=web", "--grace-period=0", "--force")
    assert await kubectl.run("delete", "pod", "nope", "--ignore-not-found") == ""
    assert (await kubectl.run("delete", "-f", "manifest.yaml", "--ignore-not-found")).count("deleted") == 2
    assert await kubectl.run("wait", "--for=delete", "pod/web", "--timeout=60s") == ""


async def test_create_of_each_kind(kubectl: Kubectl) -> None:
    (kubectl.home / "kinds.json").write_text(kinds_manifest())
    manifest, count = ("-f", "kinds.json"), len(KINDS)
    assert (await kubectl.run("create", *manifest)).count("created") == count
    assert (await kubectl.run("create", *manifest, fails=True)).count("already exists") == count
    assert (await kubectl.run("get", *manifest, "-o", "name")).count("\n") == count
    assert (await kubectl.run("label", *manifest, "seen=yes")).count("labeled") == count
    assert (await kubectl.run("delete", *manifest, "--wait=false")).count("deleted") == count


async def test_rollouts(live: Kubectl) -> None:
    await live.run("create", "deployment", "web", "--image=app:1", "--replicas=2")
    assert "successfully rolled out" in await live.run("rollout", "status", "deployment/web", "--timeout=60s")
    listed = await live.run("get", "deploy,rs,pods", "-l", "app=web")
    assert listed.count("Running") == 2 and "2/2" in listed
    assert "scaled" in await live.run("scale", "deployment/web", "--replicas=3")
    assert "condition met" in await live.run(
        "wait", "--for=jsonpath={.status.readyReplicas}=3", "deployment/web", "--timeout=60s"
    )
    await live.run("set", "image", "deployment/web", "app=app:2")
    assert "successfully rolled out" in await live.run("rollout", "status", "deployment/web", "--timeout=60s")
    history = await live.run("rollout", "history", "deployment/web")
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
    assert "rolled back" in await live.run("rollout", "undo", "deployment/web")
    assert "successfully rolled out" in await live.run("rollout", "status", "deployment/web", "--timeout=60s")
    images = "jsonpath={.items[*].spec.containers[*].image}"
    await live.run("wait", "--for=jsonpath={.status.terminatingReplicas}=0", "deployment/web", "--timeout=60s")
    assert await live.run("get", "pods", "-l", "app=web", "-o", images) == "app:1 app:1 app:1"
    assert "restarted" in await live.run("rollout", "restart", "deployment/web")
    assert "condition met" in await live.run("wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
    assert "demo (default)" in await live.run("get", "storageclasses")
    described = await live.run("describe", "deployment", "web")
    assert "ScalingReplicaSet" in described and "3 desired" in described
    await live.run("delete", "deployment", "web", "--cascade=foreground")
    assert await live.run("get", "all", "-l", "app=web", "-o", "name") == ""


async def test_drain_waits_for_a_budget(live: Kubectl) -> None:
    await live.run("create", "deployment", "web", "--image=app:1", "--replicas=4")
    await live.run("create", "poddisruptionbudget", "web", "--selector=app=web", "--max-unavailable=0")
    await live.run("rollout", "status", "deployment/web", "--timeout=60s")
    await live.run("wait", "--for=jsonpath={.status.currentHealthy}=4", "pdb/web", "--timeout=60s")
    draining = await live.start("drain", "n1")
    while "Cannot evict pod as it would violate the pod's disruption budget" not in (line := await said(draining)):
        assert line, "it has ended"
    draining.terminate()
    await draining.communicate()
    assert "SchedulingDisabled" in await live.run("get", "node", "n1")
    await live.run("patch", "pdb", "web", "--type=merge", "-p", '{"spec":{"maxUnavailable":4}}')
    await live.run("wait", "--for=jsonpath={.status.disruptionsAllowed}=4", "pdb/web", "--timeout=60s")
    assert "drained" in await live.run("drain", "n1", "--timeout=60s")
    assert await live.run("get", "pods", "--field-selector=spec.nodeName=n1", "-o", "name") == ""
    assert "uncordoned" in await live.run("uncordon", "n1")
    await live.run("run", "once", "--image=app", "--restart=Never", "--annotations", f"{RUN_SECONDS}=0")
    await live.run("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/once", "--timeout=60s")
    assert "Completed" in await live.run("get", "pod", "once")
