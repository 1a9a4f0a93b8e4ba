"""StatefulSets: numbered pods with claims of their own, started and stopped in order unless told otherwise.

A rolling update replaces the pods from the highest number down to the partition, one after the other; pods below the
partition keep, and are made anew from, the version before.
"""

from __future__ import annotations

from kubesched.apiserver.controllers.base import PODS, PodOwner, apps, is_available, is_ready
from kubesched.apiserver.controllers.revisions import (
    HASH_LABEL,
    forget_revisions,
    keep_revision,
    revision_name,
    template_of,
)
from kubesched.apiserver.resources import core
from kubesched.apiserver.store import Json, Stored
from kubesched.workloads import claims_of, missing_stateful_pods, owner_reference

_SETS, _CLAIMS, _REVISIONS = apps("statefulsets"), core("persistentvolumeclaims"), apps("controllerrevisions")


class StatefulSets(PodOwner):
    name = "statefulset-controller"
    component = "statefulset-controller"
    owner = _SETS
    watched = (_SETS, PODS)

    def settle(self, key: str) -> None:
        stored = self.find(_SETS, key)
        if stored is None:
            return
        workload = stored.document()
        if "deletionTimestamp" not in workload["metadata"]:
            keep_revision(self, workload)
            self._bring_about(workload, self._numbered(workload))
        self._tell(stored, workload)

    def _numbered(self, workload: Json) -> dict[int, tuple[Stored, Json]]:
        base = workload["metadata"]["name"] + "-"
        return {
            int(stored.name.removeprefix(base)): (stored, pod)
            for stored, pod in self.own_pods(workload)
            if stored.name.removeprefix(base).isdecimal()
        }

    def _bring_about(self, workload: Json, pods: dict[int, tuple[Stored, Json]]) -> None:
        """Creates, ends and replaces pods; in order, no step is taken before the one before it is done."""
        spec = workload["spec"]
        in_order = spec["podManagementPolicy"] == "OrderedReady"
        start = (spec.get("ordinals") or {}).get("start", 0)
        end = start + spec["replicas"]
        for ordinal in range(start, end):
            if ordinal not in pods:
                self._create(workload, ordinal)
                if in_order:
                    return
                continue
            stored, pod = pods[ordinal]
            if pod["status"].get("phase") in ("Failed", "Succeeded") and "deletionTimestamp" not in pod["metadata"]:
                self.delete_pod(workload, stored)
                return
            if in_order and not self._healthy(workload, pod):
                return
        surplus = sorted((ordinal for ordinal in pods if not start <= ordinal < end), reverse=True)
        for ordinal in surplus:
            stored, pod = pods[ordinal]
            if "deletionTimestamp" not in pod["metadata"]:
                self.delete_pod(workload, stored)
            if in_order:
                return
        self._drop_claims(workload, set(pods), end)
        if not surplus and spec["updateStrategy"]["type"] == "RollingUpdate":
            self._update(workload, pods)

    def _update(self, workload: Json, pods: dict[int, tuple[Stored, Json]]) -> None:
        partition = (workload["spec"]["updateStrategy"].get("rollingUpdate") or {}).get("partition", 0)
        wanted = revision_name(workload)
        for ordinal in sorted(pods, reverse=True):
            if ordinal < partition:
                return
            stored, pod = pods[ordinal]
            if stored.labels.get(HASH_LABEL) != wanted:
                if "deletionTimestamp" not in pod["metadata"]:
                    self.delete_pod(workload, stored)
                return
            if not self._healthy(workload, pod):
                return

    def _create(self, workload: Json, ordinal: int) -> None:
        source = self._version_for(workload, ordinal)
        name = f"{workload['metadata']['name']}-{ordinal}"
        pod = next(pod for pod in missing_stateful_pods(source, ()) if pod["metadata"]["name"] == name)
        claims = self.api.store.of(_CLAIMS)
        retention = workload["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        for claim in claims_of({**workload, "spec": {**workload["spec"], "replicas": ordinal + 1}}, ()):
            meta = claim["metadata"]
            if meta["name"].endswith(f"-{name}") and claims.get(meta["namespace"], meta["name"]) is None:
                if retention.get("whenDeleted") == "Delete":
                    meta["ownerReferences"] = [owner_reference(workload)]
                self.create(_CLAIMS, claim)
                text = f"create Claim {meta['name']} Pod {name} in StatefulSet {workload['metadata']['name']} success"
                self.event(workload, "Normal", "SuccessfulCreate", text)
        self.create_pod(workload, pod)

    def _version_for(self, workload: Json, ordinal: int) -> Json:
        """The workload with the template that pod `ordinal` is made of: below the partition the version before."""
        strategy = workload["spec"]["updateStrategy"]
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        current = (workload.get("status") or {}).get("currentRevision", "")
        before = self.find(_REVISIONS, f"{workload['metadata']['namespace']}/{current}")
        if ordinal >= partition or before is None or current == revision_name(workload):
            return workload
        return {**workload, "spec": {**workload["spec"], "template": template_of(before)}}

    def _drop_claims(self, workload: Json, ordinals: set[int], end: int) -> None:
        """Claims of pods that a smaller set has lost, where the retention policy says so."""
        if (workload["spec"].get("persistentVolumeClaimRetentionPolicy") or {}).get("whenScaled") != "Delete":
            return
        base = workload["metadata"]["name"]
        for template in workload["spec"].get("volumeClaimTemplates") or ():
            prefix = f"{template['metadata']['name']}-{base}-"
            for claim in list(self.api.store.of(_CLAIMS).scan(workload["metadata"]["namespace"])):
                number = claim.name.removeprefix(prefix)
                ours = claim.name.startswith(prefix) and number.isdecimal()
                if ours and int(number) >= end and int(number) not in ordinals:
                    self.delete(_CLAIMS, claim)

    def _healthy(self, workload: Json, pod: Json) -> bool:
        if "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") != "Running":
            return False
        return is_available(pod, workload["spec"].get("minReadySeconds", 0), self.api.clock.now())

    def _tell(self, stored: Stored, workload: Json) -> None:
        pods = [pod.document() for pod in self.owners.owned(PODS, stored.uid)]
        live = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        min_ready_s, now_s = workload["spec"].get("minReadySeconds", 0), self.api.clock.now()
        update = revision_name(workload)
        before = workload.get("status") or {}
        current = before.get("currentRevision") or update

        def of(revision: str) -> int:
            return sum((pod["metadata"].get("labels") or {}).get(HASH_LABEL) == revision for pod in live)

        ready = sum(map(is_ready, live))
        if of(update) == len(live) == workload["spec"]["replicas"] == ready:
            current = update
        counts = {
            "observedGeneration": workload["metadata"].get("generation", 0),
            "replicas": len(live),
            "readyReplicas": ready,
            "currentReplicas": of(current),
            "updatedReplicas": of(update),
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": before.get("collisionCount", 0),
            "availableReplicas": sum(is_available(pod, min_ready_s, now_s) for pod in live),
        }
        shown = ("replicas", "availableReplicas", "collisionCount")
        document = stored.document()
        document["status"] = {name: value for name, value in counts.items() if value or name in shown}
        self.update_status(_SETS, stored, document)
        forget_revisions(self, workload, {update, current})
