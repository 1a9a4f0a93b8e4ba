"""PodDisruptionBudgets: how many healthy pods there are, must be, and may go; what the eviction handler decides by."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.apiserver.controllers.base import PODS, Controller, amount, is_ready, with_condition
from kubesched.apiserver.label_selectors import selector_test
from kubesched.apiserver.metadata import epoch
from kubesched.apiserver.resources import BY_PATH, by_kind
from kubesched.apiserver.store import Change, Json, Stored

_BUDGETS = BY_PATH["policy", "v1", "poddisruptionbudgets"]
#: An evicted pod counts as gone for so long, should its deletion not be seen.
_EVICTION_S = 120.0


class DisruptionBudgets(Controller):
    name = "disruption-controller"
    component = "controllermanager"
    watched = (_BUDGETS, PODS)

    def keys_of(self, change: Change) -> Iterator[str]:
        stored = change.stored
        if stored.body.startswith(_BUDGETS.prefix):
            yield stored.key
            return
        for budget in self.api.store.of(_BUDGETS).scan(stored.namespace):
            matches = selector_test(budget.document()["spec"].get("selector"))
            if matches(stored.labels) or (change.previous is not None and matches(change.previous.labels)):
                yield budget.key

    def settle(self, key: str) -> None:
        stored = self.find(_BUDGETS, key)
        if stored is None:
            return
        budget = stored.document()
        matches = selector_test(budget["spec"].get("selector"))
        pods = [(pod, pod.document()) for pod in self.api.store.of(PODS).scan(stored.namespace) if matches(pod.labels)]
        pods = [(pod, document) for pod, document in pods if document["status"].get("phase") not in _ENDED]
        expected, desired = self._expected(budget, pods)
        disrupted = self._disrupted(key, budget, {pod.name: document for pod, document in pods})
        healthy = sum(
            is_ready(document) and "deletionTimestamp" not in document["metadata"] and pod.name not in disrupted
            for pod, document in pods
        )
        allowed = max(healthy - desired, 0) if expected else 0
        status: Json = {
            "observedGeneration": budget["metadata"].get("generation", 0),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": list((budget.get("status") or {}).get("conditions") or ()),
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        budget["status"] = status
        with_condition(
            budget,
            {
                "type": "DisruptionAllowed",
                "status": "True" if allowed else "False",
                "observedGeneration": status["observedGeneration"],
                "lastTransitionTime": self.api.now(),
                "reason": "SufficientPods" if allowed else "InsufficientPods",
                "message": "",
            },
        )
        self.update_status(_BUDGETS, stored, budget)

    def _expected(self, budget: Json, pods: list[tuple[Stored, Json]]) -> tuple[int, int]:
        """How many pods there are to be, and how many of them healthy."""
        spec = budget["spec"]
        if "maxUnavailable" in spec:
            expected = self._scale_of_owners(pods)
            return expected, max(expected - amount(spec["maxUnavailable"], expected, up=True), 0)
        wanted = spec.get("minAvailable", 1)
        if isinstance(wanted, int):
            return len(pods), wanted
        expected = self._scale_of_owners(pods)
        return expected, amount(wanted, expected, up=True)

    def _scale_of_owners(self, pods: list[tuple[Stored, Json]]) -> int:
        """The wanted numbers of all controllers of the pods; a bare pod counts for itself."""
        sizes: dict[str, int] = {}
        for pod, document in pods:
            uid, size = pod.uid, 1
            owner = self._controller(pod.namespace, document)
            if owner is not None and owner["kind"] == "ReplicaSet":
                owner = self._controller(pod.namespace, owner) or owner
            if owner is not None:
                uid = owner["metadata"]["uid"]
                size = owner["spec"].get("replicas", sizes.get(uid, 0) + 1)
            sizes[uid] = size
        return sum(sizes.values())

    def _controller(self, namespace: str, document: Json) -> Json | None:
        for reference in document["metadata"].get("ownerReferences") or ():
            resource = by_kind(reference["apiVersion"], reference["kind"])
            if reference.get("controller") and resource is not None:
                stored = self.api.store.of(resource).get(namespace, reference["name"])
                return stored.document() if stored is not None else None
        return None

    def _disrupted(self, key: str, budget: Json, pods: dict[str, Json]) -> Json:
        """Evictions that were allowed and have not shown in their pods yet."""
        left: Json = {}
        for name, since in ((budget.get("status") or {}).get("disruptedPods") or {}).items():
            pod = pods.get(name)
            remaining_s = epoch(since) + _EVICTION_S - self.api.clock.now()
            if pod is not None and "deletionTimestamp" not in pod["metadata"] and remaining_s > 0:
                left[name] = since
                self.enqueue_later(key, remaining_s)
        return left


_ENDED = ("Succeeded", "Failed")
