"""Defaults of a pod spec (v1.36): those of pods and of every template in a workload, and those of pods alone."""

from __future__ import annotations

from kubesched.api import codec, kinds
from kubesched.api.pod_requests import pod_requests
from kubesched.apiserver.schema.quantities import resource_amount
from kubesched.apiserver.store import Json

_VOLUME_MODE_SOURCES = ("configMap", "secret", "downwardAPI", "projected")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def default_pod_spec(spec: Json) -> None:
    """Fills in a pod spec in place."""
    setdefault = spec.setdefault
    setdefault("restartPolicy", "Always")
    setdefault("dnsPolicy", "ClusterFirst")
    setdefault("schedulerName", "default-scheduler")
    setdefault("securityContext", {})
    setdefault("terminationGracePeriodSeconds", 30)
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(group) or ():
            _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def default_pod(pod: Json) -> None:
    """What a pod gets on top: what is limited is requested, ports on the host's network are the host's ports."""
    spec = pod["spec"]
    spec.setdefault("enableServiceLinks", True)
    default_pod_spec(spec)
    for group in ("initContainers", "containers"):
        for container in spec.get(group) or ():
            resources = container["resources"]
            if "limits" in resources:
                resources["requests"] = dict(sorted({**resources["limits"], **resources.get("requests", {})}.items()))
            for port in container.get("ports") or ():
                if spec.get("hostNetwork") and not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)
    if (spec.get("resources") or {}).get("limits"):
        _default_pod_requests(pod, spec["resources"])
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1


def _default_pod_requests(pod: Json, resources: Json) -> None:
    """A pod with limits as a whole requests what its containers do, or its limits where they say nothing."""
    typed = codec.from_dict(kinds.POD, pod)
    asked = pod_requests(typed, skip_pod_level_resources=True, exclude_overhead=True)
    of_containers = {name: f"{size}m" if name == "cpu" else str(size) for name, size in asked.items()}
    requests = dict(resources.get("requests") or {})
    for name, limit in resources["limits"].items():
        if name in ("cpu", "memory") and name in of_containers:
            limit = resource_amount(of_containers[name])
        requests.setdefault(name, limit)
    resources["requests"] = dict(sorted(requests.items()))


def _default_container(container: Json) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        field_ref = (variable.get("valueFrom") or {}).get("fieldRef")
        if field_ref is not None:
            field_ref.setdefault("apiVersion", "v1")
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _default_http_get(hook)


def pull_policy(image: str) -> str:
    """Always for images without a tag or tagged latest, IfNotPresent for others."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rsplit("/", 1)[-1].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _default_probe(probe: Json) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    _default_http_get(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http_get(handler: Json) -> None:
    action = handler.get("httpGet")
    if action is not None:
        action.setdefault("path", "/")
        action.setdefault("scheme", "HTTP")


def _default_volume(volume: Json) -> None:
    sources = [name for name in volume if name != "name"]
    if not sources:
        volume["emptyDir"] = {}
    for name in _VOLUME_MODE_SOURCES:
        if name in volume:
            volume[name].setdefault("defaultMode", 420)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for source in (volume.get("projected") or {}).get("sources") or ():
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    if "iscsi" in volume:
        volume["iscsi"].setdefault("iscsiInterface", "default")
    if "rbd" in volume:
        for key, value in (("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")):
            volume["rbd"].setdefault(key, value)
    if "azureDisk" in volume:
        for key, value in (("cachingMode", "ReadWrite"), ("kind", "Shared"), ("fsType", "ext4")):
            volume["azureDisk"].setdefault(key, value)
        volume["azureDisk"].setdefault("readOnly", False)
    if "scaleIO" in volume:
        for key, value in (("storageMode", "ThinProvisioned"), ("fsType", "xfs")):
            volume["scaleIO"].setdefault(key, value)
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim is not None:
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
