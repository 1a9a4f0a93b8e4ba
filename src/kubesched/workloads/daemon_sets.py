"""DaemonSets: one pod a node, bound to it by an affinity that only that node meets.

Which nodes: those that match the template's selector and affinity and whose taints the daemon tolerates. Whether the
node has room is the scheduler's question.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from kubesched.api import codec, kinds, selectors, taints
from kubesched.api.core import Node, Pod
from kubesched.workloads.templates import (
    Doc,
    generated_name,
    has_template,
    is_active,
    owned_by,
    pod_from,
    template_hash,
)

#: What every daemon tolerates: a node has its daemons, whatever state it is in.
_TOLERATIONS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_NO_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def missing_daemon_pods(workload: Mapping[str, Any], pods: Iterable[Doc], nodes: Iterable[Doc]) -> list[Doc]:
    """The pods that the set would start on those of `nodes` that have none of its pods yet."""
    if not has_template(workload):
        return []
    served = {node_name for pod in owned_by(workload, pods) if is_active(pod) and (node_name := daemon_node_of(pod))}
    revision = template_hash(workload["spec"]["template"])
    made = []
    for node in nodes:
        name = node["metadata"]["name"]
        if name in served:
            continue
        pod = pod_from(
            workload,
            generated_name(workload["metadata"]["name"], name),
            {"controller-revision-hash": revision, "pod-template-generation": "1"},
        )
        _tolerate(pod["spec"])
        if _belongs(pod, node):
            _pin(pod["spec"], name)
            made.append(pod)
    return made


def daemon_node_of(pod: Mapping[str, Any]) -> str:
    """The node a daemon pod is on or meant for, "" when it does not say."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for requirement in term.get("matchFields") or ():
            if requirement.get("key") == "metadata.name" and len(requirement.get("values") or ()) == 1:
                return str(requirement["values"][0])
    return ""


def _tolerate(spec: Doc) -> None:
    tolerations = list(spec.get("tolerations") or ())
    wanted = (*_TOLERATIONS, _NO_NETWORK) if spec.get("hostNetwork") else _TOLERATIONS
    for key, effect in wanted:
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        if toleration not in tolerations:
            tolerations.append(toleration)
    spec["tolerations"] = tolerations


def _belongs(pod: Doc, node: Doc) -> bool:
    wants: Pod = codec.from_dict(kinds.POD, pod)
    there: Node = codec.from_dict(kinds.NODE, node)
    labels = there.metadata.labels
    if wants.spec.node_name and wants.spec.node_name != there.name:
        return False
    if any(labels.get(key) != value for key, value in wants.spec.node_selector.items()):
        return False
    affinity = wants.spec.affinity and wants.spec.affinity.node_affinity
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is not None and not selectors.compile_node_selector(required).matches(there.name, labels):
        return False
    return all(
        taint.effect not in taints.HARD_EFFECTS or taints.tolerated(wants.spec.tolerations, taint)
        for taint in there.spec.taints
    )


def _pin(spec: Doc, node_name: str) -> None:
    """Every term of the required node affinity, or a new one, is narrowed to the node."""
    only = [{"key": "metadata.name", "operator": "In", "values": [node_name]}]
    affinity = spec["affinity"] = copy.deepcopy(spec.get("affinity") or {})
    node_affinity = affinity.setdefault("nodeAffinity", {})
    required = node_affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [{**term, "matchFields": only} for term in terms]
