"""Strategic merge patch: merge by the keys that the API types declare, with its directives.

`$patch: replace|delete|merge`, `$retainKeys`, `$deleteFromPrimitiveList/<field>` and `$setElementOrder/<field>` work
as in apimachinery. The order of a merged list: items that the patch names keep the patch's order; new ones come before
those that only the server has, unless an element order is given.
"""

from __future__ import annotations

from typing import Any

from kubesched.apiserver.schema import Field, Struct

_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


class MergeFault(Exception):
    """The patch cannot be merged; the message is the original's."""


def strategic_merge(current: dict[str, Any], patch: dict[str, Any], type_: Struct | None) -> dict[str, Any]:
    """The merged object; `current` and `patch` are not changed."""
    directive = patch.get("$patch")
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    if directive == "delete":
        return {}
    merged = dict(current)
    retained = patch.get("$retainKeys")
    if retained is not None:
        merged = {name: value for name, value in merged.items() if name in retained}
    for name, value in patch.items():
        if name.startswith("$"):
            if name.startswith(_DELETE_FROM):
                _delete_primitives(merged, name[len(_DELETE_FROM) :], value)
            continue
        if value is None:
            merged.pop(name, None)
            continue
        spec = type_.fields.get(name) if type_ else None
        merged[name] = _merge_value(merged.get(name), value, spec, patch.get(_ORDER + name))
    for name, order in patch.items():
        if name.startswith(_ORDER) and name[len(_ORDER) :] not in patch:
            field = name[len(_ORDER) :]
            spec = type_.fields.get(field) if type_ else None
            if isinstance(merged.get(field), list):
                merged[field] = _ordered(merged[field], order, spec)
    return merged


def _delete_primitives(merged: dict[str, Any], field: str, values: Any) -> None:
    if isinstance(merged.get(field), list) and isinstance(values, list):
        merged[field] = [item for item in merged[field] if item not in values]


def _merge_value(current: Any, value: Any, spec: Field | None, order: Any) -> Any:
    if isinstance(value, dict):
        inner = spec.struct if spec is not None and not spec.is_map else None
        if isinstance(current, dict):
            return strategic_merge(current, value, inner)
        return _without_directives(value, inner)
    if isinstance(value, list):
        if spec is None or not spec.merge:
            return value
        if not spec.merge_key:
            return _merge_primitives(current or [], value, order)
        return _merge_objects(current or [], value, spec, order)
    return value


def _without_directives(value: dict[str, Any], type_: Struct | None) -> dict[str, Any]:
    return strategic_merge({}, value, type_)


def _merge_primitives(current: list[Any], patch: list[Any], order: Any) -> list[Any]:
    if order is None:
        return _patch_first(current, list(dict.fromkeys(patch)))
    merged = list(dict.fromkeys([*current, *patch]))
    return [item for item in order if item in merged] + [item for item in merged if item not in order]


def _merge_objects(current: list[Any], patch: list[Any], spec: Field, order: Any) -> list[Any]:
    key = spec.merge_key
    items = {item.get(key): item for item in current if isinstance(item, dict)}
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if isinstance(item, dict) and "$patch" not in item]
    deleted: set[Any] = set()
    named: list[Any] = []
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise MergeFault(f"map: {_go_map(item)} does not contain declared merge key: {key}")
        if item.get("$patch") == "delete":
            deleted.add(item[key])
            items.pop(item[key], None)
            continue
        before = items.get(item[key])
        items[item[key]] = (
            _without_directives(item, spec.struct) if before is None else strategic_merge(before, item, spec.struct)
        )
        named.append(item[key])
    kept = [item[key] for item in current if isinstance(item, dict) and item.get(key) not in deleted]
    keys = _patch_first(kept, list(dict.fromkeys(named)))
    if isinstance(order, list):
        wanted = [entry.get(key) for entry in order if isinstance(entry, dict)]
        keys = _by_order(keys, wanted, kept)
    return [items[name] for name in keys]


def _ordered(current: list[Any], order: Any, spec: Field | None) -> list[Any]:
    if not isinstance(order, list) or spec is None:
        return current
    if not spec.merge_key:
        return [item for item in order if item in current] + [item for item in current if item not in order]
    key = spec.merge_key
    by_key = {item.get(key): item for item in current if isinstance(item, dict)}
    wanted = [entry.get(key) for entry in order if isinstance(entry, dict)]
    return [by_key[name] for name in _by_order(list(by_key), wanted, list(by_key))]


def _patch_first(current: list[Any], patch: list[Any]) -> list[Any]:
    """The patch's items in the patch's order, the server's own after those that stood before them."""
    result: list[Any] = []
    rest = [item for item in current if item not in patch]
    position = {item: index for index, item in enumerate(current)}
    for item in patch:
        if item in position:
            while rest and position[rest[0]] < position[item]:
                result.append(rest.pop(0))
        result.append(item)
    return result + rest


def _by_order(keys: list[Any], wanted: list[Any], server: list[Any]) -> list[Any]:
    """Keys in the wanted order; those that the order does not name keep their place after their server neighbours."""
    ordered = [name for name in wanted if name in keys]
    position = {name: index for index, name in enumerate(server)}
    rest = [name for name in keys if name not in wanted]
    result: list[Any] = []
    for name in ordered:
        while rest and name in position and rest[0] in position and position[rest[0]] < position[name]:
            result.append(rest.pop(0))
        result.append(name)
    return result + rest


def _go_map(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    return "map[" + " ".join(f"{name}:{value}" for name, value in sorted(item.items())) + "]"
