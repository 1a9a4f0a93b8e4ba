"""Sets of fields, as managedFields names them, and the comparisons and merges that server-side apply is made of.

A field is a path of elements in the notation of FieldsV1: `f:name` for a field or map key, `k:{"name":"c"}` for an item
of a keyed list, `v:"x"` for one of a set. A set of fields is a set of such paths. What is one field (an atomic list, a
scalar, an empty object) and what has fields of its own is told by the type table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from kubesched.apiserver.schema import Field, Struct, struct
from kubesched.apiserver.schema.structs import is_atomic

Path = tuple[str, ...]
Json = dict[str, Any]

_ABSENT: Any = object()


@dataclass(slots=True)
class Comparison:
    added: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)

    @property
    def changed(self) -> set[Path]:
        return self.added | self.modified


def fields_of(type_: Struct, value: Json) -> set[Path]:
    """Every field that a document names: what applying it owns."""
    found: set[Path] = set()
    _collect(_Shape("struct", type_), value, (), found)
    return found


def compare(type_: Struct, before: Json, after: Json) -> Comparison:
    result = Comparison()
    _compare(_Shape("struct", type_), before, after, (), result)
    return result


def merge(type_: Struct, live: Json, applied: Json) -> Json:
    """`live` with everything that `applied` says; keyed lists are merged item by item, atomic ones replaced."""
    merged: Json = _merge(_Shape("struct", type_), live, applied)
    return merged


def without(type_: Struct, document: Json, paths: set[Path]) -> Json:
    """The document without these fields (and without list items that are among them)."""
    pruned: Json = _without(_Shape("struct", type_), document, (), paths)
    return pruned


def encode_fields(paths: set[Path]) -> Json:
    """The set as FieldsV1."""
    root: Json = {}
    for path in sorted(paths):
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node.setdefault(".", {})
    return _compact(root)


def decode_fields(encoded: Json) -> set[Path]:
    found: set[Path] = set()

    def walk(node: Json, path: Path) -> None:
        if not node and path:
            found.add(path)
        for element, inner in node.items():
            if element == ".":
                found.add(path)
            else:
                walk(inner, (*path, element))

    walk(encoded, ())
    return found


def told(path: Path) -> str:
    """A path as conflicts tell it: `.spec.containers[name="c"].image`."""
    text = ""
    for element in path:
        kind, _, content = element.partition(":")
        if kind == "f":
            text += f".{content}"
        elif kind == "k":
            keys = json.loads(content)
            text += "[" + ",".join(f"{k}={json.dumps(v)}" for k, v in sorted(keys.items())) + "]"
        else:
            text += f"[={content}]"
    return text


def _compact(node: Json) -> Json:
    """A node that only names itself is written as an empty object."""
    if set(node) == {"."}:
        return {}
    return {element: _compact(inner) if element != "." else {} for element, inner in sorted(node.items())}


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a value is taken apart: `struct`, `map`, `keyed` list, `set`, or `leaf`."""

    kind: str
    type: Struct | None = None
    element: str = ""
    keys: tuple[str, ...] = ()

    def of(self, name: str) -> _Shape:
        """The shape of a member of a struct or map."""
        if self.kind == "map":
            return _element_shape(self.element)
        assert self.type is not None
        spec = self.type.fields.get(name)
        return _LEAF if spec is None else _field_shape(spec)


_LEAF = _Shape("leaf")


def _field_shape(spec: Field) -> _Shape:
    if spec.is_list:
        if spec.list_type == "map":
            return _Shape("keyed", None, spec.element, spec.list_keys)
        return _Shape("set", None, spec.element) if spec.list_type == "set" else _LEAF
    if spec.list_type == "atomic":
        return _LEAF
    return _Shape("map", None, spec.element) if spec.is_map else _element_shape(spec.type)


def _element_shape(element: str) -> _Shape:
    if element.startswith("#") and not is_atomic(element[1:]):
        return _Shape("struct", struct(element[1:]))
    return _LEAF


