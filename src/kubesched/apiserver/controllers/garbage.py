"""The garbage collector: what an owner that is deleted leaves behind goes with it, before it, or stays as orphans.

An object goes when the last of its owners has been seen to go. Objects that name owners which never were here (a part
of a dump) are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubesched.apiserver import deleting
from kubesched.apiserver.controllers.base import EVENTS, Controller
from kubesched.apiserver.controllers.owners import Reference, references_of
from kubesched.apiserver.controllers.volume_protection import release
from kubesched.apiserver.resources import RESOURCES, Resource, by_kind
from kubesched.apiserver.store import DELETED, Change, Stored

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class _Type(msgspec.Struct, frozen=True, rename="camel", gc=False):
    kind: str
    api_version: str


_type_of = msgspec.json.Decoder(_Type).decode


class GarbageCollector(Controller):
    name = "garbage-collector-controller"
    watched = tuple({r.storage: r for r in RESOURCES if r.is_stored and r.storage != EVENTS.storage}.values())

    def existing(self) -> list[str]:
        return []

    def keys_of(self, change: Change) -> Iterator[str]:
        stored = change.stored
        if change.type == DELETED:
            if self.owners.dependents(stored.uid):
                yield f"gone {stored.uid}"
            for reference in references_of(stored):
                owner = self._owner(stored, reference)
                if owner is not None and b'"foregroundDeletion"' in owner[1].body:
                    yield _held(*owner)
        elif b'"deletionTimestamp"' in stored.body and _is_held(stored):
            type_ = _type_of(stored.body)
            resource = by_kind(type_.api_version, type_.kind)
            if resource is not None:
                yield _held(resource, stored)

    def settle(self, key: str) -> None:
        what, _, rest = key.partition(" ")
        if what == "gone":
            self._collect(rest)
            return
        api_version, kind, name = rest.split(" ")
        resource = by_kind(api_version, kind)
        stored = self.find(resource, name) if resource is not None else None
        if resource is None or stored is None or not _is_held(stored):
            return
        finalizers = stored.document()["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            self._orphan(stored.uid)
            release(self, resource, stored, ORPHAN)
        elif FOREGROUND in finalizers:
            self._collect_first(resource, stored)

    def _collect(self, uid: str) -> None:
        for resource, stored in self.owners.dependents(uid):
            others = [r for r in references_of(stored) if r.uid != uid and self._owner(stored, r) is not None]
            if others:
                self._let_go(resource, stored, uid)
            elif b'"deletionTimestamp"' not in stored.body:
                deleting.delete_object(self.api, resource, stored, deleting.Options(policy="Background"))

    def _collect_first(self, resource: Resource, owner: Stored) -> None:
        """Foreground: dependents go first; the owner waits for those that block it."""
        for kind, stored in self.owners.dependents(owner.uid):
            if b'"deletionTimestamp"' not in stored.body:
                policy = "Foreground" if self.owners.dependents(stored.uid) else "Background"
                deleting.delete_object(self.api, kind, stored, deleting.Options(policy=policy))
        blocking = [
            stored
            for _, stored in self.owners.dependents(owner.uid)
            if any(r.uid == owner.uid and r.block_owner_deletion for r in references_of(stored))
        ]
        current = self.find(resource, owner.key)
        if not blocking and current is not None:
            release(self, resource, current, FOREGROUND)

    def _orphan(self, uid: str) -> None:
        for resource, stored in self.owners.dependents(uid):
            self._let_go(resource, stored, uid)

    def _let_go(self, resource: Resource, stored: Stored, uid: str) -> None:
        document = stored.document()
        meta = document["metadata"]
        meta["ownerReferences"] = [r for r in meta["ownerReferences"] if r.get("uid") != uid]
        self.update(resource, stored, document)

    def _owner(self, dependent: Stored, reference: Reference) -> tuple[Resource, Stored] | None:
        """The object that a reference means, if it is there."""
        resource = by_kind(reference.api_version, reference.kind)
        if resource is None or resource.storage not in self.api.store.collections:
            return None
        stored = self.api.store.of(resource).get(dependent.namespace, reference.name)
        return (resource, stored) if stored is not None and stored.uid == reference.uid else None


def _is_held(stored: Stored) -> bool:
    return b'"foregroundDeletion"' in stored.body or b'"orphan"' in stored.body


def _held(resource: Resource, stored: Stored) -> str:
    return f"held {resource.api_version} {resource.kind} {stored.key}"
