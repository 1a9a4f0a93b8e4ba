"""`AssumedVolumes`: volumes and claims as the watch shows them, with what the scheduler has decided laid over.

A decision counts from the moment it is made: a volume promised to a claim is no longer free for the next pod, although
the API server has not heard of it yet. It stands until the watch shows a newer version of the object (which then
carries the decision or contradicts it), until the object is gone, or until it is taken back. An older version, such as
a late event, does not undo it. One instance for all profiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubesched.api.core import PersistentVolume, PersistentVolumeClaim
from kubesched.state.objects import ObjectIndex, ObjectKey, key_of

VOLUME: Final = "PersistentVolume"
CLAIM: Final = "PersistentVolumeClaim"

#: Older manifests name the class of a claim or volume here; it has precedence over the field.
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


class AssumedVolumes:
    __slots__ = ("_assumed", "_free", "_objects", "_reserved")

    def __init__(self, objects: ObjectIndex) -> None:
        self._objects = objects
        self._assumed: dict[str, dict[ObjectKey, Any]] = {VOLUME: {}, CLAIM: {}}
        #: Names of the volumes of each class that the watch shows without a claim, in order of first sight: that is
        #: how they lie in memory, and there may be thousands.
        self._free: dict[str, dict[str, None]] = {}
        #: Names of the volumes that the watch shows with a claim, by the claim.
        self._reserved: dict[ObjectKey, dict[str, None]] = {}
        for volume in objects.list(VOLUME):
            self._index(None, volume)
        objects.subscribe(VOLUME, self._volume_changed)
        objects.subscribe(CLAIM, self._claim_changed)

    # -- reading

    def volume(self, name: str) -> PersistentVolume | None:
        volume: PersistentVolume | None = self._get(VOLUME, ("", name))
        return volume

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        claim: PersistentVolumeClaim | None = self._get(CLAIM, (namespace, name))
        return claim

    def free_volumes(self, class_name: str) -> Iterator[PersistentVolume]:
        """Volumes of the class without a claim, in no particular order."""
        assumed, get = self._assumed[VOLUME], self._objects.get
        for name in self._free.get(class_name, ()):
            if ("", name) not in assumed:
                volume: PersistentVolume | None = get(VOLUME, name)
                assert volume is not None, f"volume {name} is indexed but not there"
                yield volume

    def volumes_naming(self, namespace: str, claim: str) -> list[PersistentVolume]:
        """Volumes whose `claimRef` speaks of a claim of this name, by name."""
        key = (namespace, claim)
        names = set(self._reserved.get(key, ()))
        names.update(name for (_, name), volume in self._assumed[VOLUME].items() if _claim_key(volume) == key)
        volumes = [self._known(name) for name in sorted(names)]
        return [volume for volume in volumes if _claim_key(volume) == key]

    # -- deciding

    def assume_volume(self, volume: PersistentVolume) -> None:
        """`volume`: the version at hand with its `claimRef` set."""
        self._assume(VOLUME, volume)

    def assume_claim(self, claim: PersistentVolumeClaim) -> None:
        """`claim`: the version at hand with its selected node annotated."""
        self._assume(CLAIM, claim)

    def forget_volume(self, name: str) -> None:
        """Take the decision back; nothing to do if it no longer stands."""
        self._end(VOLUME, ("", name))

    def forget_claim(self, namespace: str, name: str) -> None:
        self._end(CLAIM, (namespace, name))

    def findings(self) -> list[str]:
        """What the indexes say that a fresh look at the volumes does not, and the other way round; for self-checks."""
        free: dict[str, set[str]] = {}
        reserved: dict[ObjectKey, set[str]] = {}
        for volume in self._objects.list(VOLUME):
            key = _claim_key(volume)
            names = free.setdefault(class_of_volume(volume), set()) if key is None else reserved.setdefault(key, set())
            names.add(volume.metadata.name)
        found = []
        if free != {name: set(volumes) for name, volumes in self._free.items()}:
            found.append("the index of free volumes differs from a recount")
        if reserved != {key: set(volumes) for key, volumes in self._reserved.items()}:
            found.append("the index of volumes by claim differs from a recount")
        for kind, decisions in self._assumed.items():
            for (namespace, name), assumed in decisions.items():
                shown = self._objects.get(kind, name, namespace)
                if shown is None or is_newer(shown, assumed):
                    found.append(f"{kind} {name} is still as assumed though the watch has gone on")
        return found

    # -- what stands

    def _get(self, kind: str, key: ObjectKey) -> Any | None:
        assumed = self._assumed[kind].get(key)
        return assumed if assumed is not None else self._objects.get(kind, key[1], key[0])

    def _assume(self, kind: str, obj: Any) -> None:
        self._assumed[kind][key_of(obj)] = obj
        self._objects.touch(kind)

    def _end(self, kind: str, key: ObjectKey) -> None:
        if self._assumed[kind].pop(key, None) is not None:
            self._objects.touch(kind)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        self._index(old, new)
        self._overtake(VOLUME, old, new)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        self._overtake(CLAIM, old, new)

    def _overtake(self, kind: str, old: Any | None, new: Any | None) -> None:
        key = key_of(new if new is not None else old)
        assumed = self._assumed[kind].get(key)
        if assumed is not None and (new is None or is_newer(new, assumed)):
            self._end(kind, key)

    def _known(self, name: str) -> PersistentVolume:
        volume = self.volume(name)
        assert volume is not None, f"volume {name} is indexed but not there"
        return volume

    def _index(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None:
            names = self._place(old)
            del names[old.metadata.name]
            if not names:
                self._forget_place(old)
        if new is not None:
            self._place(new)[new.metadata.name] = None

    def _place(self, volume: PersistentVolume) -> dict[str, None]:
        key = _claim_key(volume)
        if key is None:
            return self._free.setdefault(class_of_volume(volume), {})
        return self._reserved.setdefault(key, {})

    def _forget_place(self, volume: PersistentVolume) -> None:
        key = _claim_key(volume)
        if key is None:
            del self._free[class_of_volume(volume)]
        else:
            del self._reserved[key]


def is_newer(obj: Any, than: Any) -> bool:
    """Whether `obj` is a later version than `than`, or another object of its name. What cannot be compared is newer."""
    if obj.metadata.uid != than.metadata.uid:
        return True
    try:
        return int(obj.metadata.resource_version) > int(than.metadata.resource_version)
    except ValueError:
        return True


def _claim_key(volume: PersistentVolume) -> ObjectKey | None:
    reference = volume.spec.claim_ref
    return None if reference is None else (reference.namespace, reference.name)


def class_of_volume(volume: PersistentVolume) -> str:
    """The name of the volume's class, "" for none."""
    return volume.metadata.annotations.get(CLASS_ANNOTATION, volume.spec.storage_class_name)


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    """The name of the class that the claim asks for, "" for none."""
    return claim.metadata.annotations.get(CLASS_ANNOTATION, claim.spec.storage_class_name or "")
