"""The cost of one cluster event while many pods are parked: `python -m benchmarks.parked_pods`.

Pods of 20 templates (requests, selectors, tolerations, affinity and spreading among them) are parked by real attempts
on a full cluster. Then events are told: some that can help nobody, and one that wakes the pods of one template. What
the first kind costs should not grow with the number of pods, but with the number of groups; the second adds a cost for
each pod woken. The last rows have as many templates as pods, so that nothing can be shared.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import statistics
import time
from collections.abc import Callable
from typing import Any

from kubesched import config
from kubesched.api import codec, kinds
from kubesched.api.changes import Upsert
from kubesched.api.core import Node, Pod
from kubesched.clock import Chance, RealClock
from kubesched.framework import events
from kubesched.framework.events import NODE, ActionType, ClusterEvent
from kubesched.metrics import Metrics
from kubesched.offline.world import World
from kubesched.plugins.registry import IN_TREE
from kubesched.scheduler.profiles import build_profiles
from kubesched.scheduler.scheduler import Scheduler
from kubesched.state.cluster_state import ClusterState

_TEMPLATES = 20
_ROUNDS = 30
_HOST, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--distinct", type=int, nargs="*", default=[10_000], help="pods of which no two are alike")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    args = parser.parse_args()
    logging.getLogger("kubesched").setLevel(logging.CRITICAL)
    sizes = [(count, min(count, _TEMPLATES)) for count in args.pods] + [(count, count) for count in args.distinct]
    rows = [asyncio.run(_measure(pods, templates)) for pods, templates in sizes]
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    print(
        f"{'pods':>7} {'alike':>7} {'groups':>7} | {'µs per event that helps nobody':^62} | {'one template woken':>22}"
    )
    names = list(rows[0]["vain_us"])
    print(f"{'':>23} | " + " ".join(f"{name:>15}" for name in names) + f" | {'pods':>7} {'µs per pod':>12}")
    for row in rows:
        vain = " ".join(f"{row['vain_us'][name]:>15.1f}" for name in names)
        counts = f"{row['pods']:>7} {row['pods'] // row['templates']:>7} {row['groups']:>7}"
        each_us = row["us_per_woken_pod"]
        # One pod among ten thousand groups that are asked in vain is lost in the noise.
        print(f"{counts} | {vain} | {row['woken']:>7} {f'{each_us:.2f}' if each_us > 0 else '-':>12}")


async def _measure(pod_count: int, template_count: int) -> dict[str, Any]:
    scheduler = _scheduler()
    scheduler.deliver([Upsert(kinds.NODE, _node(f"full-{number}", cpu=1)) for number in range(20)])
    scheduler.deliver([Upsert(kinds.POD, _pod(number, template_count)) for number in range(pod_count)])
    scheduler.inbox.apply_all()
    while await scheduler.step():
        pass
    queue = scheduler.queue
    assert queue.parked.unschedulable_count == pod_count, "every pod is parked"

    small, other = _node("small", cpu=1), _node("small", cpu=1, pool="none")
    passing = _pod(-1, 1, cpu="1m", node_name="full-1", labels={"app": "nobody"})
    vain: dict[str, Callable[[], bool]] = {
        "node added": lambda: queue.move(events.NODE_ADD, None, small),
        "node relabelled": lambda: queue.move(ClusterEvent(NODE, ActionType.UPDATE_NODE_LABEL), small, other),
        "pod placed": lambda: queue.move(events.ASSIGNED_POD_ADD, None, passing),
        "volume added": lambda: queue.move(ClusterEvent("PersistentVolume", ActionType.ADD), None, None),
    }
    vain_us = {name: _median_us(event) for name, event in vain.items()}
    assert queue.parked.unschedulable_count == pod_count, "these events help nobody"

    groups = queue.parked.group_count
    roomy = _node("roomy", cpu=1_000, pool="pool-0", pods=100_000)
    scheduler.state.set_node(roomy)
    gc.collect()
    started_s = time.perf_counter()
    queue.move(events.NODE_ADD, None, roomy)
    took_s = time.perf_counter() - started_s
    woken = pod_count - queue.parked.unschedulable_count
    return {
        "pods": pod_count,
        "templates": template_count,
        "groups": groups,
        "vain_us": vain_us,
        "woken": woken,
        "us_per_woken_pod": (took_s * 1e6 - vain_us["node added"]) / max(woken, 1),
    }


def _median_us(event: Callable[[], object]) -> float:
    event()
    took_s = []
    for _ in range(_ROUNDS):
        started_s = time.perf_counter()
        event()
        took_s.append(time.perf_counter() - started_s)
    return statistics.median(took_s) * 1e6


def _scheduler() -> Scheduler:
    clock, metrics, state, chance = RealClock(), Metrics(), ClusterState(), Chance(1)
    port = World(clock)
    scheduler = Scheduler(state, port, clock, chance, metrics)
    runtimes = build_profiles(
        config.load(None),
        IN_TREE,
        state=state,
        port=port,
        control=scheduler,
        clock=clock,
        chance=chance,
        metrics=metrics,
    )
    scheduler.start_with(runtimes, initial_backoff_s=60.0, max_backoff_s=60.0)
    return scheduler


def _node(name: str, *, cpu: int, pool: str = "", pods: int = 110) -> Node:
    amounts = {"cpu": str(cpu), "memory": "1Ti", "pods": str(pods)}
    labels = {_HOST: name, _ZONE: "z", **({"pool": pool} if pool else {})}
    document = {"metadata": {"name": name, "labels": labels}, "status": {"capacity": amounts, "allocatable": amounts}}
    node: Node = codec.from_dict(kinds.NODE, document)
    return node


def _pod(
    number: int,
    template_count: int,
    *,
    cpu: str = "2",
    node_name: str = "",
    labels: dict[str, str] | None = None,
) -> Pod:
    """Of its template; template 0 of 20 is the one that a roomy node of pool-0 helps."""
    template = number % template_count
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}}],
        "nodeSelector": {"pool": f"pool-{template}"},
        "nodeName": node_name,
        "schedulerName": "default-scheduler",
    }
    labels = labels or {"app": f"app-{template}"}
    selector = {"matchLabels": labels}
    if template % 4 == 1:
        term = {"topologyKey": _HOST, "labelSelector": selector}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if template % 4 == 2:
        spec["topologySpreadConstraints"] = [
            {"maxSkew": 1, "topologyKey": _ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        ]
    if template % 4 == 3:
        spec["tolerations"] = [{"key": f"team-{template}", "operator": "Exists"}]
    metadata = {
        "name": f"pod-{number}",
        "namespace": "default",
        "uid": f"uid-{number}",
        "labels": labels,
        "resourceVersion": "1",
    }
    pod: Pod = codec.from_dict(kinds.POD, {"metadata": metadata, "spec": spec})
    return pod


if __name__ == "__main__":
    main()
