"""Pods: status at creation, quality-of-service class, scheduling gates, and what may be changed later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesched.apiserver import admission
from kubesched.apiserver.resources import Resource
from kubesched.apiserver.rules.base import Rules
from kubesched.apiserver.rules.pod_changes import changes_of_gates, forbidden_changes
from kubesched.apiserver.rules.pod_template import default_pod
from kubesched.apiserver.rules.pod_validation import check_pod_spec, pod_spec_warnings
from kubesched.apiserver.status import Cause, forbidden_field, invalid_value
from kubesched.apiserver.store import Json
from kubesched.manifests import merge_label_keys

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

_SUFFICIENT_FOR_QOS = ("cpu", "memory")
GATED_CONDITION = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "lastTransitionTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def on_create(api: Api, resource: Resource, pod: Json) -> None:
    status: Json = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        status["conditions"] = [{**GATED_CONDITION, "lastTransitionTime": api.now()}]
    pod["status"] = status
    admission.tolerate_lost_nodes(pod["spec"])
    pod["spec"] = merge_label_keys(pod)["spec"]


def admit(api: Api, resource: Resource, pod: Json) -> None:
    admission.resolve_priority(api, resource, pod)
    if api.profile.service_accounts:
        admission.give_account(api, resource, pod)


def qos_class(spec: Json) -> str:
    """BestEffort, Burstable or Guaranteed, from the cpu and memory of containers (or of the pod as a whole)."""
    holders = (
        [spec] if spec.get("resources") else [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    )
    asks, guaranteed = False, True
    for holder in holders:
        resources = holder.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in _SUFFICIENT_FOR_QOS:
            request, limit = requests.get(name, "0"), limits.get(name, "0")
            asks = asks or request != "0" or limit != "0"
            guaranteed = guaranteed and limit != "0" and request == limit
    if not asks:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def validate(pod: Json) -> list[Cause]:
    causes = check_pod_spec(pod["spec"], "spec")
    if (
        pod["spec"].get("schedulingGates")
        and pod["spec"].get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
    ):
        causes.append(forbidden_field("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return causes


def on_update(old: Json, new: Json) -> None:
    """Priority is resolved once and kept when a replacement leaves it out; lost nodes are tolerated as ever."""
    for name in ("priority", "preemptionPolicy"):
        if name in old["spec"]:
            new["spec"].setdefault(name, old["spec"][name])
    admission.tolerate_lost_nodes(new["spec"])


def validate_update(old: Json, new: Json) -> list[Cause]:
    causes = changes_of_gates(old["spec"], new["spec"])
    if causes:
        return causes
    return forbidden_changes(old, new)


def check_resize(old: Json, new: Json) -> list[Cause]:
    """A resize may not move the pod into another quality-of-service class."""
    before = qos_class(old["spec"])
    if qos_class(new["spec"]) == before:
        return []
    return [invalid_value("spec", before, "Pod QOS Class may not change as a result of resizing")]


RULES = Rules(
    default=default_pod,
    on_create=on_create,
    admit=admit,
    validate=validate,
    on_update=on_update,
    validate_update=validate_update,
    warn=lambda pod: pod_spec_warnings(pod["spec"], "spec"),
    update_checks_metadata=4,
    update_checks=2,
)
