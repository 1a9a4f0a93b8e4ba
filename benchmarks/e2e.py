"""The whole scheduler process over HTTP: `python -m benchmarks.e2e [WORKLOAD ...]`.

    server process ◄──── objects, lease ──── this process
          ▲   └────────── watch of pods ────────► pods/s
          └── scheduler process (CPU and memory from /proc)

The scheduler first watches and stands by, while the backlog is created; then it gets the lease and drains it. Its CPU
a pod counts everything from before the backlog (so the decoding of the pods, too) until the last event and status has
arrived, at the most 5 s after the last bind. Pods a second count from the first bind to the last. `last/first` is what
the last tenth of the pods cost over what the first did.

Without `--kubeconfig` the embedded API server runs in a process of its own; with it, any cluster will do that has
nobody else in it, and is left as it becomes. `--scheduler` measures another program with kube-scheduler's flags.
`--beside` runs another checkout of kubesched alternately with this one, A B A B, for `benchmarks.compare`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from benchmarks import workload as workloads
from benchmarks.driver import LEASE, Driver
from benchmarks.processes import Process, machine
from benchmarks.workload import Operation, Workload
from kubesched.client import kubeconfig
from kubesched.client.rest import connect
from kubesched.clock import RealClock

_QPS: Final = 5_000
_DELIVERY_S: Final = 5.0
_BARRIER_S: Final = 600.0
_SEED: Final = 1
_OURS: Final = (sys.executable, "-m", "kubesched", "run")
_COLUMNS: Final = (
    ("cpu_ms_per_pod", "CPU ms/pod", ".3f"),
    ("pods_per_s", "pods/s", ".0f"),
    ("last_to_first_tenth", "last/first", ".2f"),
    ("peak_mb", "peak MB", ".0f"),
    ("start_cpu_s", "start CPU s", ".2f"),
    ("server_cpu_ms_per_pod", "server ms/pod", ".3f"),
    ("delivered_after_s", "delivered s", ".1f"),
)


@dataclass(frozen=True, slots=True)
class Target:
    """What is measured, and against what."""

    scheduler: tuple[str, ...]
    kubeconfig: str = ""
    source: str = ""  # another checkout's `src`, to take kubesched from
    profile: Path | None = None  # where `benchmarks.profiler` writes

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": self.source} if self.source else {}

    @property
    def build(self) -> str:
        """`compiled` or `pure`; "" of a program that is not ours."""
        if self.scheduler != _OURS:
            return ""
        environment = {**os.environ, **self.environment}
        done = subprocess.run((*_OURS[:-1], "--version"), env=environment, capture_output=True, text=True, check=True)
        told = re.search(r"build=(\w+)", done.stdout)
        return told[1] if told else "pure"  # as every checkout was before it told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="*", help="names, or names/variants; none: a short tour")
    parser.add_argument("--list", action="store_true", help="tell the workloads and end")
    parser.add_argument("--kubeconfig", default="", help="a cluster to use; else one is embedded")
    parser.add_argument("--scheduler", default="", metavar="COMMAND", help="another scheduler with the same flags")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=N", help="a parameter of the workload")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--out", type=Path, metavar="FILE", help="results as JSON")
    parser.add_argument("--beside", default="", metavar="SRC", help="another checkout's src, measured alternately")
    parser.add_argument("--out-beside", type=Path, metavar="FILE", help="its results")
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help="sample the scheduler, and write where its CPU goes"
    )
    args = parser.parse_args()
    if args.list:
        print("\n".join(workloads.names()))
        return
    command = tuple(shlex.split(args.scheduler)) or _OURS
    ours = Target(command, args.kubeconfig, profile=args.profile)
    targets = [ours, *([Target(command, args.kubeconfig, args.beside)] if args.beside else [])]
    try:
        overrides = {name: int(number) for name, _, number in (each.partition("=") for each in args.set)}
        wanted = [workloads.load(name, overrides) for name in args.workload or ["basic/5000Nodes"]]
    except ValueError as error:
        parser.error(str(error))
    rows: list[list[dict[str, Any]]] = [[] for _ in targets]
    print("build: " + ", ".join(target.build or command[0] for target in targets))
    print(f"{'workload':<38}" + "".join(f"{title:>14}" for _, title, _ in _COLUMNS), flush=True)
    for workload in wanted:
        for _ in range(args.repeat):
            for number, target in enumerate(targets):
                row = asyncio.run(measure(workload, target))
                rows[number].append(row)
                _print_row(row, "B " if number else "A " if len(targets) > 1 else "")
    for path, target, target_rows in zip((args.out, args.out_beside), targets, rows, strict=False):
        if path is not None:
            about = {"machine": machine(), "build": target.build, "seed": _SEED}
            path.write_text(json.dumps({**about, "runs": target_rows}, indent=1) + "\n")


def _print_row(row: dict[str, Any], prefix: str) -> None:
    cells = (format(row[key], spec) if row.get(key) is not None else "-" for key, _, spec in _COLUMNS)
    print(f"{prefix + row['workload']:<38}" + "".join(f"{cell:>14}" for cell in cells), flush=True)


async def measure(wanted: Workload, target: Target) -> dict[str, Any]:
    """One run. RuntimeError when a process ends early or pods are left without a node."""
    with tempfile.TemporaryDirectory(prefix="kubesched-bench-") as folder:
        if target.kubeconfig:
            return await _measure_on(target.kubeconfig, None, wanted, target, Path(folder))
        config = Path(folder, "kubeconfig")
        command = (
            sys.executable, "-m", "kubesched", "apiserver", "--port", "0", "--no-node-simulator",
            "--kubeconfig-out", str(config),
        )  # fmt: skip
        with Process(command, Path(folder, "server.log")) as server:
            while not _is_written(config):
                server.check()
                await asyncio.sleep(0.05)
            return await _measure_on(str(config), server, wanted, target, Path(folder))


def _is_written(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


async def _measure_on(
    config: str, server: Process | None, wanted: Workload, target: Target, folder: Path
) -> dict[str, Any]:
    client = connect(kubeconfig.load(config), RealClock(), qps=0, pool_size=64, timeout_s=120.0)
    run = Run(Driver(client), server, target, config, folder)
    try:
        await run.carry_out(wanted.operations)
        return {"workload": wanted.name, "parameters": wanted.parameters, **run.result()}
    finally:
        await run.end()
        await client.close()


class Run:
    """One workload being carried out."""

    def __init__(self, driver: Driver, server: Process | None, target: Target, config: str, folder: Path) -> None:
        self._driver = driver
        self._server = server
        self._target = target
        self._config = config
        self._folder = folder
        self._scheduler: Process | None = None
        self._created = 0
        self._never_fit: set[bytes] = set()
        self._background: list[asyncio.Task[None]] = []
        self._result: dict[str, Any] = {}
        self._cpu_before = self._server_before = 0.0
        self._events_before = 0
        self._samples: list[tuple[int, float]] = []

    @property
    def scheduler(self) -> Process:
        assert self._scheduler is not None, "the workload does not start the scheduler first"
        return self._scheduler

    async def carry_out(self, operations: Sequence[Operation]) -> None:
        await self._driver.watch_pods()
        for operation in operations:
            options = {_snake(name): value for name, value in operation.options.items()}
            await getattr(self, f"_{_snake(operation.name)}")(**options)
        await self._finish()

    def result(self) -> dict[str, Any]:
        return self._result

    async def end(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._driver.stop()
        if self._scheduler is not None:
            self._scheduler.stop()

    # -- operations

    async def _create_nodes(self, count: int, template: dict[str, Any]) -> None:
        await self._create(count, template)

    async def _create_any(self, count: int, template: dict[str, Any]) -> None:
        await self._create(count, template)

    async def _create_pods(
        self, count: int, template: dict[str, Any], measure: bool = False, fits: bool = True, per_s: float = 0.0
    ) -> None:
        """`measure`: these are what is counted. `fits: false`: they stay without a node, and are told why."""
        uids = await self._create(count, template, per_s=per_s)
        if not fits:
            self._never_fit.update(uids)
        elif measure:
            self._driver.measured.update(uids)

    async def _start_scheduler(self, standby: bool = True) -> None:
        """It stands by until `lead`, or begins at once."""
        settings = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": self._config, "qps": _QPS, "burst": _QPS},
            "leaderElection": {
                "leaderElect": standby, "resourceNamespace": LEASE[0], "resourceName": LEASE[1],
                "leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "1s",
            },
        }  # fmt: skip
        if standby:
            await self._driver.hold_lease()
        config = _written(self._folder / "scheduler.yaml", yaml.safe_dump(settings))
        command = [*self._target.scheduler, "--config", config, "--secure-port", "0"]
        if self._target.profile is not None:
            command[1:2] = ["-m", "benchmarks.profiler", str(self._target.profile)]
        self._began_at = time.monotonic()
        self._scheduler = Process(command, self._folder / "scheduler.log", environment=self._target.environment)
        if standby:
            self._scheduler.until_quiet()
            self._result |= {"start_cpu_s": self.scheduler.cpu_s, "start_mb": self.scheduler.resident_mb}
        await self._mark()

    async def _lead(self) -> None:
        """The backlog has been taken in by now."""
        self.scheduler.until_quiet()
        backlog_cpu_s = self.scheduler.cpu_s - self._cpu_before
        self._server_before = self._server.cpu_s if self._server is not None else 0.0
        self._result |= {"backlog_cpu_s": backlog_cpu_s}
        await self._driver.release_lease()

    async def _settle(self) -> None:
        """What was created before the measured pods has been seen to; counting begins now."""
        self.scheduler.until_quiet()
        await self._mark()

    async def _barrier(self) -> None:
        sampling = asyncio.create_task(self._sample(), name="samples of CPU")
        try:
            await self._until_bound()
        finally:
            sampling.cancel()
            self._samples.append((len(self._driver.bound_at), self.scheduler.cpu_s))

    async def _sample(self) -> None:
        """What it has used by how many pods have a node."""
        while True:
            self._samples.append((len(self._driver.bound_at), self.scheduler.cpu_s))
            await asyncio.sleep(0.05)

    async def _until_bound(self) -> None:
        if not await self._driver.until_bound(_BARRIER_S):
            missing = self._driver.measured - self._driver.bound_at.keys()
            log = self.scheduler.log.read_text(errors="replace")
            raise RuntimeError(f"{len(missing)} of {len(self._driver.measured)} pods have no node; log:\n{log[-3000:]}")

    async def _barrier_rejected(self) -> None:
        """All pods that fit nowhere were told so."""
        if not await self._driver.until_rejected(self._never_fit, _BARRIER_S):
            raise RuntimeError("some pods that fit nowhere were not told so")

    async def _churn(self, every_ms: int, template: dict[str, Any], mode: str = "recreate", count: int = 10) -> None:
        """From now to the end. `recreate`: up to `count` at a time, the oldest goes first; `create`: they stay."""

        async def work() -> None:
            alive: list[dict[str, Any]] = []
            while True:
                document = workloads.stamp(template, self._created)
                self._created += 1
                await self._driver.create([document])
                alive.append(document)
                if mode == "recreate" and len(alive) > count:
                    await self._driver.delete(alive.pop(0))
                await asyncio.sleep(every_ms / 1000)

        self._background.append(asyncio.create_task(work(), name="churn"))

    async def _delete_pods(self, prefix: str, count: int, per_s: float) -> None:
        """From now on, at this pace."""

        async def work() -> None:
            began = time.monotonic()
            for number in range(count):
                if (ahead_s := began + number / per_s - time.monotonic()) > 0:
                    await asyncio.sleep(ahead_s)
                await self._driver.delete({"kind": "Pod", "metadata": {"name": f"{prefix}-{number}"}})

        self._background.append(asyncio.create_task(work(), name="deletions"))

    # -- measuring

    async def _create(self, count: int, template: dict[str, Any], *, per_s: float = 0.0) -> list[bytes]:
        options = {"count": count, "template": template}
        return await self._driver.create(workloads.documents(options, 0), per_s=per_s)

    async def _mark(self) -> None:
        self._cpu_before = self.scheduler.cpu_s
        self._server_before = self._server.cpu_s if self._server is not None else 0.0
        self._events_before = await self._driver.event_count()
        if self._target.profile is not None:
            self.scheduler.process.send_signal(signal.SIGUSR1)

    async def _finish(self) -> None:
        """Wait until events and statuses are there, as far as they come in time, and draw up the bill."""
        for task in self._background:
            task.cancel()
        measured = [self._driver.bound_at[uid] for uid in self._driver.measured]
        first, last = min(measured), max(measured)
        wanted = self._events_before + len(measured)
        arrived = 0
        while (now := time.monotonic()) < last + _DELIVERY_S:
            arrived = await self._driver.event_count()
            if arrived >= wanted:
                break
            await asyncio.sleep(0.2)
        scheduler = self.scheduler
        count = len(measured)
        cpu_s = scheduler.cpu_s - self._cpu_before
        per_pod = 1000.0 / count
        self._result |= {
            "pods": count,
            "cpu_ms_per_pod": cpu_s * per_pod,
            "total_cpu_s": scheduler.cpu_s,
            "pods_per_s": (count - 1) / (last - first) if last > first else None,
            "first_bind_after_s": first - self._began_at,
            "peak_mb": scheduler.peak_mb,
            "last_to_first_tenth": _last_to_first_tenth(self._samples),
            "server_cpu_ms_per_pod": (
                (self._server.cpu_s - self._server_before) * per_pod if self._server is not None else None
            ),
            "events_missing": max(0, wanted - arrived),
            "delivered_after_s": now - last if arrived >= wanted else None,
        }


def _last_to_first_tenth(samples: list[tuple[int, float]]) -> float | None:
    """What the last tenth of the pods cost over what the first did; None for drains too short to tell."""
    if len(samples) < 40 or samples[-1][0] - samples[0][0] < 1000:
        return None
    pods, cpu_s = zip(*samples, strict=True)
    low, high = pods[0], pods[-1]
    tenth = (high - low) / 10
    used_s = np.interp([low, low + tenth, high - tenth, high], pods, cpu_s)
    return float((used_s[3] - used_s[2]) / (used_s[1] - used_s[0]))


def _snake(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()


def _written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def median(runs: Sequence[dict[str, Any]], key: str) -> float | None:
    values = [run[key] for run in runs if run.get(key) is not None]
    return statistics.median(values) if values else None


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
