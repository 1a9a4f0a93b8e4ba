"""What the scheduler holds, for people: queue, cache and pods as data, and the cache compared with the API server.

SIGUSR2 writes queue and cache to the log and compares; `/debug/queue`, `/debug/cache` and `/debug/pods` show them as
JSON. The comparison lists nodes and pods afresh. The scheduler goes on meanwhile, so what differs at a first look is
looked at again, and only what still differs is reported.
"""

from __future__ import annotations

import logging
from typing import Any, Final
from urllib.parse import quote

from kubesched.api import codec, kinds
from kubesched.api.core import Pod
from kubesched.api.errors import ApiError
from kubesched.client.reflector import UNFINISHED_PODS
from kubesched.client.rest import ApiClient
from kubesched.clock import Clock
from kubesched.scheduler.scheduler import Scheduler
from kubesched.state import consistency

log = logging.getLogger("kubesched.app")

_LOOKS: Final = 3
_PAUSE_S: Final = 1.0
_PAGE: Final = 5000


def queue_dump(scheduler: Scheduler) -> dict[str, Any]:
    return {"leads": scheduler.has_started} | scheduler.queue_report()


async def pod_dump(scheduler: Scheduler, client: ApiClient, namespace: str, name: str) -> dict[str, Any] | None:
    """Where the pod is and why; None when there is none of that name.

    The scheduler drops what is not its own to place, and what has ended: the API server is asked about those. Raises
    ApiError and TransportError.
    """
    found = scheduler.pod_report(namespace, name)
    if found is None:
        live = await _live_pod(client, namespace, name)
        found = scheduler.pod_report(namespace, name)  # it may have arrived meanwhile
        if found is None and live is not None:
            found = _others_report(scheduler, live)
    return {"leads": scheduler.has_started} | found if found is not None else None


def _others_report(scheduler: Scheduler, pod: Pod) -> dict[str, Any]:
    """A pod that the scheduler keeps nothing about."""
    report = {"pod": pod.key, "uid": pod.metadata.uid, "profile": pod.spec.scheduler_name}
    if pod.spec.node_name:
        report["node"] = pod.spec.node_name
    if pod.is_terminal:
        return {"queue": "ended"} | report | {"phase": pod.status.phase}
    if pod.spec.scheduler_name not in scheduler.runtimes:
        return {"queue": "foreign"} | report | {"profiles": sorted(scheduler.runtimes)}
    return {"queue": "not seen yet"} | report


async def _live_pod(client: ApiClient, namespace: str, name: str) -> Pod | None:
    try:
        body = await client.get(kinds.POD.path(namespace, name))
    except ApiError as error:
        if error.code == 404:
            return None
        raise
    pod: Pod = codec.decode(kinds.POD, body)
    return pod


def cache_dump(scheduler: Scheduler) -> dict[str, Any]:
    state = scheduler.state
    return {
        "nodes": [
            {
                "name": info.name,
                "known": info.node is not None,
                "pods": sorted(pod.key for pod in info.pods.values()),
                "requested": dict(sorted(info.requested.items())),
                "allocatable": dict(sorted(info.allocatable.items())),
            }
            for info in state.nodes.by_name.values()
        ],
        "assumedPods": sorted(placed.pod.key for placed in state.placements.values() if placed.assumed),
        "nominatedPods": {name: sorted(pod.key for pod in pods.values()) for name, pods in state.nominator.by_node()},
    }


def log_dump(scheduler: Scheduler) -> None:
    queue = queue_dump(scheduler)
    log.info(
        "dump of the queue active=%d backoff=%d unschedulable=%d gated=%d in_flight=%d binding=%d",
        len(queue["active"]), len(queue["backoff"]), len(queue["unschedulable"]), len(queue["gated"]),
        len(queue["inFlight"]), queue["binding"],
    )  # fmt: skip
    for name in ("active", "backoff", "unschedulable", "gated"):
        for pod in queue[name]:
            log.info(
                "dump of a pending pod queue=%s pod=%s attempts=%d rejected_by=%s message=%s",
                name, pod["pod"], pod["attempts"], ",".join(pod["rejectedBy"]), pod["message"],
            )  # fmt: skip
    cache = cache_dump(scheduler)
    log.info("dump of the cache nodes=%d assumed_pods=%d", len(cache["nodes"]), len(cache["assumedPods"]))
    for node in cache["nodes"]:
        requested = ",".join(f"{resource}:{amount}" for resource, amount in node["requested"].items())
        log.info("dump of a node node=%s pods=%d requested=%s", node["name"], len(node["pods"]), requested or "-")


async def compare(client: ApiClient, scheduler: Scheduler, clock: Clock) -> list[str]:
    """What differs between cache and API server, and within the cache; empty when all is well."""
    findings: set[str] | None = None
    for look in range(_LOOKS):
        if look:
            await clock.sleep(_PAUSE_S)
        found = set(await _differences(client, scheduler))
        findings = found if findings is None else findings & found
        if not findings:
            break
    return sorted(findings or ()) + consistency.check(scheduler.state)


async def dump_and_compare(client: ApiClient, scheduler: Scheduler, clock: Clock) -> None:
    """For SIGUSR2: everything to the log."""
    log_dump(scheduler)
    findings = await compare(client, scheduler, clock)
    for finding in findings:
        log.error("cache differs from the API server finding=%s", finding)
    if not findings:
        state = scheduler.state
        log.info("cache equals the API server nodes=%d pods=%d", state.nodes.row_count, len(state.placements))


async def _differences(client: ApiClient, scheduler: Scheduler) -> list[str]:
    state = scheduler.state
    nodes = {node.metadata.name for node in await _list(client, kinds.NODE)}
    known = {info.name for info in state.nodes.infos}
    findings = [f"node {name} is missing in the cache" for name in nodes - known]
    findings += [f"node {name} is in the cache only" for name in known - nodes]
    placed, pending = {}, {}
    ours = scheduler.runtimes.keys()
    for pod in await _list(client, kinds.POD, f"fieldSelector={quote(UNFINISHED_PODS)}"):
        if pod.spec.node_name:
            placed[pod.metadata.uid] = pod
        elif pod.spec.scheduler_name in ours:
            pending[pod.metadata.uid] = pod
    for uid, pod in placed.items():
        node_name = state.node_of(uid)
        if node_name != pod.spec.node_name:
            findings.append(f"pod {pod.key} is on {pod.spec.node_name}, the cache has it on {node_name or 'no node'}")
    for uid, placement in state.placements.items():
        if uid not in placed and not (placement.assumed and uid in pending):
            findings.append(f"pod {placement.pod.key} is in the cache only, on {placement.node_name}")
    tracked = scheduler.handlers.pending
    findings += [f"pending pod {pod.key} is missing in the queue" for uid, pod in pending.items() if uid not in tracked]
    findings += [f"pod {pod.key} is in the queue only" for uid, pod in tracked.items() if uid not in pending]
    return findings


async def _list(client: ApiClient, kind: kinds.Kind, query: str = "") -> list[Any]:
    objects: list[Any] = []
    token = ""
    while True:
        parameters = "&".join(part for part in (query, f"limit={_PAGE}", token and f"continue={quote(token)}") if part)
        page = codec.decode_list(kind, await client.get(f"{kind.path()}?{parameters}"))
        objects += page.items
        token = page.continue_token
        if not token:
            return objects