def _items(shape: _Shape, value: list[Any]) -> dict[str, Any]:
    """The items of a keyed list or a set, by their path element."""
    if shape.kind == "set":
        return {f"v:{json.dumps(item)}": item for item in value}
    return {_key(shape, item): item for item in value}


def _key(shape: _Shape, item: Json) -> str:
    defaults = {"protocol": "TCP"}
    keys = {k: item.get(k, defaults.get(k)) for k in sorted(shape.keys) if item.get(k, defaults.get(k)) is not None}
    return f"k:{json.dumps(keys, separators=(',', ':'))}"


def _members(shape: _Shape, value: Any) -> dict[str, Any] | None:
    """The parts of a value by path element, None when it has none to take apart."""
    if shape.kind in ("struct", "map"):
        return {f"f:{name}": part for name, part in value.items()} if isinstance(value, dict) else None
    if shape.kind in ("keyed", "set"):
        return _items(shape, value) if isinstance(value, list) else None
    return None


def _member_shape(shape: _Shape, element: str) -> _Shape:
    if shape.kind == "keyed":
        return _element_shape(shape.element)
    return _LEAF if shape.kind == "set" else shape.of(element[2:])


def _collect(shape: _Shape, value: Any, path: Path, found: set[Path]) -> None:
    members = _members(shape, value)
    if members is None or (not members and shape.kind != "set"):
        if path:
            found.add(path)
        return
    for element, part in members.items():
        where = (*path, element)
        if shape.kind in ("keyed", "set", "map"):
            found.add(where)
        _collect(_member_shape(shape, element), part, where, found)


def _compare(shape: _Shape, before: Any, after: Any, path: Path, result: Comparison) -> None:
    old = {} if before is _ABSENT or before is None else _members(shape, before)
    new = {} if after is _ABSENT or after is None else _members(shape, after)
    if shape.kind == "leaf" or old is None or new is None or (not old and not new):
        if before is _ABSENT:
            result.added.add(path)
        elif after is _ABSENT:
            result.removed.add(path)
        elif before != after:
            result.modified.add(path)
        return
    if path and before is _ABSENT:
        result.added.add(path)
    elif path and after is _ABSENT:
        result.removed.add(path)
    for element in {**old, **new}:
        one, other = old.get(element, _ABSENT), new.get(element, _ABSENT)
        _compare(_member_shape(shape, element), one, other, (*path, element), result)


def _merge(shape: _Shape, live: Any, applied: Any) -> Any:
    if shape.kind in ("struct", "map") and isinstance(live, dict) and isinstance(applied, dict):
        merged = dict(live)
        for name, part in applied.items():
            merged[name] = _merge(shape.of(name), live.get(name), part)
        return merged
    if shape.kind in ("keyed", "set") and isinstance(live, list) and isinstance(applied, list):
        old, new = _items(shape, live), _items(shape, applied)
        inner = _element_shape(shape.element) if shape.kind == "keyed" else _LEAF
        return [
            old[e] if e not in new else _merge(inner, old.get(e), new[e]) for e in _merged_order(list(old), list(new))
        ]
    return applied


def _merged_order(live: list[str], applied: list[str]) -> list[str]:
    """What is applied in its own order; items that only the server has keep their place before their successors."""
    order: list[str] = []
    rest = list(live)
    for element in applied:
        while rest and rest[0] not in applied:
            order.append(rest.pop(0))
        if element in rest:
            rest.remove(element)
        order.append(element)
    return order + [element for element in rest if element not in order]


def _without(shape: _Shape, value: Any, path: Path, paths: set[Path]) -> Any:
    members = _members(shape, value)
    if members is None:
        return value
    kept = {
        element: _without(_member_shape(shape, element), part, (*path, element), paths)
        for element, part in members.items()
        if (*path, element) not in paths
    }
    if shape.kind in ("keyed", "set"):
        return list(kept.values())
    return {element[2:]: part for element, part in kept.items()}
