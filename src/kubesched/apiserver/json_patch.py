"""JSON patch (RFC 6902), with the laxities of the library that kube-apiserver uses."""

from __future__ import annotations

import copy
from typing import Any


class PatchFault(Exception):
    """An operation cannot be carried out."""


def apply_json_patch(document: Any, operations: list[Any]) -> Any:
    """The patched document; `document` is not changed. Raises PatchFault."""
    result = copy.deepcopy(document)
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise PatchFault("not an operation")
        result = _apply(result, operation)
    return result


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    path = _parts(operation["path"])
    match operation.get("op"):
        case "add":
            return _put(document, path, copy.deepcopy(operation.get("value")), insert=True)
        case "replace":
            parent = _walk(document, path[:-1])
            if isinstance(parent, list):
                _index(parent, path[-1])
            return _put(document, path, copy.deepcopy(operation.get("value")), insert=False)
        case "remove":
            _remove(document, path)
            return document
        case "test":
            if _walk(document, path, missing=None) != operation.get("value"):
                raise PatchFault("test failed")
            return document
        case "move":
            origin = _parts(operation.get("from", ""))
            value = _walk(document, origin)
            _remove(document, origin)
            return _put(document, path, value, insert=True)
        case "copy":
            return _put(document, path, copy.deepcopy(_walk(document, _parts(operation.get("from", "")))), insert=True)
        case unknown:
            raise PatchFault(f"unknown operation {unknown}")


def _parts(pointer: str) -> list[str]:
    if pointer == "":
        return []
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


_RAISE = object()


def _walk(document: Any, path: list[str], missing: Any = _RAISE) -> Any:
    for part in path:
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(document, part)]
        elif missing is _RAISE:
            raise PatchFault(f"no {part}")
        else:
            return missing
    return document


def _index(items: list[Any], part: str, *, insert: bool = False) -> int:
    try:
        index = int(part)
    except ValueError:
        raise PatchFault(f"not an index: {part}") from None
    if not -len(items) <= index < len(items) + insert:
        raise PatchFault(f"no index {index}")
    return index


def _put(document: Any, path: list[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    parent, last = _walk(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        if not insert:
            parent[_index(parent, last)] = value
        elif last == "-":
            parent.append(value)
        else:
            parent.insert(_index(parent, last, insert=True), value)
    else:
        raise PatchFault(f"nothing can be put at {last}")
    return document


def _remove(document: Any, path: list[str]) -> None:
    if not path:
        raise PatchFault("the whole document cannot be removed")
    parent, last = _walk(document, path[:-1]), path[-1]
    if isinstance(parent, dict) and last in parent:
        del parent[last]
    elif isinstance(parent, list):
        del parent[_index(parent, last)]
    else:
        raise PatchFault(f"no {last}")
