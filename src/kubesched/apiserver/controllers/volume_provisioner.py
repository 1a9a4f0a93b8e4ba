"""The provisioner of the demo classes: makes a volume for a claim that asks for one.

It stands where the external provisioner of a CSI driver stands: the binder marks a claim for it, it creates a volume
that names the claim, and the binder ties the two. A volume made for a chosen node can be reached from the node's zone
(its host where it has no zone); one made at once is in a zone that the class allows, or anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesched.apiserver.controllers.base import NODES, Controller
from kubesched.apiserver.controllers.volume_binder import (
    CLAIMS,
    CLASSES,
    PROVISIONER,
    SELECTED_NODE,
    VOLUMES,
    claim_reference,
    class_name,
)
from kubesched.apiserver.store import Change, Json

DEMO_PROVISIONER = "kubesched.io/demo"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_DEMO_CLASSES = {"demo": "WaitForFirstConsumer", "demo-immediate": "Immediate"}


class VolumeProvisioner(Controller):
    name = "demo-volume-provisioner"
    component = DEMO_PROVISIONER
    watched = (CLAIMS,)

    def start(self) -> None:
        """The two demo classes are made where they are missing; the first is the default if no other is."""
        classes = self.api.store.of(CLASSES)
        a_default = any(f'"{_IS_DEFAULT}":"true"'.encode() in stored.body for stored in classes.items.values())
        for name, mode in _DEMO_CLASSES.items():
            if classes.get("", name) is None:
                annotations = {} if a_default else {_IS_DEFAULT: "true"}
                a_default = True
                metadata = {"name": name, "annotations": annotations}
                document = {"metadata": metadata, "provisioner": DEMO_PROVISIONER, "volumeBindingMode": mode}
                self.create(CLASSES, {**document, "reclaimPolicy": "Delete"})
        super().start()

    def keys_of(self, change: Change) -> Iterator[str]:
        if DEMO_PROVISIONER.encode() in change.stored.body:
            yield change.stored.key

    def settle(self, key: str) -> None:
        stored = self.find(CLAIMS, key)
        if stored is None:
            return
        claim = stored.document()
        annotations = claim["metadata"].get("annotations") or {}
        storage_class = self.find(CLASSES, class_name(claim))
        name = f"pvc-{stored.uid}"
        if (
            annotations.get(PROVISIONER) != DEMO_PROVISIONER
            or claim["spec"].get("volumeName")
            or "deletionTimestamp" in claim["metadata"]
            or storage_class is None
            or self.find(VOLUMES, name) is not None
        ):
            return
        volume = self._volume(name, claim, storage_class.document(), annotations.get(SELECTED_NODE))
        self.create(VOLUMES, volume)
        self.event(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    def _volume(self, name: str, claim: Json, storage_class: Json, node_name: str | None) -> Json:
        spec: Json = {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"]["accessModes"],
            "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "storageClassName": storage_class["metadata"]["name"],
            "claimRef": claim_reference(claim),
            "hostPath": {"path": f"/var/lib/kubesched/{name}"},
        }
        required = self._where(storage_class, node_name)
        if required:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": required}]}}
        return {"metadata": {"name": name, "annotations": {_PROVISIONED_BY: DEMO_PROVISIONER}}, "spec": spec}

    def _where(self, storage_class: Json, node_name: str | None) -> list[Any]:
        if node_name is not None:
            node = self.find(NODES, node_name)
            labels = node.labels if node is not None else {}
            key = _ZONE if _ZONE in labels else _HOST
            return [{"key": key, "operator": "In", "values": [labels.get(key, node_name)]}]
        for term in storage_class.get("allowedTopologies") or ():
            return [
                {"key": entry["key"], "operator": "In", "values": entry["values"]}
                for entry in term.get("matchLabelExpressions") or ()
            ]
        return []
