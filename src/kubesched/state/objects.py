"""Indexes of the other objects that scheduling reads: volumes, claims, classes, budgets, services, namespaces, ...

One dictionary a kind, by (namespace, name). `version(kind)` grows with each change of the kind, so that what was
derived from it can be kept until then. Pods and nodes are not here: they live in the node table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

#: (namespace, name); namespace is "" for cluster-scoped kinds.
ObjectKey: TypeAlias = tuple[str, str]


def key_of(obj: Any) -> ObjectKey:
    return obj.metadata.namespace, obj.metadata.name


class ObjectIndex:
    """Objects by kind name ("PersistentVolumeClaim") and key."""

    __slots__ = ("_kinds", "_versions")

    def __init__(self) -> None:
        self._kinds: dict[str, dict[ObjectKey, Any]] = {}
        self._versions: dict[str, int] = {}

    def get(self, kind: str, name: str, namespace: str = "") -> Any | None:
        return self._kinds.get(kind, {}).get((namespace, name))

    def list(self, kind: str, namespace: str | None = None) -> Iterator[Any]:
        """Every object of the kind, in one namespace or in all."""
        for (where, _), obj in self._kinds.get(kind, {}).items():
            if namespace is None or where == namespace:
                yield obj

    def version(self, *kinds: str) -> int:
        return sum(self._versions.get(kind, 0) for kind in kinds)

    def keys(self, kind: str) -> Iterable[ObjectKey]:
        return self._kinds.get(kind, {}).keys()

    def put(self, kind: str, obj: Any) -> Any | None:
        """Store the object; returns the version before, or None."""
        objects = self._kinds.setdefault(kind, {})
        key = key_of(obj)
        old = objects.get(key)
        objects[key] = obj
        self._versions[kind] = self._versions.get(kind, 0) + 1
        return old

    def remove(self, kind: str, key: ObjectKey) -> Any | None:
        """Returns the last known version, or None when there was none."""
        old = self._kinds.get(kind, {}).pop(key, None)
        if old is not None:
            self._versions[kind] = self._versions.get(kind, 0) + 1
        return old
