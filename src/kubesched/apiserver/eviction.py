"""pods/eviction: a delete that asks the disruption budgets first.

Pods that run nothing (pending, finished, terminating) are never blocked; unready ones are not while the budget is met
anyway. An eviction that a budget allows is booked in its status before the pod goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesched.apiserver import bodies, deleting
from kubesched.apiserver.label_selectors import selector_test
from kubesched.apiserver.messages import Answer, Reply, Request
from kubesched.apiserver.resources import BY_PATH, core
from kubesched.apiserver.status import Refusal, bad_request, internal, success
from kubesched.apiserver.store import Json, Stored, encode

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

_PODS = core("pods")
_BUDGETS = BY_PATH["policy", "v1", "poddisruptionbudgets"]
_EVICTED = encode(success(201))
_MESSAGE = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_S = 10


async def evict(api: Api, request: Request) -> Reply:
    sent_version = "policy/v1beta1" if b"policy/v1beta1" in request.body else "policy/v1"
    eviction = bodies.object_of(request, "Eviction", sent_version)
    if eviction["metadata"].get("name", request.name) != request.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = deleting.options_of(eviction.get("deleteOptions") or {})
    options.dry_run = options.dry_run or request.dry_run
    stored = api.find(request)
    deleting.check_preconditions(_PODS, stored, options)
    pod = stored.document()
    if not _runs_nothing(pod):
        _ask_budget(api, stored, pod, options)
        if not options.dry_run:
            stored = _mark_target(api, stored, pod)
    deleting.delete_object(api, _PODS, stored, options)
    return Answer(201, _EVICTED)


def _runs_nothing(pod: Json) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _ask_budget(api: Api, stored: Stored, pod: Json, options: deleting.Options) -> None:
    """Raises the 429 of a budget that does not allow the eviction; else books it."""
    found = [
        (kept, budget)
        for kept in api.store.of(_BUDGETS).scan(stored.namespace)
        if selector_test((budget := kept.document())["spec"].get("selector"))(stored.labels)
    ]
    if not found:
        return
    if len(found) > 1:
        raise internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    kept, budget = found[0]
    status, spec = budget.setdefault("status", {}), budget["spec"]
    current, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    unready_passes = spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or current >= desired > 0
    if unready_passes and not _is_ready(pod):
        return
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _blocked(f"The disruption budget {kept.name} is still being processed by the server.", retry=True)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        if current <= desired:
            raise _blocked(
                f"The disruption budget {kept.name} needs {desired} healthy pods and has {current} currently"
            )
        raise _blocked(f"The disruption budget {kept.name} does not allow evicting pods currently")
    if options.dry_run:
        return
    status["disruptionsAllowed"] = allowed - 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), stored.name: api.now()}
    if status["disruptionsAllowed"] == 0:
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": status.get("observedGeneration", 0),
            "lastTransitionTime": api.now(),
            "reason": "InsufficientPods",
            "message": "",
        }
        others = [c for c in status.get("conditions") or () if c["type"] != condition["type"]]
        status["conditions"] = [*others, condition]
    api.store.update(_BUDGETS, kept, budget)


def _mark_target(api: Api, stored: Stored, pod: Json) -> Stored:
    """The condition DisruptionTarget is written before the pod is deleted."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": api.now(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    conditions = [c for c in pod["status"].get("conditions") or () if c["type"] != "DisruptionTarget"]
    pod["status"]["conditions"] = [*conditions, condition]
    return api.store.update(_PODS, stored, pod)


def _is_ready(pod: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())


def _blocked(text: str, *, retry: bool = False) -> Refusal:
    details: Json = {"causes": [{"reason": "DisruptionBudget", "message": text}]}
    headers = {}
    if retry:
        details["retryAfterSeconds"] = _RETRY_S
        headers["Retry-After"] = str(_RETRY_S)
    return Refusal(429, "TooManyRequests", _MESSAGE, details, headers)
