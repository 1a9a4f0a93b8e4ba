"""The defaults of the API (v1.36) that make a difference to scheduling, for documents that never met a server.

Pure functions: a new document comes back, the one passed in stays as it was, and defaults applied twice are defaults
applied once. What only shows (pull policies, termination messages) and what admission adds (tolerations for lost nodes)
is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubesched.api import codec, kinds, quantity
from kubesched.api.pod_requests import CPU, MEMORY, pod_requests

Doc = dict[str, Any]


def apply_defaults(manifest: Mapping[str, Any]) -> Doc:
    """A known kind must decode. Other kinds come back as they are."""
    kind = kinds.find(str(manifest.get("apiVersion")), str(manifest.get("kind")))
    document = dict(manifest)
    if kind is None:
        return document
    metadata = _part(document, "metadata")
    if kind.namespaced and not metadata.get("namespace"):
        metadata["namespace"] = "default"
    defaults = _DEFAULTS.get(kind.kind)
    if defaults is not None:
        defaults(document)
    return document


def _pod(pod: Doc) -> None:
    spec = _part(pod, "spec")
    _pod_spec(spec)
    for group in ("containers", "initContainers"):
        for container in _parts(spec, group):
            resources = _part(container, "resources")
            _requests_from_limits(resources)
            if not resources:
                del container["resources"]
            if spec.get("hostNetwork"):
                for port in _parts(container, "ports"):
                    if not port.get("hostPort"):
                        port["hostPort"] = port.get("containerPort", 0)
    if spec.get("overhead"):
        spec["overhead"] = _rounded(spec["overhead"])
    if (spec.get("resources") or {}).get("limits"):
        _pod_level_requests(pod, spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    _default(_part(pod, "status"), "phase", "Pending")


def _pod_spec(spec: Doc) -> None:
    """What pods and pod templates have in common."""
    _default(spec, "schedulerName", "default-scheduler")
    _default(spec, "restartPolicy", "Always")
    _default(spec, "terminationGracePeriodSeconds", 30)
    for group in ("containers", "initContainers", "ephemeralContainers"):
        for container in _parts(spec, group):
            for port in _parts(container, "ports"):
                _default(port, "protocol", "TCP")
    for volume in _parts(spec, "volumes"):
        if volume.get("rbd"):
            _default(_part(volume, "rbd"), "pool", "rbd")


def _requests_from_limits(resources: Doc) -> None:
    """What is limited is requested, unless something else is requested. In pods only, not in templates."""
    for name in ("limits", "requests"):
        if resources.get(name):
            resources[name] = _rounded(resources[name])
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _pod_level_requests(pod: Doc, spec: Doc) -> None:
    """A pod with limits as a whole requests what its containers do, or its limits where they say nothing."""
    of_containers = pod_requests(codec.from_dict(kinds.POD, pod), skip_pod_level_resources=True, exclude_overhead=True)
    resources = _part(spec, "resources")
    limits = _rounded(resources["limits"])
    requests = _rounded(resources.get("requests") or {})
    for name, suffix in ((CPU, "m"), (MEMORY, "")):
        if name not in requests and name in of_containers:
            requests[name] = quantity.canonical(f"{of_containers[name]}{suffix}")
    for name, limit in limits.items():
        requests.setdefault(name, limit)
    resources.update(limits=limits, requests=requests)


def _rounded(resources: Mapping[str, Any]) -> Doc:
    """A stored amount is never finer than a thousandth: the API rounds each up as it comes in."""
    return {
        name: amount if quantity.nano_value(amount) % 1_000_000 == 0 else f"{quantity.milli_value(amount)}m"
        for name, amount in resources.items()
    }


def _node(node: Doc) -> None:
    spec = _part(node, "spec")
    if spec.get("podCIDR") and not spec.get("podCIDRs"):
        spec["podCIDRs"] = [spec["podCIDR"]]
    status = _part(node, "status")
    if status.get("capacity"):
        status["capacity"] = _rounded(status["capacity"])
    if status.get("allocatable") is not None:
        status["allocatable"] = _rounded(status["allocatable"])
    elif status.get("capacity"):
        status["allocatable"] = status["capacity"]


def _namespace(namespace: Doc) -> None:
    metadata = _part(namespace, "metadata")
    _part(metadata, "labels")["kubernetes.io/metadata.name"] = metadata["name"]
    _default(_part(namespace, "status"), "phase", "Active")


def _claim(claim: Doc) -> None:
    _default(_part(claim, "spec"), "volumeMode", "Filesystem")
    _default(_part(claim, "status"), "phase", "Pending")


def _volume(volume: Doc) -> None:
    spec = _part(volume, "spec")
    _default(spec, "volumeMode", "Filesystem")
    _default(spec, "persistentVolumeReclaimPolicy", "Retain")
    _default(_part(volume, "status"), "phase", "Pending")


def _storage_class(storage_class: Doc) -> None:
    _default(storage_class, "volumeBindingMode", "Immediate")
    _default(storage_class, "reclaimPolicy", "Delete")


def _csi_driver(driver: Doc) -> None:
    spec = _part(driver, "spec")
    _default(spec, "attachRequired", True)
    _default(spec, "storageCapacity", False)


def _priority_class(priority_class: Doc) -> None:
    _default(priority_class, "preemptionPolicy", "PreemptLowerPriority")


def _service(service: Doc) -> None:
    for port in _parts(_part(service, "spec"), "ports"):
        _default(port, "protocol", "TCP")


def _workload(workload: Doc) -> None:
    spec = _part(workload, "spec")
    _default(spec, "replicas", 1)
    _template(spec)


def _deployment(deployment: Doc) -> None:
    _workload(deployment)
    _default(_part(deployment["spec"], "strategy"), "type", "RollingUpdate")


def _stateful_set(stateful_set: Doc) -> None:
    _workload(stateful_set)
    _default(stateful_set["spec"], "podManagementPolicy", "OrderedReady")
    for claim in _parts(stateful_set["spec"], "volumeClaimTemplates"):
        _claim(claim)


def _replication_controller(controller: Doc) -> None:
    _workload(controller)
    spec = controller["spec"]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not spec.get("selector"):
        spec["selector"] = dict(labels)


def _daemon_set(daemon_set: Doc) -> None:
    _template(_part(daemon_set, "spec"))


def _job(job: Doc) -> None:
    spec = _part(job, "spec")
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    _default(spec, "parallelism", 1)
    _default(spec, "completionMode", "NonIndexed")
    _template(spec)


def _template(spec: Doc) -> None:
    if spec.get("template"):
        _pod_spec(_part(_part(spec, "template"), "spec"))


_DEFAULTS: dict[str, Callable[[Doc], None]] = {
    "Pod": _pod,
    "Node": _node,
    "Namespace": _namespace,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "StorageClass": _storage_class,
    "CSIDriver": _csi_driver,
    "PriorityClass": _priority_class,
    "Service": _service,
    "Deployment": _deployment,
    "ReplicaSet": _workload,
    "StatefulSet": _stateful_set,
    "ReplicationController": _replication_controller,
    "DaemonSet": _daemon_set,
    "Job": _job,
}


def _default(document: Doc, field: str, value: Any) -> None:
    """An empty string is as good as nothing, False and 0 are not."""
    if document.get(field) in (None, ""):
        document[field] = value


def _part(document: Doc, field: str) -> Doc:
    """A copy of the map at `field` (an empty one if there is none), put in its place, for changing."""
    part = dict(document.get(field) or {})
    document[field] = part
    return part


def _parts(document: Doc, field: str) -> list[Doc]:
    """Copies of the maps in the list at `field`, put in their place, for changing."""
    if not document.get(field):
        return []
    parts = [dict(part) for part in document[field]]
    document[field] = parts
    return parts
