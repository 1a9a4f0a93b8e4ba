"""Who owns what: an index over owner references, kept current by watching every kind.

Controllers ask it for the objects of an owner, the garbage collector for what an object that is gone has left behind.
Only the references are decoded, never the objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kubesched.apiserver import writing
from kubesched.apiserver.label_selectors import as_label_selector, selector_test
from kubesched.apiserver.resources import Resource
from kubesched.apiserver.store import DELETED, Change, Json, Stored
from kubesched.workloads import owner_reference

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api


class Reference(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One entry of metadata.ownerReferences."""

    kind: str
    name: str
    uid: str = ""
    api_version: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class _Metadata(msgspec.Struct, frozen=True, rename="camel", gc=False):
    owner_references: tuple[Reference, ...] = ()


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata


_ADOPTED = frozenset({"pods", "replicasets"})
_decode = msgspec.json.Decoder(_Object).decode


def references_of(stored: Stored) -> tuple[Reference, ...]:
    if b'"ownerReferences":[' not in stored.body:
        return ()
    return _decode(stored.body).metadata.owner_references


class OwnerIndex:
    def __init__(self, api: Api) -> None:
        self._api = api
        self._watches: list[_Watch] = []
        #: uid of an owner -> resource and key of each object that refers to it
        self._dependents: dict[str, dict[tuple[Resource, str], None]] = {}
        #: resource and namespace -> keys of what nobody owns, of the kinds that controllers adopt
        self._free: dict[tuple[str, str], dict[str, None]] = {}

    def start(self) -> None:
        """Takes up what is there; before any controller, so that each finds the index current."""
        for collection in self._api.store.collections.values():
            if collection.resource.kind == "Event":
                continue
            watch = _Watch(self, collection.resource)
            self._watches.append(watch)
            collection.add_watcher(watch)
            for stored in collection.items.values():
                self.take(collection.resource, stored, references_of(stored))

    def stop(self) -> None:
        for watch in self._watches:
            self._api.store.of(watch.resource).remove_watcher(watch)
        self._watches.clear()
        self._dependents.clear()
        self._free.clear()

    def take(self, resource: Resource, stored: Stored, references: tuple[Reference, ...]) -> None:
        if not references and resource.plural in _ADOPTED:
            self._free.setdefault((resource.plural, stored.namespace), {})[stored.key] = None
        for reference in references:
            self._dependents.setdefault(reference.uid, {})[resource, stored.key] = None

    def drop(self, resource: Resource, stored: Stored, references: tuple[Reference, ...]) -> None:
        if not references and resource.plural in _ADOPTED:
            self._free.get((resource.plural, stored.namespace), {}).pop(stored.key, None)
        for reference in references:
            held = self._dependents.get(reference.uid)
            if held is not None:
                held.pop((resource, stored.key), None)
                if not held:
                    del self._dependents[reference.uid]

    def dependents(self, uid: str) -> list[tuple[Resource, Stored]]:
        """Every object that names this owner, in no particular order."""
        return [(resource, self._api.store.of(resource).items[key]) for resource, key in self._dependents.get(uid, ())]

    def controller_of(self, stored: Stored) -> Reference | None:
        return next((reference for reference in references_of(stored) if reference.controller), None)

    def owned(self, resource: Resource, uid: str) -> list[Stored]:
        """The objects of one kind that an owner controls, by key."""
        found = [stored for kind, stored in self.dependents(uid) if kind is resource]
        return sorted(found, key=lambda stored: stored.key)

    def claim(self, resource: Resource, owner: Json, selector: Json | None) -> list[tuple[Stored, Json]]:
        """What the owner controls. Objects that match its selector and have no controller are adopted, those of its own
        that match no longer are let go; neither while one of the two is being deleted."""
        matches = selector_test(as_label_selector(selector))
        meta = owner["metadata"]
        claimed = []
        for stored in self.owned(resource, meta["uid"]):
            document = stored.document()
            if matches(stored.labels) or "deletionTimestamp" in document["metadata"]:
                claimed.append((stored, document))
            else:
                self._let_go(resource, stored, document, meta["uid"])
        if "deletionTimestamp" not in meta:
            items = self._api.store.of(resource).items
            for stored in [items[key] for key in self._free.get((resource.plural, meta["namespace"]), ())]:
                if matches(stored.labels):
                    document = stored.document()
                    if "deletionTimestamp" not in document["metadata"]:
                        claimed.append(self._adopt(resource, stored, document, owner))
        return claimed

    def _adopt(self, resource: Resource, stored: Stored, document: Json, owner: Json) -> tuple[Stored, Json]:
        document["metadata"]["ownerReferences"] = [owner_reference(owner)]
        _, result = writing.update_object(self._api, resource, stored, stored.document(), document)
        assert result is not None
        return result, result.document()

    def _let_go(self, resource: Resource, stored: Stored, document: Json, uid: str) -> None:
        meta = document["metadata"]
        meta["ownerReferences"] = [r for r in meta["ownerReferences"] if r.get("uid") != uid]
        writing.update_object(self._api, resource, stored, stored.document(), document)


class _Watch:
    """The index's ear at one kind."""

    def __init__(self, index: OwnerIndex, resource: Resource) -> None:
        self.resource = resource
        self._index = index

    def offer(self, change: Change) -> None:
        before = references_of(change.previous) if change.previous is not None else None
        after = references_of(change.stored) if change.type != DELETED else None
        if before == after:
            return
        if before is not None:
            self._index.drop(self.resource, change.stored, before)
        if after is not None:
            self._index.take(self.resource, change.stored, after)
