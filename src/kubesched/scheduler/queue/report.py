"""Queue and pods as plain data, for `/debug/queue` and `/debug/pods`: `kubesched queue` and `kubesched explain` on a
running scheduler.

A pod's report says where it is, what its last attempt came to, which events would wake it and when it is tried at the
latest. Values are JSON's; times are RFC 3339. What the offline explanation has, too, has the same name and shape here.
"""

from __future__ import annotations

from typing import Any

from kubesched.api.core import Pod
from kubesched.api.meta import format_time
from kubesched.framework.events import ActionType, ClusterEvent
from kubesched.scheduler.binding_cycle import Binding, Stage
from kubesched.scheduler.queue.hints import ANYTHING, HintTable
from kubesched.scheduler.queue.last_attempt import LastAttempt
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
    """A waiting pod: its entry, its place, its last attempt, what would wake it, and when it is tried next."""
    place = _place(queue, pod)
    report = {"queue": place} | _entry(pod)
    if pod.last_attempt is not None:
        report["lastAttempt"] = last_attempt(pod.last_attempt) | {"at": format_time(pod.timestamp)}
    if place == "active":
        report["position"] = next(index for index, each in enumerate(queue.active.in_order()) if each is pod)
        report["nextTry"] = {"when": "next" if report["position"] == 0 else "in its turn"}
    elif place == "backoff":
        report["nextTry"] = {"when": "its backoff is over", "at": format_time(pod.backoff_until), "orBefore": "idle"}
    elif place == "error backoff":
        report["nextTry"] = {"when": "its backoff is over", "at": format_time(pod.backoff_until)}
    else:
        report["wakes"] = wakes(queue.table(pod.pod.spec.scheduler_name), pod)
        report["nextTry"] = {"when": "one of these events comes", "latest": format_time(queue.flush_due(pod))}
        if pod.backoff_until > now:
            report["nextTry"]["notBefore"] = format_time(pod.backoff_until)
    return report


def in_flight_report(pod: QueuedPod) -> dict[str, Any]:
    """A pod whose scheduling cycle is not over: it waits for an extender."""
    report = {"queue": "in flight"} | _identity(pod) | {"attempts": pod.attempts}
    if pod.last_attempt is not None:
        report["lastAttempt"] = last_attempt(pod.last_attempt) | {"at": format_time(pod.timestamp)}
    return report


def binding_report(binding: Binding, since: float) -> dict[str, Any]:
    """A pod that has a node and is not bound yet; `since` is when its scheduling cycle began."""
    queued = binding.queued
    report = _identity(queued) | {
        "node": binding.node_name,
        "attempts": queued.attempts,
        "since": format_time(since),
        "stage": binding.stage.value,
    }
    waiting = binding.runtime.handle.waiting_pods.get(queued.uid)
    if binding.stage is Stage.PERMIT and waiting is not None:
        held = [{"plugin": plugin, "until": format_time(end)} for plugin, end in sorted(waiting.ends().items())]
        return {"queue": "waiting on permit"} | report | {"waitsFor": held}
    return {"queue": "binding"} | report


def placed_report(pod: Pod, node_name: str) -> dict[str, Any]:
    """A pod that counts on a node: bound, by whomever, or its binding is about to show on the watch."""
    report = {
        "queue": "bound" if pod.spec.node_name else "binding",
        "pod": pod.key,
        "uid": pod.metadata.uid,
        "profile": pod.spec.scheduler_name,
        "node": node_name,
    }
    condition = pod.condition("PodScheduled")
    if condition is not None and condition.status == "True" and condition.last_transition_time:
        report["since"] = condition.last_transition_time
    return report


def last_attempt(last: LastAttempt) -> dict[str, Any]:
    if last.is_error:
        failed = {"plugin": last.plugin} if last.plugin else {}
        return {"error": last.message, **failed}
    report: dict[str, Any] = {"message": last.message_before_preemption}
    if last.preemption:
        report["messageWithPreemption"] = last.message
    report["rejected"] = [
        {
            **({"plugin": group.plugin} if group.plugin else {}),
            "code": group.code.text,
            "reasons": sorted(group.reasons),
            "nodes": group.node_count,
        }
        for group in last.rejected
    ]
    if last.rejected_beyond:
        report["rejectedBeyond"] = last.rejected_beyond
    if last.preemption or last.nominated_node:
        helped = {"nominatedNode": last.nominated_node} if last.nominated_node else {}
        report["preemption"] = helped | ({"message": last.preemption} if last.preemption else {})
    return report


def wakes(table: HintTable, pod: QueuedPod) -> list[dict[str, Any]]:
    """Per plugin that the pod waits for: the events it listens to. A plugin may still say no to a single event."""
    found: list[dict[str, Any]] = []
    for plugin in sorted(table.waits_for(pod)):
        names = table.registered if plugin == ANYTHING else (plugin,)
        labels = {_label(entry.event) for name in names for entry in table.registered[name]}
        found.append({"plugin": plugin, "events": sorted(labels)})
    return found


def _label(event: ClusterEvent) -> str:
    """As in the metrics, but any update is one word: there are a dozen kinds of it."""
    if event.custom_label or ActionType.UPDATE not in event.action:
        return event.label
    actions = {"Add": ActionType.ADD, "Delete": ActionType.DELETE, "Update": ActionType.UPDATE}
    return event.resource + "|".join(name for name, action in actions.items() if action in event.action)


def _entry(pod: QueuedPod) -> dict[str, Any]:
    entry = _identity(pod) | {
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


def _identity(pod: QueuedPod) -> dict[str, Any]:
    return {"pod": pod.key, "uid": pod.uid, "profile": pod.pod.spec.scheduler_name}


def _place(queue: SchedulingQueue, pod: QueuedPod) -> str:
    if pod.uid in queue.parked:
        return "gated" if pod.gated_by else "unschedulable"
    if pod.uid in queue.active:
        return "active"
    return "backoff" if pod.rejected_by else "error backoff"
