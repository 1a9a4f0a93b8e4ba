"""StatefulSets: numbered pods, each with claims of its own."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from kubesched.workloads.templates import (
    Doc,
    has_template,
    namespace_of,
    owned_by,
    pod_from,
    replicas_wanted,
    template_hash,
)

_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_REVISION_LABEL = "controller-revision-hash"


def missing_stateful_pods(workload: Mapping[str, Any], pods: Iterable[Doc]) -> list[Doc]:
    """The pods that are not there, all at once (a controller that starts them one by one takes the first)."""
    if not has_template(workload):
        return []
    present = {pod["metadata"]["name"] for pod in owned_by(workload, pods)}
    base = workload["metadata"]["name"]
    revision = f"{base}-{template_hash(workload['spec']['template'])}"
    made = []
    for ordinal in _ordinals(workload):
        name = f"{base}-{ordinal}"
        if name not in present:
            labels = {_NAME_LABEL: name, _INDEX_LABEL: str(ordinal), _REVISION_LABEL: revision}
            pod = pod_from(workload, name, labels)
            _mount_claims(pod, workload, ordinal)
            made.append(pod)
    return made


def claims_of(workload: Mapping[str, Any], claims: Iterable[Doc]) -> list[Doc]:
    """The claims of the set's pods that are not among `claims`."""
    namespace = namespace_of(workload)
    present = {claim["metadata"]["name"] for claim in claims if namespace_of(claim) == namespace}
    made = []
    for ordinal in _ordinals(workload):
        for template in workload["spec"].get("volumeClaimTemplates") or ():
            name = _claim_name(template, workload, ordinal)
            if name in present:
                continue
            metadata = template.get("metadata") or {}
            made.append(
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {
                        "name": name,
                        "namespace": namespace,
                        "labels": dict(metadata.get("labels") or {}),
                        "annotations": dict(metadata.get("annotations") or {}),
                    },
                    "spec": copy.deepcopy(template.get("spec") or {}),
                }
            )
    return made


def _ordinals(workload: Mapping[str, Any]) -> range:
    start = int((workload["spec"].get("ordinals") or {}).get("start") or 0)
    return range(start, start + replicas_wanted(workload))


def _mount_claims(pod: Doc, workload: Mapping[str, Any], ordinal: int) -> None:
    """A claim template stands above a volume of the same name."""
    templates = workload["spec"].get("volumeClaimTemplates") or ()
    if not templates:
        return
    names = {template["metadata"]["name"] for template in templates}
    volumes = [volume for volume in pod["spec"].get("volumes") or () if volume.get("name") not in names]
    for template in templates:
        claim = {"claimName": _claim_name(template, workload, ordinal)}
        volumes.append({"name": template["metadata"]["name"], "persistentVolumeClaim": claim})
    pod["spec"]["volumes"] = volumes


def _claim_name(template: Mapping[str, Any], workload: Mapping[str, Any], ordinal: int) -> str:
    return f"{template['metadata']['name']}-{workload['metadata']['name']}-{ordinal}"
