"""kube-scheduler's command lines start this program, with nothing changed but its name."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import yaml

from kubesched.apiserver import Server, write_kubeconfig
from tests.build import make_node, make_pod


async def test_the_command_line_of_a_kubeadm_static_pod(tmp_path: Path):
    async with Server(node_simulator=False) as server:
        server.load([make_node("n1").capacity(cpu=4, pods=10).dict(), make_pod("p").dict()])
        kubeconfig = tmp_path / "scheduler.conf"
        write_kubeconfig(server, kubeconfig)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kubesched",
            f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1", f"--kubeconfig={kubeconfig}", "--leader-elect=true",
            "--secure-port=0",  # a static pod has the usual one to itself
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        assert process.stdout is not None
        log = []
        async with asyncio.timeout(60):
            async for line in process.stdout:
                log.append(line.decode())
                if "pod scheduled pod=default/p node=n1" in log[-1]:
                    process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0, "".join(log)
        assert "Traceback" not in "".join(log)
        assert any("--kubeconfig is deprecated" in line for line in log)


async def test_what_was_written_starts_it_again(tmp_path: Path):
    """`--write-config-to`, then `--config` of that file."""
    async with Server(node_simulator=False) as server:
        server.load([make_node("n1").capacity(cpu=4, pods=10).dict(), make_pod("p").scheduler("mine").dict()])
        kubeconfig = tmp_path / "kc"
        write_kubeconfig(server, kubeconfig)
        first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
        first.write_text(yaml.safe_dump({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False}, "profiles": [{"schedulerName": "mine"}],
            "clientConnection": {"kubeconfig": str(kubeconfig)}}))  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kubesched", "--config", str(first), "--write-config-to", str(second)
        )
        assert await process.wait() == 0
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kubesched", "--config", str(second), "--secure-port=0",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        async with asyncio.timeout(60):
            async for line in process.stderr:
                if b"pod scheduled pod=default/p node=n1" in line:
                    process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
