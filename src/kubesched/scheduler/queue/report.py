"""The queue as plain data, for `/debug/queue`, `kubesched queue` and `kubesched explain` on a running scheduler.

A pod's entry says where it waits, what its last attempt came to, which events would wake it and when it is tried at the
latest. Values are JSON's; times are RFC 3339.
"""

from __future__ import annotations

from typing import Any

from kubesched.api.meta import format_time
from kubesched.scheduler.queue.hints import ANYTHING, HintTable
from kubesched.scheduler.queue.queued_pod import QueuedPod
from kubesched.scheduler.queue.scheduling_queue import SchedulingQueue

#: Queues in the order in which their pods get their turn.
QUEUES = ("active", "backoff", "unschedulable", "gated")


def queue_report(queue: SchedulingQueue, now: float) -> dict[str, Any]:
    """Every queue with its pods in order of their turn, and the UIDs of those in flight."""
    return {
        "time": format_time(now),
        "active": [_entry(pod) | {"position": place} for place, pod in enumerate(queue.active.in_order())],
        "backoff": [_entry(pod) for pod in queue.backoff.in_order()],
        "unschedulable": [_entry(pod) for pod in queue.parked if not pod.gated_by],
        "gated": [_entry(pod) for pod in queue.parked if pod.gated_by],
        "inFlight": list(queue.in_flight),
    }


def pod_report(queue: SchedulingQueue, pod: QueuedPod, now: float) -> dict[str, Any]:
    """A waiting pod: its entry, its place, what would wake it, and when it is tried next."""
    place = _place(queue, pod)
    report = {"time": format_time(now), "queue": place} | _entry(pod)
    if place == "active":
        report["position"] = next(index for index, each in enumerate(queue.active.in_order()) if each is pod)
        report["nextTry"] = {"when": "next" if report["position"] == 0 else "in its turn"}
    elif place == "backoff":
        early = "or before, when nothing else is to do" if pod.rejected_by else ""
        report["nextTry"] = {"when": "its backoff is over", "at": format_time(pod.backoff_until), "note": early}
    else:
        report["wakes"] = wakes(queue.table(pod.pod.spec.scheduler_name), pod)
        report["nextTry"] = {"when": "one of these events comes", "latest": format_time(queue.flush_due(pod))}
    return report


def wakes(table: HintTable, pod: QueuedPod) -> list[dict[str, Any]]:
    """Per plugin that the pod waits for: the events it listens to. A plugin may still say no to a single event."""
    found: list[dict[str, Any]] = []
    for plugin in sorted(table.waits_for(pod)):
        names = table.registered if plugin == ANYTHING else (plugin,)
        labels = {entry.event.label for name in names for entry in table.registered[name]}
        found.append({"plugin": plugin, "events": sorted(labels)})
    return found


def _entry(pod: QueuedPod) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "pod": pod.key,
        "uid": pod.uid,
        "profile": pod.pod.spec.scheduler_name,
        "priority": pod.pod_info.priority,
        "attempts": pod.attempts,
        "since": format_time(pod.timestamp),
        "rejectedBy": sorted(pod.rejected_by | {pod.gated_by} if pod.gated_by else pod.rejected_by),
        "message": pod.last_message,
    }
    if pod.pending_plugins:
        entry["pendingOn"] = sorted(pod.pending_plugins)
    if pod.gated_by:
        entry["gatedBy"] = pod.gated_by
    if pod.backoff_until:
        entry["backoffUntil"] = format_time(pod.backoff_until)
    if pod.first_attempt is not None:
        entry["firstQueued"] = format_time(pod.first_attempt)
    return entry


def _place(queue: SchedulingQueue, pod: QueuedPod) -> str:
    if pod.uid in queue.parked:
        return "gated" if pod.gated_by else "unschedulable"
    return "active" if pod.uid in queue.active else "backoff"
