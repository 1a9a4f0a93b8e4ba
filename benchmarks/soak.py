"""Churn for an hour: `make soak ARGS="--minutes 60"`. Memory flat, cache true, every pod dealt with.

An embedded API server here, `kubesched run` as a process of its own. Pods come and go at a steady rate, some of which
fit nowhere, wait behind a gate, spread, keep away from each other, or make room for themselves; nodes are cordoned,
relabelled, removed and added. Every so often the scheduler is told (SIGUSR2) to compare its cache with the server.

Ends with 0 when, after the warm-up, memory grew by no more than 5 %, no comparison found a difference, no pod that
could be placed waits, and the scheduler has logged no bug.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

from kubesched import build
from kubesched.apiserver import Server, write_kubeconfig
from kubesched.apiserver.messages import Request
from kubesched.apiserver.resources import core

GROWTH_MAX = 0.05
_ZONES = ("a", "b", "c")
_BAD = ("cache differs", "ended with a bug", "not because of a bug", "Traceback", "the cluster state changed during")
_CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %s, qps: 2000, burst: 4000}
leaderElection: {leaderElect: true}
"""


class Scheduler:
    """The process under test: its memory, and what it says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.checks = 0
        self.bad: list[str] = []
        self.tail: deque[str] = deque(maxlen=50)
        self.counts: Counter[str] = Counter()
        self.compared = asyncio.Event()
        self.leads = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    def rss_mib(self) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise ProcessLookupError(self.process.pid)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def compare(self) -> None:
        self.compared.clear()
        self.process.send_signal(signal.SIGUSR2)
        await asyncio.wait_for(self.compared.wait(), 120)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for raw in self.process.stdout:
            line = raw.decode(errors="replace").rstrip()
            if "dump of" not in line:
                self.tail.append(line)
            for text in ("pod scheduled", "pod does not fit", "scheduling failed"):
                self.counts[text] += text in line
            if any(text in line for text in _BAD):
                self.bad.append(line)
            if "became leader" in line:
                self.leads.set()
            if "cache equals the API server" in line or "cache differs" in line:
                self.checks += 1
                self.compared.set()


class Churn:
    """Keeps the cluster moving: `pods` alive at a time, `rate` new ones a second."""

    def __init__(self, server: Server, args: argparse.Namespace) -> None:
        self._server = server
        self._args = args
        self._random = random.Random(args.seed)
        self._alive: deque[tuple[str, str]] = deque()
        self._number = 0
        self._nodes = 0
        for _ in range(args.nodes):
            self._add_node()

    async def run(self) -> None:
        """Until cancelled. Falls behind rather than catching up in bursts."""
        pause_s = 1 / self._args.rate
        next_s = time.monotonic()
        while True:
            self._add_pod()
            while len(self._alive) > self._args.pods:
                await self._delete(*self._alive.popleft())
            if self._number % max(1, round(self._args.rate / self._args.node_rate)) == 0:
                await self._change_a_node()
            if self._number % 2000 == 0:
                await self._ask("DELETE", "/apis/events.k8s.io/v1/namespaces/default/events")
            next_s = max(next_s + pause_s, time.monotonic())
            await asyncio.sleep(next_s - time.monotonic())

    def placeable(self) -> list[str]:
        """Names of pods that fit somewhere and have not been placed."""
        return [
            each.name
            for each in self._server.store.of(core("pods")).scan()
            if not each.document()["spec"].get("nodeName") and each.name.startswith(("plain", "spread", "vip"))
        ]

    def _add_pod(self) -> None:
        self._number += 1
        draw = self._random.random()
        spec: dict[str, Any] = {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}],
            "terminationGracePeriodSeconds": 1,
        }
        labels = {"app": f"a{self._number % 20}"}
        if draw < 0.02:
            kind, spec["nodeSelector"] = "nowhere", {"no": "where"}
        elif draw < 0.03:
            kind, spec["schedulingGates"] = "gated", [{"name": "wait"}]
        elif draw < 0.10:
            kind = "spread"
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 5, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                 "labelSelector": {"matchLabels": labels}}
            ]  # fmt: skip
        elif draw < 0.13:
            kind = "apart"
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"kind": "apart"}}}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
            labels["kind"] = "apart"
        elif draw < 0.14:
            kind, spec["priority"] = "vip", 1000
        else:
            kind = "plain"
        name = f"{kind}-{self._number}"
        metadata = {"name": name, "namespace": "default", "labels": labels}
        self._server.load([{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}])
        self._alive.append(("default", name))

    def _add_node(self) -> None:
        self._nodes += 1
        self._put_node(f"n{self._nodes}", {})

    def _put_node(self, name: str, spec: dict[str, Any], **labels: str) -> None:
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        zone = _ZONES[int(name[1:]) % len(_ZONES)]
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": zone, **labels}}
        status = {"capacity": amounts, "allocatable": amounts}
        self._server.load([{"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}])

    async def _change_a_node(self) -> None:
        names = [each.name for each in self._server.store.of(core("nodes")).scan()]
        name = self._random.choice(names)
        match self._random.randrange(4):
            case 0:
                self._put_node(name, {"unschedulable": True})
            case 1:
                self._put_node(name, {}, generation=str(self._number))
            case 2:
                self._put_node(name, {"taints": [{"key": "t", "effect": "PreferNoSchedule"}]})
            case 3:
                on_it = [stored.name for stored in self._server.store.of(core("pods")).on_node(name)]
                await self._ask("DELETE", f"/api/v1/nodes/{name}")
                for pod in on_it:
                    await self._delete("default", pod, grace_s=0)
                self._add_node()

    async def _delete(self, namespace: str, name: str, grace_s: int = 1) -> None:
        await self._ask("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", gracePeriodSeconds=str(grace_s))

    async def _ask(self, method: str, path: str, **query: str) -> None:
        await self._server.handle(Request(method, path, query))


async def soak(args: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder:
        async with Server() as server:
            churn = Churn(server, args)
            kubeconfig, config = Path(folder) / "kubeconfig", Path(folder) / "config.yaml"
            write_kubeconfig(server, kubeconfig)
            config.write_text(_CONFIG % kubeconfig)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "kubesched", "run", f"--config={config}", "--secure-port=0",
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, limit=1 << 20,
            )  # fmt: skip
            scheduler = Scheduler(process)
            moving = None
            try:
                await asyncio.wait_for(scheduler.leads.wait(), 60)
                moving = asyncio.create_task(churn.run())
                return await observe(args, scheduler, churn, moving)
            finally:
                if moving is not None:
                    moving.cancel()
                if process.returncode is None:
                    process.terminate()
                await process.wait()


async def observe(args: argparse.Namespace, scheduler: Scheduler, churn: Churn, moving: asyncio.Task[None]) -> int:
    started_s = time.monotonic()
    total_s = args.minutes * 60
    every_s = max(1.0, min(60.0, total_s / 30))
    samples: list[tuple[float, float]] = []
    while (at_s := time.monotonic() - started_s) < total_s:
        await asyncio.sleep(every_s)
        if moving.done():
            moving.result()
        await scheduler.compare()
        samples.append((at_s, scheduler.rss_mib()))
        print(
            f"minute={at_s / 60:6.1f} rss_mib={samples[-1][1]:.1f} scheduled={scheduler.counts['pod scheduled']} "
            f"rejected={scheduler.counts['pod does not fit']} errors={scheduler.counts['scheduling failed']} "
            f"checks={scheduler.checks} bad={len(scheduler.bad)} cpu_s={scheduler.cpu_s():.1f}",
            flush=True,
        )
    moving.cancel()
    await asyncio.sleep(12)  # longer than any backoff
    await scheduler.compare()
    left = churn.placeable()
    warm = [rss for at, rss in samples if at >= total_s * args.warm_up]
    third = max(1, len(warm) // 3)
    before, after = statistics.median(warm[:third]), statistics.median(warm[-third:])
    report = {
        "build": build.kind(),
        "minutes": args.minutes,
        "nodes": args.nodes,
        "podsAlive": args.pods,
        "podsPerSecond": round(scheduler.counts["pod scheduled"] / total_s, 1),
        "scheduled": scheduler.counts["pod scheduled"],
        "rejected": scheduler.counts["pod does not fit"],
        "errors": scheduler.counts["scheduling failed"],
        "rssMiB": {"afterWarmUp": round(before, 1), "atTheEnd": round(after, 1)},
        "growth": round(after / before - 1, 4),
        "cacheChecks": scheduler.checks,
        "bad": scheduler.bad[:20],
        "left": left[:20],
        "cpuPercent": round(100 * scheduler.cpu_s() / (time.monotonic() - started_s), 1),
    }
    print(json.dumps(report, indent=2))
    failed = report["growth"] > GROWTH_MAX or scheduler.bad or left
    if failed:
        print("\n".join(scheduler.tail), file=sys.stderr)
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="soak.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--pods", type=int, default=3000, help="pods that are alive at a time")
    parser.add_argument("--rate", type=float, default=20, help="new pods a second")
    parser.add_argument("--node-rate", type=float, default=0.2, help="changes of nodes a second")
    parser.add_argument("--warm-up", type=float, default=0.25, help="share of the time that does not count for memory")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    return asyncio.run(soak(args))


if __name__ == "__main__":
    sys.exit(main())
