"""Volumes, claims, storage classes and CSI objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesched.api import quantity
from kubesched.apiserver import metadata
from kubesched.apiserver.resources import BY_PATH, Resource
from kubesched.apiserver.rules.base import Rules
from kubesched.apiserver.status import Cause, forbidden_field, invalid_value, required, unsupported
from kubesched.apiserver.store import Json

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

PV_PROTECTION = "kubernetes.io/pv-protection"
PVC_PROTECTION = "kubernetes.io/pvc-protection"
_CLASSES = BY_PATH["storage.k8s.io", "v1", "storageclasses"]
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_NO_SOURCE = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


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
    causes += _check_modes(spec)
    if not spec.get("capacity"):
        causes.append(required("spec.capacity"))
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in _RECLAIM_POLICIES:
        causes.append(unsupported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES))
    if not _source(spec):
        causes.append(required("spec", "must specify a volume type"))
    if "local" in spec and not spec.get("nodeAffinity"):
        causes.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return causes


def _source(spec: Json) -> Json:
    """What the volume is, by name of its type."""
    return {name: part for name, part in spec.items() if name not in _NO_SOURCE}


def _check_volume_update(old: Json, new: Json) -> list[Cause]:
    causes = []
    if _source(old["spec"]) != _source(new["spec"]):
        text = "spec.persistentvolumesource is immutable after creation"
        causes.append(forbidden_field("spec.persistentvolumesource", text))
    if old["spec"].get("volumeMode") != new["spec"].get("volumeMode"):
        causes.append(invalid_value("spec.volumeMode", new["spec"].get("volumeMode"), "field is immutable"))
    before = old["spec"].get("nodeAffinity")
    if before is not None and before != new["spec"].get("nodeAffinity"):
        causes.append(invalid_value("spec.nodeAffinity", new["spec"].get("nodeAffinity"), "field is immutable"))
    return causes or _check_volume(new)


def _check_modes(spec: Json) -> list[Cause]:
    sent = spec.get("accessModes") or ()
    causes = [unsupported("spec.accessModes", mode, _MODES) for mode in sent if mode not in _MODES]
    if "ReadWriteOncePod" in sent and len(sent) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        causes.append(forbidden_field("spec.accessModes", text))
    return causes


PERSISTENT_VOLUME = Rules(
    default=_default_volume, on_create=_create_volume, validate=_check_volume, validate_update=_check_volume_update
)


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
        c for c in classes if any((c["metadata"].get("annotations") or {}).get(a) == "true" for a in DEFAULT_CLASS)
    ]
    if defaults:
        newest = max(defaults, key=lambda c: (c["metadata"]["creationTimestamp"], c["metadata"]["name"]))
        claim["spec"]["storageClassName"] = newest["metadata"]["name"]


def _check_claim(claim: Json) -> list[Cause]:
    spec = claim["spec"]
    causes = []
    if not spec.get("accessModes"):
        causes.append(required("spec.accessModes", "at least 1 access mode is required"))
    causes += _check_modes(spec)
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if asked is None:
        causes.append(required("spec.resources[storage]"))
    elif quantity.value(asked) <= 0:
        causes.append(invalid_value("spec.resources[storage]", asked, "must be greater than zero"))
    return causes


def _check_claim_update(old: Json, new: Json) -> list[Cause]:
    """The spec stays, but for the volume that a claim is given, its size and its attributes class."""
    before, after = dict(old["spec"]), dict(new["spec"])
    if not before.get("volumeName"):
        after.pop("volumeName", None)
    for spec in (before, after):
        for name in ("resources", "volumeAttributesClassName"):
            spec.pop(name, None)
    if before != after:
        text = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound "
        return [forbidden_field("spec", text + "claims")]
    sizes = [quantity.value(d["spec"]["resources"]["requests"]["storage"]) for d in (old, new)]
    if sizes[1] < sizes[0]:
        text = "field can not be less than status.capacity"
        return [forbidden_field("spec.resources.requests.storage", text)]
    return []


PERSISTENT_VOLUME_CLAIM = Rules(
    default=_default_claim,
    on_create=_create_claim,
    admit=_admit_claim,
    validate=_check_claim,
    validate_update=_check_claim_update,
)


def _default_class(document: Json) -> None:
    document.setdefault("reclaimPolicy", "Delete")
    document.setdefault("volumeBindingMode", "Immediate")


def _check_class(document: Json) -> list[Cause]:
    causes = [] if document.get("provisioner") else [required("provisioner")]
    for name, known in (("reclaimPolicy", ("Delete", "Retain")), ("volumeBindingMode", _BINDING_MODES)):
        if document.get(name) not in known:
            causes.append(unsupported(name, document.get(name), known))
    return causes


def _check_class_update(old: Json, new: Json) -> list[Cause]:
    fixed = ("parameters", "provisioner", "reclaimPolicy")
    causes = [
        forbidden_field(name, f"updates to {name} are forbidden.") for name in fixed if old.get(name) != new.get(name)
    ]
    if old.get("volumeBindingMode") != new.get("volumeBindingMode"):
        causes.append(invalid_value("volumeBindingMode", new.get("volumeBindingMode"), "field is immutable"))
    return causes


STORAGE_CLASS = Rules(default=_default_class, validate=_check_class, validate_update=_check_class_update)


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
