"""A pod created with kubectl lands on the right node."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest
import yaml

from kubesched.apiserver import Server, write_kubeconfig
from tests.build import make_node, make_pod
from tests.end_to_end.process import running_scheduler

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


class Kubectl:
    def __init__(self, server: Server, folder: Path) -> None:
        self._folder = folder
        self._kubeconfig = folder / "kubectl.conf"
        write_kubeconfig(server, self._kubeconfig)

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        process = await asyncio.create_subprocess_exec(
            "kubectl", "--kubeconfig", str(self._kubeconfig), "--cache-dir", str(self._folder / "cache"), *arguments,
            env={**os.environ, "HOME": str(self._folder)},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        output, errors = await process.communicate(stdin.encode())
        assert process.returncode == 0, errors.decode()
        return output.decode()


def manifest(*builders) -> str:
    return yaml.safe_dump_all([builder.dict() for builder in builders])


async def test_a_pod_created_with_kubectl_lands_on_the_right_node(tmp_path):
    async with Server() as server:
        kubectl = Kubectl(server, tmp_path)
        async with running_scheduler(server, tmp_path):
            await kubectl(
                "apply", "-f", "-",
                stdin=manifest(
                    make_node("small").capacity(cpu=1, memory="2Gi", pods=10),
                    make_node("tainted").capacity(cpu=16, memory="64Gi", pods=10).taint("dedicated", "db"),
                    make_node("right").capacity(cpu=8, memory="16Gi", pods=10).label("disk", "ssd"),
                    make_pod("p").requests(cpu="2", memory="1Gi").node_selector({"disk": "ssd"}),
                ),
            )  # fmt: skip
            await kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/p", "--timeout=60s")
            assert await kubectl("get", "pod", "p", "-o", "jsonpath={.spec.nodeName}") == "right"
            described = await kubectl("describe", "pod", "p")
            assert "Successfully assigned default/p to right" in described
            wide = await kubectl("get", "pods", "-o", "wide")
            assert "right" in wide and "Running" in wide


async def test_a_pod_that_fits_nowhere_says_why_and_is_tried_again_when_a_label_comes(tmp_path):
    async with Server() as server:
        kubectl = Kubectl(server, tmp_path)
        server.load([make_node("n1").capacity(cpu=8, memory="16Gi", pods=10).dict()])
        async with running_scheduler(server, tmp_path):
            await kubectl("create", "-f", "-", stdin=manifest(make_pod("p").node_selector({"disk": "ssd"})))
            await kubectl("wait", "--for=condition=PodScheduled=false", "pod/p", "--timeout=60s")
            pod = json.loads(await kubectl("get", "pod", "p", "-o", "json"))
            [condition] = pod["status"]["conditions"]
            assert condition["reason"] == "Unschedulable"
            assert condition["message"].startswith(
                "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
            )
            await kubectl("label", "node", "n1", "disk=ssd")
            await kubectl("wait", "--for=condition=PodScheduled=true", "pod/p", "--timeout=60s")
            assert await kubectl("get", "pod", "p", "-o", "jsonpath={.spec.nodeName}") == "n1"


async def test_cordon_and_uncordon(tmp_path):
    async with Server() as server:
        kubectl = Kubectl(server, tmp_path)
        server.load([make_node("n1").capacity(cpu=8, memory="16Gi", pods=10).dict()])
        async with running_scheduler(server, tmp_path):
            await kubectl("cordon", "n1")
            await kubectl("run", "p", "--image=registry.k8s.io/pause:3.10", "--restart=Never")
            await kubectl("wait", "--for=condition=PodScheduled=false", "pod/p", "--timeout=60s")
            await kubectl("uncordon", "n1")
            await kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/p", "--timeout=60s")
            await kubectl("delete", "pod", "p", "--timeout=60s")
