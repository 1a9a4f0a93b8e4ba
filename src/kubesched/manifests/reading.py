"""From files, folders, texts and dicts to documents that know where they came from.

Lists (`kind: List`, `PodList`, ...) are taken apart. Here it is only made sure that each document is an object: a
mapping with apiVersion, kind and a name. Nulls, which mean absent, are gone from here on.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from kubesched.api import kinds
from kubesched.manifests.sources import ManifestError, Source
from kubesched.manifests.texts import documents

SUFFIXES = (".yaml", ".yml", ".json")
"""What is read of a folder."""

Input: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | Iterable[Input]"
"""A path, a YAML or JSON text, a manifest or List as a dict, or any collection of these."""


@dataclass(frozen=True, slots=True)
class Document:
    source: Source
    manifest: dict[str, Any]

    @property
    def api_version(self) -> str:
        return str(self.manifest["apiVersion"])

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"].get("name", ""))

    @property
    def namespace(self) -> str:
        """`default` where a namespaced object of a known kind names none; empty for cluster-wide kinds."""
        known = kinds.find(self.api_version, self.kind)
        named = str(self.manifest["metadata"].get("namespace") or "")
        if known is None:
            return named
        return (named or "default") if known.namespaced else ""

    def __str__(self) -> str:
        """`Pod default/web-1`"""
        namespace = self.namespace
        return f"{self.kind} {namespace}/{self.name}" if namespace else f"{self.kind} {self.name}"


_SURROGATE = re.compile("[\ud800-\udfff]")


def read(source: Input) -> list[Document]:
    """A string is a text if it has more than one line or looks like JSON, and a path otherwise. ManifestError."""
    if isinstance(source, str):
        if "\n" in source or source.lstrip().startswith("{"):
            return read_text(source)
        return read_path(source)
    if isinstance(source, os.PathLike):
        return read_path(source)
    if isinstance(source, Mapping):
        return list(_objects(dict(source), Source("manifest")))
    if isinstance(source, bytes) or not isinstance(source, Iterable):
        raise ManifestError(Source("manifest"), f"want a path, a text or objects as dicts, not {type(source).__name__}")
    found: list[Document] = []
    for number, each in enumerate(source, 1):
        if isinstance(each, Mapping):
            found.extend(_objects(dict(each), Source("manifests", item=number)))
        else:
            found.extend(read(each))
    return found


def read_path(path: str | os.PathLike[str]) -> list[Document]:
    """A file, or all YAML and JSON files below a folder in the order of their paths. ManifestError."""
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        return [document for file in files for document in read_path(file)]
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ManifestError(Source(str(path)), "no such file or folder") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(Source(str(path)), f"cannot be read: {error}") from error
    return read_text(text, str(path))


def read_text(text: str, name: str = "text") -> list[Document]:
    """`name` is what errors call the text. ManifestError."""
    found: list[Document] = []
    for number, document in documents(text, name):
        found.extend(_objects(document, Source(name, number)))
    return found


def _objects(document: Any, source: Source) -> Iterator[Document]:
    if not isinstance(document, dict):
        raise ManifestError(source, f"not an object: a mapping is expected, this is {_sort(document)}")
    kind, api_version = _text(document, "kind", source), _text(document, "apiVersion", source)
    if kind.endswith("List") and "items" in document:
        yield from _items(document, kind, api_version, source)
        return
    document = _without_nulls(document, source, kind)
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        problem = "is missing" if metadata is None else f"must be a mapping, not {_sort(metadata)}"
        raise ManifestError(source, problem, obj=kind, field="metadata")
    _text(metadata, "name", source, obj=kind, path="metadata.")
    yield Document(source, document)


#: More parts than this has no object that an API server would take; what YAML's aliases multiply may have.
_PARTS_MAX = 2_000_000


def _without_nulls(document: dict[str, Any], source: Source, kind: str) -> dict[str, Any]:
    """The same document where there are none. ManifestError for one that no API server could be sent."""
    count = 0

    def pruned(value: Any) -> Any:
        nonlocal count
        if isinstance(value, dict):
            count += len(value)
            if count > _PARTS_MAX:
                raise ManifestError(source, "is too large", obj=kind)
            parts = {key: pruned(part) for key, part in value.items() if part is not None}
            same = len(parts) == len(value) and all(map(operator.is_, parts.values(), value.values()))
            return value if same else parts
        if isinstance(value, list):
            count += len(value)
            if count > _PARTS_MAX:
                raise ManifestError(source, "is too large", obj=kind)
            items = [pruned(item) for item in value if item is not None]
            same = len(items) == len(value) and all(map(operator.is_, items, value))
            return value if same else items
        return value

    try:
        without: dict[str, Any] = pruned(document)
    except RecursionError:
        raise ManifestError(source, "is nested too deeply, or contains itself", obj=kind) from None
    return without


def _items(document: dict[str, Any], kind: str, api_version: str, source: Source) -> Iterator[Document]:
    items = document["items"] or []
    if not isinstance(items, list):
        raise ManifestError(source, f"must be a list, not {_sort(items)}", obj=kind, field="items")
    for number, item in enumerate(items, 1):
        # Items of a PodList as the server sends it do not say what they are.
        if kind != "List" and isinstance(item, dict) and "kind" not in item:
            item = {"apiVersion": api_version, "kind": kind.removesuffix("List"), **item}
        yield from _objects(item, source._replace(item=number))


def _text(part: dict[str, Any], field: str, source: Source, *, obj: str = "", path: str = "") -> str:
    value = part.get(field)
    if isinstance(value, str) and value:
        if _SURROGATE.search(value):
            raise ManifestError(source, "is no text: it has half of a character in it", obj=obj, field=path + field)
        return value
    if value is None or value == "":
        problem = "is missing"
    else:
        problem = f"must be a string, not {_sort(value)}"
        if isinstance(value, bool | int | float):
            problem += "; quote it to make it one"
    raise ManifestError(source, problem, obj=obj, field=path + field, value=value or None)


def _sort(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "a mapping"
