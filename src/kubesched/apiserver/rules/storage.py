"""Volumes, claims, storage classes and CSI objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesched.apiserver import metadata
from kubesched.apiserver.resources import BY_PATH, Resource
from kubesched.apiserver.rules.base import Rules
from kubesched.apiserver.status import Cause, invalid_value, required
from kubesched.apiserver.store import Json

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

PV_PROTECTION = "kubernetes.io/pv-protection"
PVC_PROTECTION = "kubernetes.io/pvc-protection"
_CLASSES = BY_PATH["storage.k8s.io", "v1", "storageclasses"]
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_IS_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _default_volume(volume: Json) -> None:
    spec = volume["spec"]
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")


def _protect(document: Json, finalizer: str) -> None:
    finalizers = document["metadata"].get("finalizers") or []
    if finalizer not in finalizers:
        document["metadata"]["finalizers"] = [*finalizers, finalizer]


def _create_volume(api: Api, resource: Resource, volume: Json) -> None:
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": api.now()}
    _protect(volume, PV_PROTECTION)


def _check_volume(volume: Json) -> list[Cause]:
    spec = volume["spec"]
    causes = []
    if not spec.get("accessModes"):
        causes.append(required("spec.accessModes"))
    if not spec.get("capacity"):
        causes.append(required("spec.capacity"))
    return causes


PERSISTENT_VOLUME = Rules(default=_default_volume, on_create=_create_volume, validate=_check_volume)


def _default_claim(claim: Json) -> None:
    claim["spec"].setdefault("volumeMode", "Filesystem")


def _create_claim(api: Api, resource: Resource, claim: Json) -> None:
    claim["status"] = {"phase": "Pending"}
    _protect(claim, PVC_PROTECTION)


def _admit_claim(api: Api, resource: Resource, claim: Json) -> None:
    """The admission plugin DefaultStorageClass: the newest of the default classes."""
    annotations = claim["metadata"].get("annotations") or {}
    if "storageClassName" in claim["spec"] or _BETA_CLASS in annotations:
        return
    classes = [stored.document() for stored in api.store.of(_CLASSES).items.values()]
    defaults = [
        c for c in classes if any((c["metadata"].get("annotations") or {}).get(a) == "true" for a in _IS_DEFAULT)
    ]
    if defaults:
        newest = max(defaults, key=lambda c: (c["metadata"]["creationTimestamp"], c["metadata"]["name"]))
        claim["spec"]["storageClassName"] = newest["metadata"]["name"]


def _check_claim(claim: Json) -> list[Cause]:
    spec = claim["spec"]
    causes = []
    if not spec.get("accessModes"):
        causes.append(required("spec.accessModes", "at least 1 access mode is required"))
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        causes.append(required("spec.resources[storage]"))
    return causes


PERSISTENT_VOLUME_CLAIM = Rules(
    default=_default_claim, on_create=_create_claim, admit=_admit_claim, validate=_check_claim
)


def _default_class(document: Json) -> None:
    document.setdefault("reclaimPolicy", "Delete")
    document.setdefault("volumeBindingMode", "Immediate")


def _check_class(document: Json) -> list[Cause]:
    return [] if document.get("provisioner") else [required("provisioner")]


STORAGE_CLASS = Rules(default=_default_class, validate=_check_class)


def _default_csi_node(document: Json) -> None:
    if document["spec"].get("drivers") is None:
        document["spec"]["drivers"] = None
    for driver in document["spec"].get("drivers") or ():
        driver.setdefault("topologyKeys", None)


def _check_csi_node(document: Json) -> list[Cause]:
    causes = []
    for index, driver in enumerate(document["spec"].get("drivers") or ()):
        name = driver.get("name", "")
        if not name:
            causes.append(required(f"spec.drivers[{index}].name"))
        elif not metadata.is_subdomain(name.lower()):
            causes.append(invalid_value(f"spec.drivers[{index}].name", name, metadata.SUBDOMAIN_TEXT))
    return causes


CSI_NODE = Rules(default=_default_csi_node, validate=_check_csi_node)


def _default_csi_driver(document: Json) -> None:
    spec = document["spec"]
    for name, value in (
        ("attachRequired", True),
        ("podInfoOnMount", False),
        ("storageCapacity", False),
        ("fsGroupPolicy", "ReadWriteOnceWithFSType"),
        ("volumeLifecycleModes", ["Persistent"]),
        ("requiresRepublish", False),
        ("seLinuxMount", False),
    ):
        spec.setdefault(name, value)


CSI_DRIVER = Rules(default=_default_csi_driver)
