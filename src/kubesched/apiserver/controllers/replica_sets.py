"""ReplicaSets and ReplicationControllers: as many pods as wanted, and a status that tells how they are."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from kubesched.apiserver.controllers.base import PODS, PodOwner, apps, is_available, is_ready, ready_for_s
from kubesched.apiserver.metadata import epoch
from kubesched.apiserver.resources import Resource, core
from kubesched.apiserver.store import Json, Stored
from kubesched.workloads import is_active, missing_replicas

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


class ReplicaSets(PodOwner):
    name = "replicaset-controller"
    component = "replicaset-controller"
    owner: ClassVar[Resource] = apps("replicasets")
    watched = (owner, PODS)

    def settle(self, key: str) -> None:
        stored = self.find(self.owner, key)
        if stored is None:
            return
        replica_set = stored.document()
        pods = self.own_pods(replica_set)
        if "deletionTimestamp" not in replica_set["metadata"]:
            self._scale(replica_set, pods)
            stored = self.find(self.owner, key)
            assert stored is not None
        self._tell(stored, replica_set)

    def _scale(self, replica_set: Json, pods: list[tuple[Stored, Json]]) -> None:
        for pod in missing_replicas(replica_set, [document for _, document in pods]):
            pod["metadata"]["generateName"] = f"{replica_set['metadata']['name']}-"
            del pod["metadata"]["name"]
            self.create_pod(replica_set, pod)
        active = [(stored, document) for stored, document in pods if is_active(document)]
        surplus = len(active) - replica_set["spec"].get("replicas", 1)
        if surplus > 0:
            for stored in leaving_first(active, self.api.clock.now())[:surplus]:
                self.delete_pod(replica_set, stored)

    def _tell(self, stored: Stored, replica_set: Json) -> None:
        """Writes the status from the pods as they are now."""
        pods = [pod.document() for pod in self.owners.owned(PODS, stored.uid)]
        active = [pod for pod in pods if is_active(pod)]
        template = (replica_set["spec"].get("template", {}).get("metadata") or {}).get("labels") or {}
        labelled = [pod for pod in active if template.items() <= (pod["metadata"].get("labels") or {}).items()]
        min_ready_s, now_s = replica_set["spec"].get("minReadySeconds", 0), self.api.clock.now()
        counts = {
            "replicas": len(active),
            "fullyLabeledReplicas": len(labelled),
            "readyReplicas": sum(map(is_ready, active)),
            "availableReplicas": sum(is_available(pod, min_ready_s, now_s) for pod in active),
        }
        status = {name: count for name, count in counts.items() if count or name == "replicas"}
        if self.owner.group:
            status["terminatingReplicas"] = sum("deletionTimestamp" in pod["metadata"] for pod in pods)
        status["observedGeneration"] = replica_set["metadata"].get("generation", 0)
        if "conditions" in (replica_set.get("status") or {}):
            status["conditions"] = replica_set["status"]["conditions"]
        document = stored.document()
        document["status"] = status
        self.update_status(self.owner, stored, document)
        waiting = [min_ready_s - ready_for_s(pod, now_s) for pod in active if is_ready(pod)]
        if any(wait_s > 0 for wait_s in waiting):
            self.enqueue_later(stored.key, min(wait_s for wait_s in waiting if wait_s > 0))


class ReplicationControllers(ReplicaSets):
    name = "replicationcontroller-controller"
    component = "replication-controller"
    owner: ClassVar[Resource] = core("replicationcontrollers")
    watched = (owner, PODS)


def leaving_first(pods: list[tuple[Stored, Json]], now_s: float) -> list[Stored]:
    """The pods, those first that are missed least: not yet placed, not ready, cheap to delete, crowded, young."""
    on_node = Counter(document["spec"].get("nodeName", "") for _, document in pods)

    def rank(entry: tuple[Stored, Json]) -> tuple[Any, ...]:
        pod = entry[1]
        node, status = pod["spec"].get("nodeName", ""), pod["status"]
        restarts = sum(c.get("restartCount", 0) for c in status.get("containerStatuses") or ())
        return (
            bool(node),
            _PHASES.get(status.get("phase", ""), 1),
            is_ready(pod),
            int((pod["metadata"].get("annotations") or {}).get(_DELETION_COST, "0")),
            -on_node[node],
            ready_for_s(pod, now_s),
            -restarts,
            -epoch(pod["metadata"]["creationTimestamp"]),
        )

    return [stored for stored, _ in sorted(pods, key=rank)]
