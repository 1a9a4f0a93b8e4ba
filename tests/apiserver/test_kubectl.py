"""The real kubectl against the embedded server."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubesched.apiserver import Server, write_kubeconfig
from kubesched.tls import self_signed
from tests.apiserver.conftest import node

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

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
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), 30)
        self.steps += 1
        assert (process.returncode != 0) is fails, (arguments, out, err)
        return (err if fails else out).decode()


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    certificate = self_signed(["127.0.0.1"])
    async with Server(certificate=certificate, token="secret") as server:
        server.load([node("n1", zone="a"), node("n2", zone="b")])
        write_kubeconfig(server, tmp_path / "config")
        (tmp_path / "manifest.yaml").write_text(MANIFEST)
        yield Kubectl(tmp_path)


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
    lines = [await asyncio.wait_for(watching.stdout.readline(), 20)]
    assert "deleted" in await kubectl.run("delete", "pod", "web")
    lines.append(await asyncio.wait_for(watching.stdout.readline(), 20))
    lines.append(await asyncio.wait_for(watching.stdout.readline(), 20))
    watching.terminate()
    await watching.communicate()
    assert [line.split()[0] for line in lines] == [b"ADDED", b"MODIFIED", b"DELETED"]
    assert "deleted" in await kubectl.run("delete", "node", "n2")
    assert await kubectl.run("get", "nodes", "-o", "name") == "node/n1\n"
    await kubectl.run("apply", "-f", "manifest.yaml")
    assert "deleted" in await kubectl.run("delete", "pods", "-l", "app=web", "--grace-period=0", "--force")
    assert await kubectl.run("delete", "pod", "nope", "--ignore-not-found") == ""
    assert (await kubectl.run("delete", "-f", "manifest.yaml", "--ignore-not-found")).count("deleted") == 2
    assert await kubectl.run("wait", "--for=delete", "pod/web", "--timeout=5s") == ""
