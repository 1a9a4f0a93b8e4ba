"""Deployments: a ReplicaSet for each version of the template, and the way from the old ones to the new one.

The numbers follow the strategy: a rolling update never has more pods than wanted plus maxSurge, nor fewer available
ones than wanted minus maxUnavailable; Recreate waits until the old pods are gone. Annotations, conditions and their
wording are those that `kubectl rollout` reads.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from kubesched.apiserver.controllers.base import PODS, Controller, amount, apps, condition, with_condition
from kubesched.apiserver.controllers.owners import OwnerIndex
from kubesched.apiserver.metadata import epoch
from kubesched.apiserver.store import Change, Json, Stored
from kubesched.workloads import is_active, replica_set_of

_SETS, _DEPLOYMENTS = apps("replicasets"), apps("deployments")
HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_HISTORY = "deployment.kubernetes.io/revision-history"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MAX = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = (REVISION, _HISTORY, _DESIRED, _MAX, "kubectl.kubernetes.io/last-applied-configuration")

ReplicaSet = tuple[Stored, Json]


class Deployments(Controller):
    name = "deployment-controller"
    component = "deployment-controller"
    watched = (_DEPLOYMENTS, _SETS, PODS)

    def keys_of(self, change: Change) -> Iterator[str]:
        stored = change.stored
        if stored.body.startswith(_DEPLOYMENTS.prefix):
            yield stored.key
        elif stored.body.startswith(_SETS.prefix):
            yield from self._owner(self.owners, stored)
        elif change.type == "DELETED":  # Recreate waits for pods to be gone
            reference = self.owners.controller_of(stored)
            owner = self.find(_SETS, f"{stored.namespace}/{reference.name}") if reference is not None else None
            if owner is not None:
                yield from self._owner(self.owners, owner)

    def _owner(self, owners: OwnerIndex, replica_set: Stored) -> Iterator[str]:
        reference = owners.controller_of(replica_set)
        if reference is not None and reference.kind == "Deployment":
            yield f"{replica_set.namespace}/{reference.name}"

    def settle(self, key: str) -> None:
        stored = self.find(_DEPLOYMENTS, key)
        if stored is None:
            return
        deployment = stored.document()
        sets = self.owners.claim(_SETS, deployment, deployment["spec"].get("selector"))
        if "deletionTimestamp" in deployment["metadata"]:
            self._tell(key)
            return
        new = _current(deployment, sets)
        old = [entry for entry in sets if entry is not new]
        if deployment["spec"].get("paused"):
            self._scale_in_proportion(deployment, sets)
        else:
            if deployment["spec"]["strategy"]["type"] != "Recreate" or self._all_gone(old):
                new = self._take_new(deployment, new, old)
            if _wanted_changed(deployment, sets):
                self._scale_in_proportion(deployment, [e for e in (new, *old) if e is not None])
            elif deployment["spec"]["strategy"]["type"] == "Recreate":
                self._recreate(deployment, new, old)
            elif new is not None:
                self._roll(deployment, new, old)
        self._forget(deployment)
        self._tell(key)

    # The new ReplicaSet and its revision.

    def _take_new(self, deployment: Json, new: ReplicaSet | None, old: list[ReplicaSet]) -> ReplicaSet:
        """The ReplicaSet of the present template, made when there is none, with the next revision number."""
        newest = max((_revision(document) for _, document in old), default=0)
        revision = str(max(newest + 1, _revision(new[1]) if new is not None else 0))
        if new is None:
            document = replica_set_of(deployment)
            document["metadata"]["annotations"] = {**_copied(deployment), REVISION: revision}
            document["spec"]["replicas"] = 0
            _take_min_ready(deployment, document)
            self._size_annotations(deployment, document)
            made = self.create(_SETS, document)
            self._condition_on_made(deployment, f'Created new replica set "{made["metadata"]["name"]}"')
            stored = self.find(_SETS, f"{made['metadata']['namespace']}/{made['metadata']['name']}")
            assert stored is not None
            new = stored, stored.document()
        else:
            document = copy.deepcopy(new[1])
            annotations = document["metadata"].setdefault("annotations", {})
            was = annotations.get(REVISION)
            annotations.update(_copied(deployment))
            annotations[REVISION] = revision
            if was is not None and was != revision:
                annotations[_HISTORY] = ",".join(filter(None, (annotations.get(_HISTORY), was)))
            _take_min_ready(deployment, document)
            new = self._write(new, document)
        stored = self._stored(deployment)
        if stored is not None:
            document = stored.document()
            document["metadata"].setdefault("annotations", {})[REVISION] = revision
            self.update(_DEPLOYMENTS, stored, document)
        return new

    def _condition_on_made(self, deployment: Json, message: str) -> None:
        stored = self._stored(deployment)
        if stored is not None:
            document = stored.document()
            self._set_condition(document, ("Progressing", "True", "NewReplicaSetCreated", message))
            self.update_status(_DEPLOYMENTS, stored, document)

    # From old to new.

    def _roll(self, deployment: Json, new: ReplicaSet, old: list[ReplicaSet]) -> None:
        wanted, surge, unavailable = _bounds(deployment)
        total = sum(_size(document) for _, document in (new, *old))
        size = _size(new[1])
        if size > wanted:
            new = self._resize(deployment, new, wanted)
        elif size < wanted and total < wanted + surge:
            new = self._resize(deployment, new, size + min(wanted + surge - total, wanted - size))
        elif size < wanted and not any(_size(document) for _, document in old):
            new = self._resize(deployment, new, wanted)
        remaining = [entry for entry in old if _size(entry[1])]
        if not remaining:
            return
        total = sum(_size(document) for _, document in (new, *old))
        new_unavailable = _size(new[1]) - new[1].get("status", {}).get("availableReplicas", 0)
        room = total - (wanted - unavailable) - new_unavailable
        if room <= 0:
            return
        remaining = [self._drop_unhealthy(deployment, entry, room) for entry in sorted(remaining, key=_age)]
        available = sum(document.get("status", {}).get("availableReplicas", 0) for _, document in (new, *old))
        spare = available - (wanted - unavailable)
        for entry in remaining:
            if spare <= 0:
                break
            taken = min(_size(entry[1]), spare)
            self._resize(deployment, entry, _size(entry[1]) - taken)
            spare -= taken

    def _drop_unhealthy(self, deployment: Json, entry: ReplicaSet, room: int) -> ReplicaSet:
        """Pods of an old version that are not available go first."""
        healthy = entry[1].get("status", {}).get("availableReplicas", 0)
        unhealthy = min(_size(entry[1]) - healthy, room)
        return self._resize(deployment, entry, _size(entry[1]) - unhealthy) if unhealthy > 0 else entry

    def _recreate(self, deployment: Json, new: ReplicaSet | None, old: list[ReplicaSet]) -> None:
        for entry in old:
            if _size(entry[1]):
                self._resize(deployment, entry, 0)
        if new is not None and self._all_gone(old):
            self._resize(deployment, new, deployment["spec"]["replicas"])

    def _all_gone(self, old: list[ReplicaSet]) -> bool:
        """No pod of an old version runs or is about to."""
        pods = [pod.document() for stored, _ in old for pod in self.owners.owned(PODS, stored.uid)]
        running = any(is_active(pod) or "deletionTimestamp" in pod["metadata"] for pod in pods)
        return not running and not any(_size(document) for _, document in old)

    def _scale_in_proportion(self, deployment: Json, sets: list[ReplicaSet]) -> None:
        """A new size in the middle of a rollout is shared out by the sizes that are there."""
        active = [entry for entry in sets if _size(entry[1])]
        wanted, surge, _ = _bounds(deployment)
        if len(active) <= 1:
            entry = active[0] if active else max(sets, key=lambda e: _revision(e[1]), default=None)
            if entry is not None:
                self._resize(deployment, entry, wanted)
            return
        allowed = wanted + surge if deployment["spec"]["strategy"]["type"] == "RollingUpdate" else wanted
        total = sum(_size(document) for _, document in active)
        to_add = allowed - total
        active.sort(key=lambda e: (-_size(e[1]) if to_add > 0 else _size(e[1]), _age(e)))
        sizes, left = {}, to_add
        for stored, document in active:
            before = int((document["metadata"].get("annotations") or {}).get(_MAX) or total) or total
            share = round(_size(document) * allowed / before) - _size(document)
            share = max(min(share, left), 0) if to_add > 0 else min(max(share, left), 0)
            sizes[stored.key] = _size(document) + share
            left -= share
        for index, entry in enumerate(active):
            size = sizes[entry[0].key] + (left if index == 0 else 0)
            self._resize(deployment, entry, max(size, 0))

    def _resize(self, deployment: Json, entry: ReplicaSet, size: int) -> ReplicaSet:
        stored, document = entry[0], copy.deepcopy(entry[1])
        before = _size(document)
        document["spec"]["replicas"] = size
        self._size_annotations(deployment, document)
        result = self._write(entry, document)
        if size != before:
            direction = "up" if size > before else "down"
            text = f"Scaled {direction} replica set {stored.name} from {before} to {size}"
            self.event(deployment, "Normal", "ScalingReplicaSet", text)
        return result

    def _write(self, entry: ReplicaSet, document: Json) -> ReplicaSet:
        result = self.update(_SETS, entry[0], document)
        assert result is not None
        return result, result.document()

    def _size_annotations(self, deployment: Json, replica_set: Json) -> None:
        wanted, surge, _ = _bounds(deployment)
        annotations = replica_set["metadata"].setdefault("annotations", {})
        annotations[_DESIRED], annotations[_MAX] = str(wanted), str(wanted + surge)

    # What is left.

    def _forget(self, deployment: Json) -> None:
        """Old versions beyond the history limit go."""
        limit = deployment["spec"].get("revisionHistoryLimit", 10)
        sets = [(stored, stored.document()) for stored in self.owners.owned(_SETS, deployment["metadata"]["uid"])]
        current = _current(deployment, sets)
        empty = [
            entry
            for entry in sets
            if entry is not current and not _size(entry[1]) and not entry[1].get("status", {}).get("replicas")
        ]
        empty.sort(key=lambda entry: _revision(entry[1]))
        for stored, _ in empty[: max(len(empty) - limit, 0)]:
            self.delete(_SETS, stored)

    def _tell(self, key: str) -> None:
        stored = self.find(_DEPLOYMENTS, key)
        if stored is None:
            return
        deployment = stored.document()
        sets = [(found, found.document()) for found in self.owners.owned(_SETS, stored.uid)]
        new = _current(deployment, sets)
        wanted, _, unavailable = _bounds(deployment)

        def total(name: str) -> int:
            return sum(document.get("status", {}).get(name, 0) for _, document in sets)

        available = total("availableReplicas")
        size = sum(_size(document) for _, document in sets)
        before = deployment.get("status") or {}
        counts = {
            "observedGeneration": deployment["metadata"].get("generation", 0),
            "replicas": total("replicas"),
            "updatedReplicas": new[1].get("status", {}).get("replicas", 0) if new is not None else 0,
            "readyReplicas": total("readyReplicas"),
            "availableReplicas": available,
            "unavailableReplicas": max(size - available, 0),
        }
        status = {name: count for name, count in counts.items() if count}
        status["terminatingReplicas"] = total("terminatingReplicas")
        deployment["status"] = {**status, "conditions": list(before.get("conditions") or ())}
        if available >= wanted - unavailable:
            text = "Deployment has minimum availability."
            self._set_condition(deployment, ("Available", "True", "MinimumReplicasAvailable", text))
        else:
            text = "Deployment does not have minimum availability."
            self._set_condition(deployment, ("Available", "False", "MinimumReplicasUnavailable", text))
        self._tell_progress(key, deployment, before, new)
        self.update_status(_DEPLOYMENTS, stored, deployment)

    def _tell_progress(self, key: str, deployment: Json, before: Json, new: ReplicaSet | None) -> None:
        if deployment["spec"].get("paused"):
            self._set_condition(deployment, ("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused"))
            return
        if new is None:
            return
        status, wanted = deployment["status"], deployment["spec"]["replicas"]
        current = condition(deployment, "Progressing")
        name = new[0].name
        complete = (
            status.get("updatedReplicas", 0)
            == wanted
            == status.get("replicas", 0)
            == status.get("availableReplicas", 0)
        )
        settled = current is not None and current["reason"] == "NewReplicaSetAvailable" and name in current["message"]
        if complete or settled:
            if settled:
                return
            text = f'ReplicaSet "{name}" has successfully progressed.'
            self._set_condition(deployment, ("Progressing", "True", "NewReplicaSetAvailable", text))
            return
        counted = ("updatedReplicas", "readyReplicas", "availableReplicas")
        moved = any(status.get(n, 0) > before.get(n, 0) for n in counted) or status.get("replicas", 0) < before.get(
            "replicas", 0
        )
        deadline_s = deployment["spec"].get("progressDeadlineSeconds", 600)
        if moved or current is None or (current["reason"] == "NewReplicaSetAvailable"):
            text = f'ReplicaSet "{name}" is progressing.'
            told = ("Progressing", "True", "ReplicaSetUpdated", text)
            self._set_condition(deployment, told, again=True)
            self.enqueue_later(key, deadline_s + 1)
        elif current["reason"] != "ProgressDeadlineExceeded":
            stalled_s = self.api.clock.now() - epoch(current.get("lastUpdateTime") or self.api.now())
            if stalled_s > deadline_s:
                text = f'ReplicaSet "{name}" has timed out progressing.'
                self._set_condition(deployment, ("Progressing", "False", "ProgressDeadlineExceeded", text))
            else:
                self.enqueue_later(key, deadline_s - stalled_s + 1)

    def _set_condition(self, deployment: Json, told: tuple[str, str, str, str], *, again: bool = False) -> None:
        """Puts a condition at the end of the list; one that says the same stays as it is, unless it is told `again`."""
        type_, status, reason, message = told
        old, now = condition(deployment, type_), self.api.now()
        if old is not None and not again and (old["status"], old["reason"], old["message"]) == told[1:]:
            return
        times = {"lastUpdateTime": now, "lastTransitionTime": now}
        with_condition(deployment, {"type": type_, "status": status, **times, "reason": reason, "message": message})

    def _stored(self, deployment: Json) -> Stored | None:
        return self.find(_DEPLOYMENTS, f"{deployment['metadata']['namespace']}/{deployment['metadata']['name']}")


def _current(deployment: Json, sets: list[ReplicaSet]) -> ReplicaSet | None:
    """The oldest ReplicaSet that has the deployment's present template."""
    wanted = _plain_template(deployment)
    found = [entry for entry in sets if _plain_template(entry[1]) == wanted]
    return min(found, key=_age, default=None)


