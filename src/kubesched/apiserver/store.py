"""The versioned store: whole documents as encoded bytes, one counter of versions for all kinds, a bounded history.

Everything here is synchronous and runs on the server's loop, so a read and the write that depends on it cannot be torn
apart: optimistic concurrency is a comparison of numbers. The bytes of an object are encoded once per version and shared
by every reader and watcher; whoever wants to change an object decodes a fresh document, so nothing is ever aliased.

Beside the bytes a version carries the few facts that selectors ask for (labels, selectable fields), so that lists and
watches never decode what they only filter. The history of a kind answers three questions: what happened after version
N (watches), what did the kind look like at version N (pages and exact lists), and is N still known (410 otherwise).

It knows nothing of HTTP, of defaults or of what a pod is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

from kubesched.apiserver.resources import RESOURCES, Resource

Json = dict[str, Any]

encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

_AFTER_SLASH = "0"  # the byte after "/"
_FALSE_WHEN_ABSENT = frozenset({"spec.unschedulable", "spec.hostNetwork"})


class Gone(Exception):
    """The version asked for is older than the history reaches; `oldest` is the first that is known."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"version {asked} is older than {oldest}")
        self.asked = asked
        self.oldest = oldest


class Stored:
    """One version of one object."""

    __slots__ = ("body", "fields", "key", "labels", "name", "namespace", "revision", "uid")

    def __init__(self, key: str, document: Json, revision: int, field_paths: tuple[tuple[str, ...], ...]) -> None:
        metadata = document["metadata"]
        metadata["resourceVersion"] = str(revision)
        self.key = key
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        self.uid: str = metadata.get("uid", "")
        self.revision = revision
        self.labels: dict[str, str] = metadata.get("labels") or {}
        self.fields = tuple([_field(document, path) for path in field_paths]) if field_paths else ()
        self.body = encode(document)

    def document(self) -> Json:
        """A fresh copy that the caller may change."""
        document: Json = decode(self.body)
        return document


