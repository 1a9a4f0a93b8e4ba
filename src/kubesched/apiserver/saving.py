"""Writing a cluster back as plain manifests, from which `loading` makes the same cluster again.

A folder gets one YAML file a kind, a file one document an object (a `v1` List where its name ends in .json). Objects
keep status, uid and times. Left out is what belongs to a run: versions and field owners, events, leases, and what
every cluster has from its first second.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from kubesched.apiserver.resources import RESOURCES
from kubesched.apiserver.store import Json, Store, encode

if TYPE_CHECKING:
    from kubesched.apiserver.server import Server

_LEFT_OUT = frozenset({"events", "leases"})
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def save(store: Store, path: Path, *, first: frozenset[str] = frozenset()) -> int:
    """Writes all objects but those whose uid is in `first`; how many they were. A name without a suffix is a folder."""
    by_kind = dict(_by_kind(store, first))
    if path.is_dir() or not path.suffix:
        path.mkdir(parents=True, exist_ok=True)
        for resource in RESOURCES:
            file = path / f"{resource.plural}.yaml"
            if resource.plural not in by_kind and resource.store_as is None:
                file.unlink(missing_ok=True)
        for plural, documents in by_kind.items():
            _replace(path / f"{plural}.yaml", _yaml(documents))
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        everything = [document for documents in by_kind.values() for document in documents]
        if path.suffix == ".json":
            _replace(path, encode({"apiVersion": "v1", "kind": "List", "items": everything}) + b"\n")
        else:
            _replace(path, _yaml(everything))
    return sum(map(len, by_kind.values()))


def present(server: Server) -> frozenset[str]:
    """The uids of all that there is."""
    return frozenset(s.uid for collection in server.store.collections.values() for s in collection.items.values())


def _by_kind(store: Store, first: frozenset[str]) -> Iterator[tuple[str, list[Json]]]:
    for collection in store.collections.values():
        if collection.resource.plural in _LEFT_OUT:
            continue
        documents = [_plain(s.document()) for key in collection.keys if (s := collection.items[key]).uid not in first]
        if documents:
            yield collection.resource.plural, documents


def _plain(document: Json) -> Json:
    metadata = document["metadata"]
    metadata.pop("resourceVersion", None)
    metadata.pop("managedFields", None)
    return {"apiVersion": document.pop("apiVersion"), "kind": document.pop("kind"), **document}


def _yaml(documents: Iterable[Json]) -> bytes:
    text: str = yaml.dump_all(documents, Dumper=_DUMPER, sort_keys=False, explicit_start=True)
    return text.encode()


def _replace(file: Path, content: bytes) -> None:
    """The old file stays whole until the new one is."""
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_bytes(content)
    os.replace(fresh, file)
