"""Decisions per second and CPU per pod with no API in the way: `python -m benchmarks.decisions`.

Each cluster has nodes of ten shapes that are 30 to 90 % full. Between two decisions one foreign event is applied, in
turn a pod placed, a pod removed, and a node whose labels change; the figure has what it costs to apply it, not to make
its object. All nodes are considered. Each 100th decision is made again from scratch in the same run (`fresh`), must
come to the same best nodes, and is the yardstick of the last column.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import numpy as np

from benchmarks.families import FAMILIES, spec_of
from kubesched import build, config
from kubesched.api import codec, kinds
from kubesched.api.core import Node, Pod
from kubesched.app import garbage
from kubesched.clock import Chance, RealClock
from kubesched.framework.runtime.runtime import Runtime
from kubesched.framework.runtime.scoring import best_rows
from kubesched.metrics import Metrics
from kubesched.plugins.registry import IN_TREE
from kubesched.preemption import Preemption
from kubesched.scheduler.outcome import Decision
from kubesched.scheduler.profiles import build_profiles
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.scheduling_cycle import SchedulingCycle
from kubesched.state.cluster_state import ClusterState
from kubesched.state.pod_info import PodInfo

_SHAPES = [(4, 16), (8, 32), (16, 64), (32, 128), (64, 256), (4, 32), (8, 64), (16, 32), (32, 64), (96, 384)]
_CHECK_EVERY = 100
_PREEMPTION_NODES = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = [1_000, 5_000, 20_000, 100_000]
    parser.add_argument("--nodes", type=_count, nargs="+", default=sizes, help="nodes for plain pods (%(default)s)")
    parser.add_argument("--templates", type=_count, nargs="+", default=[1, 97], help="templates of plain pods in turn")
    parser.add_argument("--families", nargs="*", default=FAMILIES[1:], choices=FAMILIES,
                        help="pods that are not plain; with any of them, preemption is measured too (all)")  # fmt: skip
    parser.add_argument("--family-nodes", type=_count, default=5_000, help="nodes for those (%(default)s)")
    parser.add_argument("--decisions", type=_count, default=1_000, help="decisions for each row (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of clusters and events (%(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    args = parser.parse_args()
    runs = [(nodes, "plain", templates) for nodes in args.nodes for templates in args.templates]
    runs += [(args.family_nodes, family, 1) for family in args.families]
    rows = []
    garbage.collect_rarely()  # as the program does
    if not args.json:
        print(f"build: {build.kind()}")
    for node_count, family, template_count in runs:
        rows.append(asyncio.run(Cluster(node_count, args.seed).measure(family, template_count, args.decisions)))
        if not args.json:
            _print_row(rows[-1], header=len(rows) == 1)
    if args.families:
        rows.append(asyncio.run(preemptions(args.seed)))
        if not args.json:
            _print_row(rows[-1], header=False)
    if args.json:
        about = {"machine": platform.platform(), "python": platform.python_version(), "build": build.kind()}
        json.dump({**about, "rows": rows}, sys.stdout, indent=1)
        print()


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _print_row(row: dict[str, Any], *, header: bool) -> None:
    if header:
        print("   nodes  pods                        templates  CPU ms/pod     p90  decisions/s  fresh ms  kept/fresh")
    line = f"{row['nodes']:>8}  {row['family']:<26} {row['templates']:>10} {row['cpu_ms']:>11.3f} {row['p90_ms']:>7.3f}"
    line += f" {row['per_cpu_s']:>12.0f}"
    if "fresh_ms" in row:
        line += f" {row['fresh_ms']:>9.2f} {row['cpu_ms'] / row['fresh_ms']:>11.3f}"
    print(line, flush=True)


class _NoCluster:
    """A port that nothing is asked of: decisions are not bound."""

    def record_event(self, event: object) -> None: ...


class Cluster:
    def __init__(self, node_count: int, seed: int) -> None:
        self.chance = Chance(seed)
        self.state = ClusterState()
        self.nodes = [self._node(i) for i in range(node_count)]
        for node in self.nodes:
            self.state.set_node(node)
        self._placed = 0
        for node, (cpu, memory_gib) in zip(self.nodes, self._shapes(), strict=False):
            share = self.chance.uniform(0.3, 0.9)
            cpu_milli, memory_mib = int(cpu * 1000 * share), int(memory_gib * 1024 * share)
            self.state.set_pod(self._placed_pod(node.metadata.name, cpu_milli, memory_mib))
        self.foreign: list[str] = []

    async def measure(self, family: str, template_count: int, decisions: int) -> dict[str, Any]:
        kept, fresh = self._runtime(keep=True), self._runtime(keep=False)
        cycle = SchedulingCycle(self.state, RealClock(), self.chance, Metrics())
        pods = self._pods(family, template_count)
        for _ in range(template_count):  # every template once, so that the first evaluation is not in the figures
            await cycle.run(PodInfo(next(pods)), kept)
        spent: list[float] = []
        fresh_spent: list[float] = []
        gc.collect()
        gc.freeze()
        for number in range(decisions):
            pod, apply = next(pods), self._foreign_event(number)
            started = time.process_time_ns()
            apply()
            info = PodInfo(pod)
            if number % _CHECK_EVERY == 0:
                spent.append(time.process_time_ns() - started)
                self._compare(info, kept, fresh, fresh_spent)
                started = time.process_time_ns()
            outcome = await cycle.run(info, kept)
            took = time.process_time_ns() - started
            if number % _CHECK_EVERY == 0:
                spent[-1] += took
            else:
                spent.append(took)
            assert isinstance(outcome, Decision), outcome
        median = statistics.median(spent) / 1e6
        return {
            "nodes": len(self.nodes),
            "family": family,
            "templates": template_count,
            "cpu_ms": median,
            "p90_ms": float(np.percentile(spent, 90)) / 1e6,
            "per_cpu_s": 1e9 / statistics.fmean(spent),
            "fresh_ms": statistics.median(fresh_spent) / 1e6,
        }

    def _compare(self, info: PodInfo, kept: Runtime, fresh: Runtime, spent: list[float]) -> None:
        started = time.process_time_ns()
        want = _best(fresh, info)
        spent.append(time.process_time_ns() - started)
        assert want == _best(kept, PodInfo(info.pod)), f"kept and fresh decisions differ for {info.key}"

    def _runtime(self, *, keep: bool) -> Runtime:
        clock, metrics = RealClock(), Metrics()
        port: Any = _NoCluster()
        scheduler = Scheduler(self.state, port, clock, self.chance, metrics)
        profiles = build_profiles(
            config.load(None), IN_TREE, state=self.state, port=port, control=scheduler, clock=clock, chance=self.chance,
            metrics=metrics, keep=keep,
        )  # fmt: skip
        return next(iter(profiles.values()))

    # -- objects

    def _shapes(self) -> Iterator[tuple[int, int]]:
        while True:
            yield from _SHAPES

    def _node(self, number: int) -> Node:
        cpu, memory_gib = _SHAPES[number % len(_SHAPES)]
        name = f"node-{number:06}"
        document = {
            "metadata": {
                "name": name,
                "uid": name,
                "labels": {
                    "kubernetes.io/hostname": name,
                    "topology.kubernetes.io/zone": f"zone-{number % 3}",
                    "pool": f"pool-{number % 7}",
                },
            },
            "status": {
                "allocatable": {"cpu": str(cpu), "memory": f"{memory_gib}Gi", "pods": "110"},
                "images": [{"names": [f"app-{number % 20}:v1"], "sizeBytes": 200_000_000}],
            },
        }
        node: Node = codec.from_dict(kinds.NODE, document)
        return node

    def _placed_pod(self, node_name: str, cpu_milli: int, memory_mib: int) -> Pod:
        self._placed += 1
        return _pod(f"placed-{self._placed}", cpu_milli, memory_mib, {"app": "foreign"}, node_name)

    def _pods(self, family: str, template_count: int) -> Iterator[Pod]:
        number = 0
        while True:
            template = number % template_count
            number += 1
            app = f"app-{template}"
            cpu_milli, memory_mib = 100 + 10 * (template % 89), 128 + 8 * (template % 97)
            yield _pod(f"pod-{number}", cpu_milli, memory_mib, {"app": app}, spec=spec_of(family, app))

    def _foreign_event(self, number: int) -> Callable[[], object]:
        """What applies it; its object is made already."""
        if number % 3 == 0:
            node = self.nodes[self.chance.randrange(len(self.nodes))]
            pod = self._placed_pod(node.metadata.name, 50, 64)
            self.foreign.append(pod.metadata.uid)
            return partial(self.state.set_pod, pod)
        if number % 3 == 1 and self.foreign:
            return partial(self.state.remove_pod, self.foreign.pop(0))
        index = self.chance.randrange(len(self.nodes))
        node = self.nodes[index]
        labels = {**node.metadata.labels, "beat": str(number)}
        node = msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels))
        self.nodes[index] = node
        return partial(self.state.set_node, node)


def _best(runtime: Runtime, info: PodInfo) -> list[int]:
    state, evaluation = runtime.begin(info)
    fits = runtime.find_fits(state, evaluation)
    best: list[int] = best_rows(fits.rows, runtime.totals(state, fits)).tolist()
    return best


async def preemptions(seed: int) -> dict[str, Any]:
    """PreFilter to PostFilter of a pod that must preempt, on 1,000 full nodes of 4 pods; nothing is carried out."""
    cluster = Cluster(0, seed)
    for number in range(_PREEMPTION_NODES):
        cluster.state.set_node(_full_node(number))
        for slot in range(4):
            pod = _pod(f"low-{number}-{slot}", 1000, 1024, {"app": "low"}, f"full-{number}")
            cluster.state.set_pod(pod)
    runtime = cluster._runtime(keep=True)
    preemption = Preemption(runtime.handle, "DefaultPreemption")
    spent = []
    for number in range(100):
        pod = _pod(f"high-{number}", 3000, 2048, {"app": "high"}, spec={"priority": 1000})
        started = time.process_time_ns()
        state, evaluation = runtime.begin(PodInfo(pod))
        fits = runtime.find_fits(state, evaluation)
        found = preemption.find(state, fits.diagnosis)
        spent.append(time.process_time_ns() - started)
        assert found.candidates
    return {
        "nodes": _PREEMPTION_NODES,
        "family": "preemption",
        "templates": 1,
        "cpu_ms": statistics.median(spent) / 1e6,
        "p90_ms": float(np.percentile(spent, 90)) / 1e6,
        "per_cpu_s": 1e9 / statistics.fmean(spent),
    }


def _full_node(number: int) -> Node:
    name = f"full-{number}"
    document = {
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"}},
    }
    node: Node = codec.from_dict(kinds.NODE, document)
    return node


def _pod(
    uid: str,
    cpu_milli: int,
    memory_mib: int,
    labels: dict[str, str],
    node_name: str = "",
    *,
    spec: dict[str, Any] | None = None,
) -> Pod:
    document = {
        "metadata": {"name": uid, "namespace": "default", "uid": uid, "labels": labels},
        "spec": {
            "nodeName": node_name,
            "schedulerName": "default-scheduler",
            "containers": [
                {
                    "name": "main",
                    "image": "app-1:v1",
                    "resources": {"requests": {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi"}},
                }
            ],
            **(spec or {}),
        },
    }
    pod: Pod = codec.from_dict(kinds.POD, document)
    return pod


if __name__ == "__main__":
    main()
