"""Indexes of the other objects that scheduling reads: volumes, claims, classes, budgets, services, namespaces, ...

One dictionary a kind, by (namespace, name). `version(kind)` grows with each change of the kind, so that what was
derived from it can be kept until then; `subscribe` is for those who must hear of each change. Pods and nodes are not
here: they live in the node table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

#: (namespace, name); namespace is "" for cluster-scoped kinds.
ObjectKey: TypeAlias = tuple[str, str]

#: Called with the object before and after a change; None for one that was not there, or no longer is.
Listener: TypeAlias = Callable[[Any | None, Any | None], object]


def key_of(obj: Any) -> ObjectKey:
    return obj.metadata.namespace, obj.metadata.name


class ObjectIndex:
    """Objects by kind name ("PersistentVolumeClaim") and key."""

    __slots__ = ("_kinds", "_listeners", "_versions", "change_count")

    def __init__(self) -> None:
        self._kinds: dict[str, dict[ObjectKey, Any]] = {}
        self._versions: dict[str, int] = {}
        #: Grows with each change of any kind.
        self.change_count = 0
        self._listeners: dict[str, list[Listener]] = {}

    def get(self, kind: str, name: str, namespace: str = "") -> Any | None:
        return self._kinds.get(kind, {}).get((namespace, name))

    def list(self, kind: str, namespace: str | None = None) -> Iterator[Any]:
        """Every object of the kind, in one namespace or in all."""
        for (where, _), obj in self._kinds.get(kind, {}).items():
            if namespace is None or where == namespace:
                yield obj

    def version(self, *kinds: str) -> int:
        versions = self._versions
        total = 0
        for kind in kinds:
            total += versions.get(kind, 0)
        return total

    def keys(self, kind: str) -> Iterable[ObjectKey]:
        return self._kinds.get(kind, {}).keys()

    def subscribe(self, kind: str, listener: Listener) -> Callable[[], None]:
        """Call `listener` after each change of the kind, until the returned function is called. It must not raise."""
        listeners = self._listeners.setdefault(kind, [])
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def put(self, kind: str, obj: Any) -> Any | None:
        """Store the object; returns the version before, or None."""
        objects = self._kinds.setdefault(kind, {})
        key = key_of(obj)
        old = objects.get(key)
        objects[key] = obj
        self._changed(kind, old, obj)
        return old

    def remove(self, kind: str, key: ObjectKey) -> Any | None:
        """Returns the last known version, or None when there was none."""
        old = self._kinds.get(kind, {}).pop(key, None)
        if old is not None:
            self._changed(kind, old, None)
        return old

    def touch(self, kind: str) -> None:
        """Count a change of what readers see of the kind though no object in here changed."""
        self._versions[kind] = self._versions.get(kind, 0) + 1
        self.change_count += 1

    def _changed(self, kind: str, old: Any | None, new: Any | None) -> None:
        self.touch(kind)
        for listener in tuple(self._listeners.get(kind, ())):
            listener(old, new)
