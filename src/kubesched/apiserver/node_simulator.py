"""Plays the kubelets: a pod bound to a node starts to run, a pod that is being deleted ends within its grace.

It is a watcher of the store in the same process. It acts one turn of the loop later, so that a client sees the binding
before the pod runs, and it writes as any client would: a new version on top of the current one. Finished pods are left
alone. A pod bound to a node that does not exist is not started, as no kubelet would. Pods of Jobs succeed a few seconds
after they began to run; the annotation `simulator.kubesched.io/run-seconds` says so of any pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesched.apiserver import metadata
from kubesched.apiserver.deleting import Options, delete_object
from kubesched.apiserver.resources import core
from kubesched.apiserver.store import DELETED, Change, Json, Stored
from kubesched.clock import Timer

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

_PODS = core("pods")
_NODE, _PHASE = _PODS.field_labels.index("spec.nodeName"), _PODS.field_labels.index("status.phase")
RUN_SECONDS = "simulator.kubesched.io/run-seconds"
_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


class NodeSimulator:
    """`start_s` is the time from binding to Running, `stop_s` the time that a pod needs to end (within its grace),
    `job_s` how long the pods of Jobs run."""

    def __init__(self, api: Api, *, start_s: float = 0.0, stop_s: float = 0.0, job_s: float = 5.0) -> None:
        self._api = api
        self._start_s = start_s
        self._stop_s = stop_s
        self._job_s = job_s
        self._timers: dict[str, Timer] = {}
        self._stopping: set[str] = set()
        self._addresses = 0

    def start(self) -> None:
        """Takes up the pods that exist and watches for others."""
        collection = self._api.store.of(_PODS)
        collection.add_watcher(self)
        for stored in list(collection.items.values()):
            self._consider(stored)

    def stop(self) -> None:
        collection = self._api.store.of(_PODS)
        collection.remove_watcher(self)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def offer(self, change: Change) -> None:
        if change.type == DELETED:
            self._stopping.discard(change.stored.uid)
            timer = self._timers.pop(change.stored.uid, None)
            if timer is not None:
                timer.cancel()
        else:
            self._consider(change.stored)

    def _consider(self, stored: Stored) -> None:
        node, phase = stored.fields[_NODE], stored.fields[_PHASE]
        if not node:
            return
        if b'"deletionTimestamp"' in stored.body:
            if stored.uid not in self._stopping:
                self._stopping.add(stored.uid)
                self._later(self._stop_s, stored)
        elif stored.uid in self._timers:
            return
        elif phase == "Pending":
            self._later(self._start_s, stored)
        elif phase == "Running":
            run_s = self._run_s(stored)
            if run_s is not None:
                self._later(run_s, stored)

    def _run_s(self, stored: Stored) -> float | None:
        """How long the pod runs until it succeeds, None for ever."""
        if RUN_SECONDS.encode() in stored.body:
            told = (stored.document()["metadata"].get("annotations") or {}).get(RUN_SECONDS)
            try:
                return float(told or "")
            except ValueError:
                return None
        return self._job_s if b'"kind":"Job"' in stored.body else None

    def _later(self, delay_s: float, stored: Stored) -> None:
        earlier = self._timers.pop(stored.uid, None)
        if earlier is not None:
            earlier.cancel()
        self._timers[stored.uid] = self._api.clock.call_later(delay_s, self._act, stored.key, stored.uid)

    def _act(self, key: str, uid: str) -> None:
        self._timers.pop(uid, None)
        self._stopping.discard(uid)
        stored = self._api.store.of(_PODS).items.get(key)
        if stored is None or stored.uid != uid:
            return
        pod = stored.document()
        if "deletionTimestamp" in pod["metadata"]:
            if not pod["metadata"].get("finalizers"):
                delete_object(self._api, _PODS, stored, Options(grace_s=0))
        elif pod["status"].get("phase") == "Pending" and pod["spec"].get("nodeName"):
            node = self._api.get("nodes", "", pod["spec"]["nodeName"])
            if node is not None:
                pod["status"] = self._running(pod, node)
                self._api.store.update(_PODS, stored, pod)
        elif pod["status"].get("phase") == "Running" and self._run_s(stored) is not None:
            pod["status"] = self._succeeded(pod)
            self._api.store.update(_PODS, stored, pod)

    def _running(self, pod: Json, node: Stored) -> Json:
        now = metadata.timestamp(self._api.clock.now())
        self._addresses += 1
        n = self._addresses
        ip = f"10.{64 + (n >> 16) % 128}.{(n >> 8) & 255}.{n & 255}"
        host_ip = _internal_ip(node)
        if pod["spec"].get("hostNetwork"):
            ip = host_ip
        before = {c["type"]: c for c in pod["status"].get("conditions") or ()}
        conditions = [
            before.get(type_)
            if type_ == "PodScheduled" and type_ in before
            else {"type": type_, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
            for type_ in _CONDITIONS
        ]
        kept = [c for type_, c in before.items() if type_ not in _CONDITIONS]
        return {
            **pod["status"],
            "phase": "Running",
            "conditions": [*conditions, *kept],
            "hostIP": host_ip,
            "hostIPs": [{"ip": host_ip}],
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "startTime": now,
            "containerStatuses": [_container_status(c, now) for c in pod["spec"].get("containers") or ()],
        }

    def _succeeded(self, pod: Json) -> Json:
        now = metadata.timestamp(self._api.clock.now())
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": pod["status"].get("startTime", now)}
        state = {"terminated": {**ended, "finishedAt": now}}
        conditions = []
        for condition in pod["status"].get("conditions") or ():
            if condition["type"] in ("Ready", "ContainersReady"):
                condition = {**condition, "status": "False", "reason": "PodCompleted", "lastTransitionTime": now}
            conditions.append(condition)
        containers = [
            {**container, "ready": False, "started": False, "state": state}
            for container in pod["status"].get("containerStatuses") or ()
        ]
        return {**pod["status"], "phase": "Succeeded", "conditions": conditions, "containerStatuses": containers}


def _internal_ip(node: Stored) -> str:
    addresses = node.document()["status"].get("addresses") or ()
    return next((a["address"] for a in addresses if a["type"] == "InternalIP"), "10.0.0.1")


def _container_status(container: Json, now: str) -> Json:
    return {
        "name": container["name"],
        "state": {"running": {"startedAt": now}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": container.get("image", ""),
        "imageID": "",
        "started": True,
    }