def _plain_template(workload: Json) -> Json:
    """The template without the label that the ReplicaSet's name is about."""
    template: Json = copy.deepcopy(workload["spec"]["template"])
    metadata = template.get("metadata") or {}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH_LABEL}
    template["metadata"] = {
        name: value for name, value in {**metadata, "labels": labels}.items() if value and name != "creationTimestamp"
    }
    return template


def _bounds(deployment: Json) -> tuple[int, int, int]:
    """How many are wanted, how many more there may be, how many may be missing."""
    spec = deployment["spec"]
    wanted = spec.get("replicas", 1)
    if spec["strategy"]["type"] != "RollingUpdate":
        return wanted, 0, 0
    rolling = spec["strategy"].get("rollingUpdate") or {}
    surge = amount(rolling.get("maxSurge", "25%"), wanted, up=True)
    unavailable = amount(rolling.get("maxUnavailable", "25%"), wanted, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return wanted, surge, min(unavailable, wanted)


def _take_min_ready(deployment: Json, replica_set: Json) -> None:
    replica_set["spec"].pop("minReadySeconds", None)
    if deployment["spec"].get("minReadySeconds"):
        replica_set["spec"]["minReadySeconds"] = deployment["spec"]["minReadySeconds"]


def _wanted_changed(deployment: Json, sets: list[ReplicaSet]) -> bool:
    wanted = str(deployment["spec"].get("replicas", 1))
    return any(
        _size(document) and (document["metadata"].get("annotations") or {}).get(_DESIRED, wanted) != wanted
        for _, document in sets
    )


def _size(replica_set: Json) -> int:
    return int(replica_set["spec"].get("replicas", 1))


def _revision(workload: Json) -> int:
    return int((workload["metadata"].get("annotations") or {}).get(REVISION) or 0)


def _age(entry: ReplicaSet) -> tuple[str, str]:
    return entry[1]["metadata"]["creationTimestamp"], entry[0].name


def _copied(deployment: Json) -> Json:
    annotations = deployment["metadata"].get("annotations") or {}
    return {name: value for name, value in annotations.items() if name not in _NOT_COPIED}