class Change:
    """One write, as watchers see it. `previous` is what the object was before it; lines are encoded at most once."""

    __slots__ = ("_lines", "previous", "revision", "stored", "type")

    def __init__(self, type_: str, stored: Stored, previous: Stored | None) -> None:
        self.type = type_
        self.stored = stored
        self.previous = previous
        self.revision = stored.revision
        self._lines: dict[Any, bytes] = {}

    def line(self, key: Any, render: Callable[[], bytes]) -> bytes:
        """The encoded watch event of this change in one form; every watcher of that form shares it."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = render()
        return line


class Watcher(Protocol):
    def offer(self, change: Change) -> None: ...


class Collection:
    """All objects of one kind, in key order (namespace/name, by bytes), with their history and watchers."""

    def __init__(self, resource: Resource, history_limit: int) -> None:
        self.resource = resource
        self.field_paths = tuple(tuple(label.split(".")) for label in resource.field_labels)
        self.items: dict[str, Stored] = {}
        self.keys: list[str] = []
        self.watchers: tuple[Watcher, ...] = ()
        self.compacted = 0
        self.revision = 0
        self._history: list[Change] = []
        self._history_limit = history_limit
        self._indexed = resource.field_labels.index("spec.nodeName") if resource.kind == "Pod" else None
        self._by_node: dict[str, dict[str, None]] = {}

    def key(self, namespace: str, name: str) -> str:
        return f"{namespace}/{name}" if self.resource.namespaced else name

    def get(self, namespace: str, name: str) -> Stored | None:
        return self.items.get(f"{namespace}/{name}" if self.resource.namespaced else name)

    def changes_after(self, revision: int) -> list[Change]:
        """What happened after `revision`, oldest first. Raises Gone when that is no longer known."""
        if revision < self.compacted:
            raise Gone(revision, self.compacted)
        return self._history[bisect_right(self._history, revision, key=_revision) :]

    def scan(self, namespace: str = "", start: str = "", at: int | None = None) -> Iterator[Stored]:
        """Objects of a namespace (all when empty) with key >= start, in key order, as they were at version `at`."""
        keys, overlay = self.keys, None
        if at is not None:
            undone = self.changes_after(at)
            if undone:
                overlay = {change.stored.key: change.previous for change in reversed(undone)}
                gone = [key for key, was in overlay.items() if was is not None and key not in self.items]
                if gone:
                    keys = sorted([*keys, *gone])
        prefix = f"{namespace}/" if namespace else ""
        index = bisect_left(keys, max(start, prefix))
        for key in keys[index:] if not prefix else _while_prefixed(keys, index, prefix):
            stored = self.items.get(key) if overlay is None or key not in overlay else overlay[key]
            if stored is not None:
                yield stored

    def page(self, namespace: str, start: str, limit: int, at: int | None = None) -> tuple[list[Stored], int]:
        """The first `limit` objects of a scan (all when 0), and how many are left."""
        if not limit or (at is not None and self.changes_after(at)):
            objects = list(self.scan(namespace, start, at))
            return (objects[:limit], max(len(objects) - limit, 0)) if limit else (objects, 0)
        prefix = f"{namespace}/" if namespace else ""
        begin = bisect_left(self.keys, max(start, prefix))
        end = bisect_left(self.keys, prefix[:-1] + _AFTER_SLASH, lo=begin) if prefix else len(self.keys)
        found = [self.items[key] for key in self.keys[begin : min(begin + limit, end)]]
        return found, end - begin - len(found)

    def on_node(self, node: str) -> list[Stored]:
        """The pods bound to a node, in key order (pods only)."""
        return [self.items[key] for key in sorted(self._by_node.get(node, ()))]

    def add_watcher(self, watcher: Watcher) -> None:
        """From the next change on the watcher is offered all. The tuple is replaced, so a change in flight is safe."""
        self.watchers = (*self.watchers, watcher)

    def remove_watcher(self, watcher: Watcher) -> None:
        self.watchers = tuple(w for w in self.watchers if w is not watcher)

    def record(self, change: Change) -> None:
        """Takes a change into the current state and the history and tells the watchers."""
        stored, previous = change.stored, change.previous
        self.revision = change.revision
        if change.type == DELETED:
            del self.items[stored.key]
            del self.keys[bisect_left(self.keys, stored.key)]
        else:
            if previous is None:
                insort(self.keys, stored.key)
            self.items[stored.key] = stored
        if self._indexed is not None:
            self._index(change)
        self._history.append(change)
        if len(self._history) > 2 * self._history_limit:
            self.compact(self._history[-self._history_limit - 1].revision)
        for watcher in self.watchers:
            watcher.offer(change)

    def compact(self, revision: int) -> None:
        """Forgets what happened up to and including `revision`."""
        if revision > self.compacted:
            del self._history[: bisect_right(self._history, revision, key=_revision)]
            self.compacted = revision

    def _index(self, change: Change) -> None:
        assert self._indexed is not None
        node = change.stored.fields[self._indexed]
        before = change.previous.fields[self._indexed] if change.previous is not None else None
        if before and (before != node or change.type == DELETED):
            on_node = self._by_node[before]
            on_node.pop(change.stored.key, None)
            if not on_node:
                del self._by_node[before]
        if node and node != before and change.type != DELETED:
            self._by_node.setdefault(node, {})[change.stored.key] = None


class Store:
    """Every kind's collection under one counter. `revision` is the version of the last write."""

    def __init__(self, *, history_limit: int = 20_000) -> None:
        self.revision = 0
        self.collections: dict[tuple[str, str], Collection] = {}
        for resource in RESOURCES:
            if resource.is_stored:
                self.collections.setdefault(resource.storage, Collection(resource, history_limit))

    def of(self, resource: Resource) -> Collection:
        return self.collections[resource.storage]

    def create(self, resource: Resource, document: Json) -> Stored:
        """Adds an object whose key is free; the caller has checked that."""
        collection = self.collections[resource.storage]
        metadata = document["metadata"]
        key = collection.key(metadata.get("namespace", ""), metadata["name"])
        assert key not in collection.items, key
        self.revision += 1
        stored = Stored(key, document, self.revision, collection.field_paths)
        collection.record(Change(ADDED, stored, None))
        return stored

    def update(self, resource: Resource, current: Stored, document: Json) -> Stored:
        """Puts a new version in the place of `current`."""
        collection = self.collections[resource.storage]
        assert collection.items[current.key] is current, current.key
        self.revision += 1
        stored = Stored(current.key, document, self.revision, collection.field_paths)
        collection.record(Change(MODIFIED, stored, current))
        return stored

    def delete(self, resource: Resource, current: Stored, document: Json | None = None) -> Stored:
        """Removes an object; what watchers see last is `document` (the current one when None) at the new version."""
        collection = self.collections[resource.storage]
        assert collection.items[current.key] is current, current.key
        self.revision += 1
        stored = Stored(current.key, document or current.document(), self.revision, collection.field_paths)
        collection.record(Change(DELETED, stored, current))
        return stored

    def compact(self, revision: int | None = None) -> None:
        """Forgets the history of all kinds up to `revision` (all of it when None), as an etcd compaction does."""
        for collection in self.collections.values():
            collection.compact(self.revision if revision is None else min(revision, self.revision))


def _revision(change: Change) -> int:
    return change.revision


def _while_prefixed(keys: list[str], index: int, prefix: str) -> list[str]:
    return keys[index : bisect_left(keys, prefix[:-1] + _AFTER_SLASH, lo=index)]


def _field(document: Json, path: tuple[str, ...]) -> str:
    value: Any = document
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "false" if ".".join(path) in _FALSE_WHEN_ABSENT else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)
