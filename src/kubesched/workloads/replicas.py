"""Deployments, ReplicaSets and ReplicationControllers: so many equal pods."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from kubesched.workloads.templates import (
    Doc,
    generated_name,
    has_template,
    is_active,
    namespace_of,
    owned_by,
    owner_reference,
    pod_from,
    replicas_wanted,
    template_hash,
)

HASH_LABEL = "pod-template-hash"


def replica_set_of(deployment: Mapping[str, Any]) -> Doc:
    """The ReplicaSet of the deployment's present template, with all of its replicas."""
    spec = deployment["spec"]
    template = copy.deepcopy(spec.get("template") or {})
    hashed = template_hash(template)
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), HASH_LABEL: hashed}
    selector = copy.deepcopy(spec.get("selector") or {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: hashed}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{deployment['metadata']['name']}-{hashed}",
            "namespace": namespace_of(deployment),
            "labels": dict(metadata["labels"]),
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {"replicas": replicas_wanted(deployment), "selector": selector, "template": template},
    }


def missing_replicas(workload: Mapping[str, Any], pods: Iterable[Doc]) -> list[Doc]:
    """The pods that a ReplicaSet or ReplicationController would add to those of `pods` that are its own."""
    if not has_template(workload):
        return []
    own = owned_by(workload, pods)
    active = sum(map(is_active, own))
    taken = {pod["metadata"]["name"] for pod in own}
    made = []
    for number in range(active, replicas_wanted(workload)):
        name = generated_name(workload["metadata"]["name"], number, taken)
        taken.add(name)
        made.append(pod_from(workload, name))
    return made
