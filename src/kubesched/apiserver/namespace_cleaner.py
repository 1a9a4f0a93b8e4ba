"""Plays the namespace controller: a namespace that is being deleted loses its objects, and then itself.

A watcher of the store, like the node simulator: bound pods get their grace period first, so a namespace with running
pods goes when the last of them is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesched.apiserver.deleting import Options, delete_object
from kubesched.apiserver.resources import core
from kubesched.apiserver.store import DELETED, Change, Collection
from kubesched.clock import Timer

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

_NAMESPACES = core("namespaces")


class NamespaceCleaner:
    def __init__(self, api: Api) -> None:
        self._api = api
        self._leaving: dict[str, Timer | None] = {}

    def start(self) -> None:
        for collection in self._watched():
            collection.add_watcher(self)

    def stop(self) -> None:
        for collection in self._watched():
            collection.remove_watcher(self)
        for timer in self._leaving.values():
            if timer is not None:
                timer.cancel()
        self._leaving.clear()

    def offer(self, change: Change) -> None:
        stored = change.stored
        if not stored.namespace:
            if change.type != DELETED and stored.fields[:1] == ("Terminating",):
                self._later(stored.name)
        elif change.type == DELETED and stored.namespace in self._leaving:
            self._later(stored.namespace)

    def _watched(self) -> list[Collection]:
        """The namespaces, and all that can lie in one."""
        return [
            collection
            for collection in self._api.store.collections.values()
            if collection.resource.namespaced or collection.resource is _NAMESPACES
        ]

    def _later(self, namespace: str) -> None:
        if self._leaving.get(namespace) is None:
            self._leaving[namespace] = self._api.clock.call_later(0.0, self._clean, namespace)

    def _clean(self, namespace: str) -> None:
        self._leaving[namespace] = None
        left = 0
        for collection in self._watched():
            if not collection.resource.namespaced:
                continue
            for stored in list(collection.scan(namespace)):
                _, gone = delete_object(self._api, collection.resource, stored, Options())
                left += not gone
        found = self._api.get("namespaces", "", namespace)
        if left or found is None:
            return
        del self._leaving[namespace]
        document = found.document()
        document["spec"].pop("finalizers", None)
        if not document["metadata"].get("finalizers"):
            self._api.store.delete(_NAMESPACES, found, document)
