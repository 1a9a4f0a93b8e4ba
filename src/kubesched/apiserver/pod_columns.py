"""READY, STATUS and RESTARTS of a pod: a summary over its containers that people read as the pod's state."""

from __future__ import annotations

from kubesched.apiserver.durations import human
from kubesched.apiserver.metadata import epoch
from kubesched.apiserver.store import Json

_FINISHED = {
    "Succeeded": {
        "type": "Completed",
        "status": "True",
        "reason": "Succeeded",
        "message": "The pod has completed successfully.",
    },
    "Failed": {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."},
}


def pod_ready(pod: Json) -> str:
    statuses = pod["status"].get("containerStatuses") or ()
    total = len(pod["spec"].get("containers") or ()) + len(_sidecars(pod))
    ready = sum(bool(s.get("ready")) for s in statuses)
    sidecars = _sidecars(pod)
    ready += sum(
        bool(s.get("ready")) for s in pod["status"].get("initContainerStatuses") or () if s["name"] in sidecars
    )
    return f"{ready}/{total}"


def pod_status(pod: Json) -> str:
    status = pod["status"]
    reason = status.get("reason") or status.get("phase", "Unknown")
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    initializing, reason = _initializing(pod, reason)
    if not initializing:
        reason = _from_containers(pod, reason)
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return str(reason)


def pod_restarts(pod: Json, now: float) -> str:
    sidecars = _sidecars(pod)
    statuses = list(pod["status"].get("containerStatuses") or ())
    initial = pod["status"].get("initContainerStatuses") or ()
    statuses += [s for s in initial if s["name"] in sidecars or not statuses]
    count = sum(s.get("restartCount", 0) for s in statuses)
    ends = [
        terminated["finishedAt"]
        for s in statuses
        if (terminated := (s.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
    ]
    if count and ends:
        return f"{count} ({human(now - max(epoch(text) for text in ends))} ago)"
    return str(count)


def pod_conditions(pod: Json) -> list[Json]:
    found = _FINISHED.get(pod["status"].get("phase", ""))
    return [dict(found)] if found else []


def _sidecars(pod: Json) -> set[str]:
    return {c["name"] for c in pod["spec"].get("initContainers") or () if c.get("restartPolicy") == "Always"}


def _initializing(pod: Json, reason: str) -> tuple[bool, str]:
    sidecars, initial = _sidecars(pod), pod["spec"].get("initContainers") or ()
    for index, status in enumerate(pod["status"].get("initContainerStatuses") or ()):
        state = status.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if status["name"] in sidecars and status.get("started"):
            continue
        if terminated is not None:
            return True, "Init:" + _ended(terminated)
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return True, "Init:" + waiting["reason"]
        return True, f"Init:{index}/{len(initial)}"
    return False, reason


def _from_containers(pod: Json, reason: str) -> str:
    running = False
    for status in reversed(pod["status"].get("containerStatuses") or ()):
        state = status.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            reason = _ended(state["terminated"])
        elif "running" in state and status.get("ready"):
            running = True
    if reason == "Completed" and running:
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())
        return "Running" if ready else "NotReady"
    return reason


def _ended(terminated: Json) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"
