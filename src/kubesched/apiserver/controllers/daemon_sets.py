"""DaemonSets: one pod on every node that the template fits, and none elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.apiserver.controllers.base import NODES, PODS, PodOwner, amount, apps, is_available, is_ready
from kubesched.apiserver.controllers.revisions import HASH_LABEL, forget_revisions, keep_revision, revision_name
from kubesched.apiserver.store import Change, Json, Stored
from kubesched.workloads import daemon_node_of, missing_daemon_pods, template_hash

_SETS = apps("daemonsets")


class DaemonSets(PodOwner):
    name = "daemonset-controller"
    component = "daemonset-controller"
    owner = _SETS
    watched = (_SETS, PODS, NODES)

    def keys_of(self, change: Change) -> Iterator[str]:
        if not change.stored.body.startswith(NODES.prefix):
            yield from super().keys_of(change)
        elif (
            change.previous is None
            or change.type == "DELETED"
            or _placement(change.previous) != _placement(change.stored)
        ):
            yield from list(self.api.store.of(_SETS).items)

    def settle(self, key: str) -> None:
        stored = self.find(_SETS, key)
        if stored is None:
            return
        workload = stored.document()
        pods = self.own_pods(workload)
        nodes = [node.document() for node in self.api.store.of(NODES).items.values()]
        wanted = {daemon_node_of(pod): pod for pod in missing_daemon_pods(workload, (), nodes)}
        if "deletionTimestamp" not in workload["metadata"]:
            keep_revision(self, workload)
            self._place(workload, pods, wanted)
        self._tell(stored, workload, set(wanted))

    def _place(self, workload: Json, pods: list[tuple[Stored, Json]], wanted: dict[str, Json]) -> None:
        held: set[str] = set()
        for stored, pod in pods:
            node = daemon_node_of(pod)
            if "deletionTimestamp" in pod["metadata"]:
                held.add(node)
            elif node not in wanted or node in held or pod["status"].get("phase") in ("Failed", "Succeeded"):
                self.delete_pod(workload, stored)
            else:
                held.add(node)
        for node, pod in wanted.items():
            if node not in held:
                pod["metadata"]["generateName"] = f"{workload['metadata']['name']}-"
                del pod["metadata"]["name"]
                self.create_pod(workload, pod)
        if workload["spec"]["updateStrategy"]["type"] == "RollingUpdate":
            self._update(workload, [(s, p) for s, p in pods if daemon_node_of(p) in wanted], len(wanted))

    def _update(self, workload: Json, pods: list[tuple[Stored, Json]], wanted: int) -> None:
        """Old pods make way as far as maxUnavailable lets them; those that do not run anyway go first."""
        rolling = workload["spec"]["updateStrategy"].get("rollingUpdate") or {}
        room = max(amount(rolling.get("maxUnavailable", 1), wanted, up=True), 1)
        version = template_hash(workload["spec"]["template"])
        min_ready_s, now_s = workload["spec"].get("minReadySeconds", 0), self.api.clock.now()

        def works(pod: Json) -> bool:
            return "deletionTimestamp" not in pod["metadata"] and is_available(pod, min_ready_s, now_s)

        missing = wanted - sum(works(pod) for _, pod in pods)
        old = [
            (s, p) for s, p in pods if s.labels.get(HASH_LABEL) != version and "deletionTimestamp" not in p["metadata"]
        ]
        for stored, pod in sorted(old, key=lambda entry: works(entry[1])):
            if works(pod):
                if missing >= room:
                    return
                missing += 1
            self.delete_pod(workload, stored)

    def _tell(self, stored: Stored, workload: Json, wanted: set[str]) -> None:
        pods = [pod.document() for pod in self.owners.owned(PODS, stored.uid)]
        placed = [pod for pod in pods if pod["spec"].get("nodeName")]
        right = [pod for pod in placed if pod["spec"]["nodeName"] in wanted]
        version = template_hash(workload["spec"]["template"])
        min_ready_s, now_s = workload["spec"].get("minReadySeconds", 0), self.api.clock.now()
        available = sum(is_available(pod, min_ready_s, now_s) for pod in right)
        counts = {
            "currentNumberScheduled": len({pod["spec"]["nodeName"] for pod in right}),
            "numberMisscheduled": len(placed) - len(right),
            "desiredNumberScheduled": len(wanted),
            "numberReady": sum(map(is_ready, right)),
            "observedGeneration": workload["metadata"].get("generation", 0),
            "updatedNumberScheduled": sum(
                (pod["metadata"].get("labels") or {}).get(HASH_LABEL) == version for pod in right
            ),
            "numberAvailable": available,
            "numberUnavailable": len(wanted) - available,
        }
        always = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
        document = stored.document()
        document["status"] = {name: count for name, count in counts.items() if count or name in always}
        self.update_status(_SETS, stored, document)
        forget_revisions(self, workload, {revision_name(workload)})


def _placement(node: Stored) -> object:
    document = node.document()
    return node.labels, document.get("spec")
