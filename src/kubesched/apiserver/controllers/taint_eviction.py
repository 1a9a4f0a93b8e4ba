"""Pods leave nodes whose NoExecute taints they do not tolerate, at once or when their toleration has run out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesched.apiserver.controllers.base import NODES, PODS, Controller, with_condition
from kubesched.apiserver.controllers.owners import OwnerIndex
from kubesched.apiserver.metadata import epoch
from kubesched.apiserver.store import DELETED, Change, Json, Stored

_NODE = PODS.field_labels.index("spec.nodeName")


class TaintEviction(Controller):
    name = "taint-eviction-controller"
    component = "taint-eviction-controller"
    watched = (NODES, PODS)

    def __init__(self, api: Any, owners: OwnerIndex) -> None:
        super().__init__(api, owners)
        self._taints: dict[str, list[Json]] = {}

    def existing(self) -> Iterator[str]:
        for node in self.api.store.of(NODES).items.values():
            yield from self._node_changed(node, gone=False)

    def keys_of(self, change: Change) -> Iterator[str]:
        stored = change.stored
        if stored.body.startswith(NODES.prefix):
            yield from self._node_changed(stored, gone=change.type == DELETED)
        elif stored.fields[_NODE] in self._taints and change.type != DELETED:
            yield stored.key

    def _node_changed(self, node: Stored, *, gone: bool) -> Iterator[str]:
        taints = [] if gone or b'"NoExecute"' not in node.body else node.document()["spec"].get("taints") or ()
        taints = [taint for taint in taints if taint["effect"] == "NoExecute"]
        if taints == self._taints.get(node.name, []):
            return
        if taints:
            self._taints[node.name] = taints
        else:
            self._taints.pop(node.name, None)
        yield from (pod.key for pod in self.api.store.of(PODS).on_node(node.name))

    def settle(self, key: str) -> None:
        stored = self.find(PODS, key)
        if stored is None or b'"deletionTimestamp"' in stored.body:
            return
        pod = stored.document()
        stays_s = _stays_s(pod, self._taints.get(stored.fields[_NODE], ()), self.api.clock.now())
        if stays_s is None:
            return
        if stays_s > 0:
            self.enqueue_later(key, stays_s)
            return
        self.event(pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {key}")
        with_condition(
            pod,
            {
                "type": "DisruptionTarget",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": self.api.now(),
                "reason": "DeletionByTaintManager",
                "message": "Taint manager: deleting due to NoExecute taint",
            },
        )
        marked = self.update_status(PODS, stored, pod)
        if marked is not None:
            self.delete(PODS, marked)


def _stays_s(pod: Json, taints: Any, now_s: float) -> float | None:
    """How long the pod may stay under these taints; None for ever."""
    left: list[float] = []
    for taint in taints:
        tolerating = [t for t in pod["spec"].get("tolerations") or () if _tolerates(t, taint)]
        if not tolerating:
            return 0.0
        seconds = [t["tolerationSeconds"] for t in tolerating if t.get("tolerationSeconds") is not None]
        if seconds:
            since = epoch(taint["timeAdded"]) if taint.get("timeAdded") else now_s
            left.append(since + max(min(seconds), 0) - now_s)
    return min(left, default=None)


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return bool(toleration.get("key") == taint["key"]) and toleration.get("value", "") == taint.get("value", "")
