"""Claims and volumes: finds a volume for a claim, ties the two together, and sees to what a deleted claim leaves.

What the scheduler has prepared for a claim that waits for its first consumer (a volume that names the claim, or the
node chosen for it) is completed here; its VolumeBinding plugin waits for the fields that `_tie` writes.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.api import quantity
from kubesched.apiserver.controllers.base import Controller
from kubesched.apiserver.label_selectors import selector_test
from kubesched.apiserver.resources import BY_PATH, core
from kubesched.apiserver.store import Change, Json, Stored

CLAIMS, VOLUMES = core("persistentvolumeclaims"), core("persistentvolumes")
CLASSES = BY_PATH["storage.k8s.io", "v1", "storageclasses"]
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
_BETA_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class VolumeBinder(Controller):
    name = "persistentvolume-binder-controller"
    component = "persistentvolume-controller"
    watched = (CLAIMS, VOLUMES, CLASSES)

    def existing(self) -> Iterator[str]:
        yield from [f"claim {key}" for key in self.api.store.of(CLAIMS).items]
        yield from [f"volume {key}" for key in self.api.store.of(VOLUMES).items]

    def keys_of(self, change: Change) -> Iterator[str]:
        stored = change.stored
        if stored.body.startswith(CLAIMS.prefix):
            yield f"claim {stored.key}"
            volume = stored.document()["spec"].get("volumeName")
            if volume:
                yield f"volume {volume}"
            return
        if stored.body.startswith(VOLUMES.prefix):
            yield f"volume {stored.key}"
            claim = stored.document()["spec"].get("claimRef")
            if claim:
                yield f"claim {claim['namespace']}/{claim['name']}"
                return
        for claim in self.api.store.of(CLAIMS).items.values():  # a free volume or a class may be what they wait for
            if b'"volumeName":' not in claim.body:
                yield f"claim {claim.key}"

    def settle(self, key: str) -> None:
        sort, _, name = key.partition(" ")
        if sort == "claim":
            stored = self.find(CLAIMS, name)
            if stored is not None:
                self._settle_claim(stored)
        else:
            stored = self.find(VOLUMES, name)
            if stored is not None:
                self._settle_volume(stored)

    # Claims.

    def _settle_claim(self, stored: Stored) -> None:
        claim = stored.document()
        if BIND_COMPLETED in _annotations(claim):
            self._check_bound(stored, claim)
            return
        if "deletionTimestamp" in claim["metadata"]:
            return
        named = claim["spec"].get("volumeName")
        if named:
            volume = self.find(VOLUMES, named)
            if volume is not None and _free_for(volume.document(), claim):
                self._tie(stored, volume)
            return
        volume = self._reserved_for(claim)
        delayed = self._is_delayed(claim)
        if volume is None and not delayed:
            volume = self._best_for(claim)
        if volume is not None:
            self._tie(stored, volume)
        elif delayed and SELECTED_NODE not in _annotations(claim):
            text = "waiting for first consumer to be created before binding"
            self._tell_once(claim, "Normal", "WaitForFirstConsumer", text)
        else:
            self._ask_provisioner(stored, claim)

    def _is_delayed(self, claim: Json) -> bool:
        """Whether the scheduler chooses for the claim: a free volume, or a node for which one is made."""
        storage_class = self._class_of(claim)
        return storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"

    def _class_of(self, claim: Json) -> Json | None:
        stored = self.find(CLASSES, class_name(claim))
        return stored.document() if stored is not None else None

    def _reserved_for(self, claim: Json) -> Stored | None:
        """A volume that names the claim: set aside by its owner, the scheduler or a provisioner."""
        for volume in self.api.store.of(VOLUMES).items.values():
            if b'"claimRef":' in volume.body and _is_of(volume.document(), claim):
                return volume
        return None

    def _best_for(self, claim: Json) -> Stored | None:
        """The smallest free volume that has what the claim asks for."""
        found = [
            (quantity.value(document["spec"]["capacity"]["storage"]), stored.name, stored)
            for stored in self.api.store.of(VOLUMES).items.values()
            if b'"claimRef":' not in stored.body and _fits(document := stored.document(), claim)
        ]
        return min(found, default=(0, "", None), key=lambda entry: entry[:2])[2]

    def _ask_provisioner(self, stored: Stored, claim: Json) -> None:
        storage_class = self._class_of(claim)
        if storage_class is None:
            name = class_name(claim)
            if name:
                text = f'storageclass.storage.k8s.io "{name}" not found'
                self._tell_once(claim, "Warning", "ProvisioningFailed", text)
            else:
                text = "no persistent volumes available for this claim and no storage class is set"
                self._tell_once(claim, "Normal", "FailedBinding", text)
            return
        provisioner = storage_class["provisioner"]
        if provisioner == NO_PROVISIONER:
            return
        annotations = _annotations(claim)
        if annotations.get(PROVISIONER) != provisioner:
            annotations[PROVISIONER] = annotations[_BETA_PROVISIONER] = provisioner
            claim["metadata"]["annotations"] = annotations
            self.update(CLAIMS, stored, claim)
        text = f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by "
        text += "the system administrator. If volume creation is delayed, please verify that the provisioner is "
        self._tell_once(claim, "Normal", "ExternalProvisioning", text + "running and correctly registered.")

    def _tell_once(self, claim: Json, type_: str, reason: str, message: str) -> None:
        if (claim["metadata"]["uid"], reason, message) not in self._told:
            self.event(claim, type_, reason, message)

    # The two together.

    def _tie(self, claim_stored: Stored, volume_stored: Stored) -> None:
        volume, claim = volume_stored.document(), claim_stored.document()
        reference = volume["spec"].get("claimRef") or {}
        if reference.get("uid") != claim_stored.uid:
            volume["spec"]["claimRef"] = claim_reference(claim)
            if not reference:
                volume["metadata"]["annotations"] = {**_annotations(volume), BOUND_BY_CONTROLLER: "yes"}
            volume_stored = self._must(self.update(VOLUMES, volume_stored, volume))
        self._set_phase(volume_stored, "Bound")
        annotations = _annotations(claim)
        if not claim["spec"].get("volumeName"):
            claim["spec"]["volumeName"] = volume_stored.name
            annotations[BOUND_BY_CONTROLLER] = "yes"
        claim["metadata"]["annotations"] = {**annotations, BIND_COMPLETED: "yes"}
        claim_stored = self._must(self.update(CLAIMS, claim_stored, claim))
        self._show_bound(claim_stored, volume)

    def _show_bound(self, claim_stored: Stored, volume: Json) -> None:
        claim = claim_stored.document()
        claim["status"] = {
            **(claim.get("status") or {}),
            "phase": "Bound",
            "accessModes": volume["spec"]["accessModes"],
            "capacity": {"storage": volume["spec"]["capacity"]["storage"]},
        }
        self.update_status(CLAIMS, claim_stored, claim)

    def _check_bound(self, stored: Stored, claim: Json) -> None:
        """A bound claim shows its volume, or that it has lost it."""
        name = claim["spec"].get("volumeName", "")
        volume = self.find(VOLUMES, name)
        document = volume.document() if volume is not None else None
        if volume is None or document is None or not _is_of(document, claim):
            phase = (claim.get("status") or {}).get("phase")
            if phase != "Lost":
                claim["status"] = {"phase": "Lost"}
                self.update_status(CLAIMS, stored, claim)
                text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                self.event(claim, "Warning", "ClaimLost", text)
            return
        if (document["spec"].get("claimRef") or {}).get("uid") != stored.uid or document["status"]["phase"] != "Bound":
            self._tie(stored, volume)
        elif (claim.get("status") or {}).get("phase") != "Bound":
            self._show_bound(stored, document)

    # Volumes.

    def _settle_volume(self, stored: Stored) -> None:
        volume = stored.document()
        reference = volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):
            self._set_phase(stored, "Available")
            return
        claim = self.find(CLAIMS, f"{reference['namespace']}/{reference['name']}")
        if claim is not None and claim.uid == reference["uid"]:
            if (claim.document()["spec"].get("volumeName") or stored.name) != stored.name:
                self._release(stored)
            return
        self._release(stored)

    def _release(self, stored: Stored) -> None:
        """The claim is gone. No storage is behind a volume here, so to reclaim it is to delete the object."""
        volume = stored.document()
        if "deletionTimestamp" in volume["metadata"]:
            return
        self._set_phase(stored, "Released")
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            released = self.find(VOLUMES, stored.key)
            if released is not None:
                self.delete(VOLUMES, released)

    def _set_phase(self, stored: Stored, phase: str) -> None:
        volume = stored.document()
        if (volume.get("status") or {}).get("phase") != phase:
            volume["status"] = {"phase": phase, "lastPhaseTransitionTime": self.api.now()}
            self.update_status(VOLUMES, stored, volume)

    @staticmethod
    def _must(stored: Stored | None) -> Stored:
        assert stored is not None
        return stored


def class_name(claim: Json) -> str:
    return str(_annotations(claim).get(_BETA_CLASS) or claim["spec"].get("storageClassName") or "")


def claim_reference(claim: Json) -> Json:
    metadata = claim["metadata"]
    return {
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "apiVersion": "v1",
        "resourceVersion": metadata["resourceVersion"],
    }


def _annotations(document: Json) -> Json:
    return dict(document["metadata"].get("annotations") or {})


def _is_of(volume: Json, claim: Json) -> bool:
    """Whether the volume names this claim (and no earlier one of its name)."""
    reference, metadata = volume["spec"].get("claimRef") or {}, claim["metadata"]
    named = (reference.get("namespace"), reference.get("name")) == (metadata["namespace"], metadata["name"])
    return named and reference.get("uid") in (None, "", metadata["uid"])


def _free_for(volume: Json, claim: Json) -> bool:
    return not volume["spec"].get("claimRef") or _is_of(volume, claim)


def _fits(volume: Json, claim: Json) -> bool:
    have, want = volume["spec"], claim["spec"]
    if "deletionTimestamp" in volume["metadata"] or (have.get("storageClassName") or "") != class_name(claim):
        return False
    if have.get("volumeMode", "Filesystem") != want.get("volumeMode", "Filesystem"):
        return False
    if not set(want.get("accessModes") or ()) <= set(have.get("accessModes") or ()):
        return False
    selector = want.get("selector")
    if selector and not selector_test(selector)(volume["metadata"].get("labels") or {}):
        return False
    return quantity.value(have["capacity"]["storage"]) >= quantity.value(want["resources"]["requests"]["storage"])
