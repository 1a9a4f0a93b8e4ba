"""Pods of nodes that are gone: nobody else would ever end them."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.apiserver.controllers.base import NODES, PODS, Controller, with_condition
from kubesched.apiserver.store import DELETED, Change

#: A node that comes back within this time finds its pods.
QUARANTINE_S = 40.0


class PodGarbage(Controller):
    name = "pod-garbage-collector-controller"
    watched = (NODES,)

    def existing(self) -> list[str]:
        return []

    def keys_of(self, change: Change) -> Iterator[str]:
        if change.type == DELETED:
            self.enqueue_later(change.stored.key, QUARANTINE_S)
        yield from ()

    def settle(self, key: str) -> None:
        if self.find(NODES, key) is not None:
            return
        for stored in self.api.store.of(PODS).on_node(key):
            pod = stored.document()
            if pod["status"].get("phase") not in ("Succeeded", "Failed"):
                pod["status"]["phase"] = "Failed"
            with_condition(
                pod,
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": self.api.now(),
                    "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists",
                },
            )
            marked = self.update_status(PODS, stored, pod)
            if marked is not None:
                self.delete(PODS, marked, grace_s=0)
