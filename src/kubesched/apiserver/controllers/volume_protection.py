"""Claims in use by pods and volumes bound to claims outlive their deletion until they are free."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.apiserver.controllers.base import PODS, Controller
from kubesched.apiserver.controllers.volume_binder import CLAIMS, VOLUMES
from kubesched.apiserver.resources import Resource
from kubesched.apiserver.rules.storage import PV_PROTECTION, PVC_PROTECTION
from kubesched.apiserver.store import Change, Json, Stored


class ClaimProtection(Controller):
    name = "persistentvolumeclaim-protection-controller"
    watched = (CLAIMS, PODS)

    def keys_of(self, change: Change) -> Iterator[str]:
        stored = change.stored
        if stored.body.startswith(CLAIMS.prefix):
            yield stored.key
        elif b'"claimName":' in stored.body:
            yield from (f"{stored.namespace}/{name}" for name in _claims_of(stored.document()))

    def settle(self, key: str) -> None:
        claim = self.find(CLAIMS, key)
        if claim is not None and b'"deletionTimestamp"' in claim.body and not self._in_use(claim):
            release(self, CLAIMS, claim, PVC_PROTECTION)

    def _in_use(self, claim: Stored) -> bool:
        named = f'"claimName":"{claim.name}"'.encode()
        for pod in self.api.store.of(PODS).scan(claim.namespace):
            if named in pod.body:
                document = pod.document()
                ended = document["status"].get("phase") in ("Succeeded", "Failed")
                if not ended and claim.name in _claims_of(document):
                    return True
        return False


class VolumeProtection(Controller):
    name = "persistentvolume-protection-controller"
    watched = (VOLUMES,)

    def keys_of(self, change: Change) -> Iterator[str]:
        yield change.stored.key

    def settle(self, key: str) -> None:
        volume = self.find(VOLUMES, key)
        if volume is None or b'"deletionTimestamp"' not in volume.body:
            return
        if (volume.document().get("status") or {}).get("phase") != "Bound":
            release(self, VOLUMES, volume, PV_PROTECTION)


def release(controller: Controller, resource: Resource, stored: Stored, finalizer: str) -> None:
    """Takes a finalizer off; with the last one the object goes."""
    document = stored.document()
    finalizers = document["metadata"].get("finalizers") or []
    if finalizer in finalizers:
        document["metadata"]["finalizers"] = [name for name in finalizers if name != finalizer]
        controller.update(resource, stored, document)


def _claims_of(pod: Json) -> list[str]:
    volumes = pod["spec"].get("volumes") or ()
    return [v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v]
