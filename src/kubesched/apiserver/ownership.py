"""Who owns which fields of an object: the managedFields that plain writes and server-side apply keep.

An object is tracked from its first apply on, as kube-apiserver can do it; with `Profile.track_fields` every object is,
from its creation. Tracking costs about as much as the write itself, and a scheduler's traffic does not need it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from kubesched.apiserver.field_sets import Path, compare, decode_fields, encode_fields, told
from kubesched.apiserver.schema import Struct, zero
from kubesched.apiserver.status import Refusal
from kubesched.apiserver.store import Json

_SERVER_OWNED = frozenset(
    ("f:metadata", f"f:{name}")
    for name in (
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "generation",
        "managedFields",
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    )
)
_BEFORE = "before-first-apply"


@dataclass(frozen=True, slots=True)
class Entry:
    """What one manager owns through one operation."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    fields: frozenset[Path]

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.manager, self.operation, self.api_version, self.subresource


Owners = dict[tuple[str, str, str, str], Entry]


def owners_of(document: Json) -> Owners:
    found: Owners = {}
    for row in document["metadata"].get("managedFields") or ():
        if not row.get("manager"):
            continue
        fields = frozenset(decode_fields(row.get("fieldsV1") or {}))
        manager, operation, api_version = (row.get(name, "") for name in ("manager", "operation", "apiVersion"))
        entry = Entry(manager, operation, api_version, row.get("subresource", ""), row.get("time", ""), fields)
        found[entry.key] = entry
    return found


def write_owners(document: Json, owners: Owners) -> None:
    rows = []
    for entry in sorted(owners.values(), key=lambda e: (e.operation, e.time, *e.key)):
        if not entry.fields:
            continue
        row: Json = {
            "manager": entry.manager,
            "operation": entry.operation,
            "apiVersion": entry.api_version,
            "time": entry.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": encode_fields(set(entry.fields)),
        }
        if entry.subresource:
            row["subresource"] = entry.subresource
        rows.append(row)
    if rows:
        document["metadata"]["managedFields"] = rows
    else:
        document["metadata"].pop("managedFields", None)


def track_create(type_: Struct, document: Json, manager: str, now: str) -> None:
    """The creator owns all that the object has beyond an empty one."""
    fields = _ownable(compare(type_, zero(type_), document).changed)
    entry = Entry(manager, "Update", document["apiVersion"], "", now, frozenset(fields))
    write_owners(document, {entry.key: entry})


def track_update(type_: Struct, old: Json, new: Json, manager: str, subresource: str, now: str) -> None:
    """The writer takes what it changed from everybody else; what is gone nobody owns."""
    difference = compare(type_, old, new)
    changed, removed = _ownable(difference.changed), difference.removed
    owners = owners_of(old)
    if changed or removed:
        for key, entry in list(owners.items()):
            owners[key] = replace(entry, fields=entry.fields - changed - removed)
        own = Entry(manager, "Update", new["apiVersion"], subresource, now, frozenset())
        before = owners.get(own.key, own)
        fields = before.fields | changed
        if changed:
            owners[own.key] = replace(own, fields=fields)
    write_owners(new, owners)


def track_apply(
    type_: Struct,
    live: Json,
    merged: Json,
    applied: set[Path],
    manager: str,
    subresource: str,
    now: str,
    *,
    force: bool,
    allowed: Collection[Path] = (),
) -> None:
    """The applier owns what it names. Others lose what it changes, by force or where it is allowed; else the apply
    conflicts."""
    difference = compare(type_, live, merged)
    changed = _ownable(difference.changed)
    owners = owners_of(live)
    own = Entry(manager, "Apply", merged["apiVersion"], subresource, now, frozenset(_ownable(applied)))
    conflicts = {key: lost for key, entry in owners.items() if key != own.key and (lost := entry.fields & changed)}
    refused = {key: lost for key, fields in conflicts.items() if (lost := fields.difference(allowed))}
    if refused and not force:
        raise _conflict({owners[key]: lost for key, lost in refused.items()})
    for key, entry in list(owners.items()):
        owners[key] = replace(entry, fields=entry.fields - conflicts.get(key, frozenset()) - difference.removed)
    before = owners.get(own.key)
    owners[own.key] = before if before is not None and before.fields == own.fields else own
    write_owners(merged, owners)


def begin_tracking(type_: Struct, live: Json, now: str) -> Json:
    """A live object nobody has tracked: all it has belongs to a manager of its own before the first apply."""
    if live["metadata"].get("managedFields") is not None:
        return live
    tracked: Json = {**live, "metadata": dict(live["metadata"])}
    stripped = {name: part for name, part in tracked.items() if name != "status"}
    track_create(type_, stripped, _BEFORE, now)
    tracked["metadata"] = stripped["metadata"]
    return tracked


def _ownable(paths: set[Path]) -> set[Path]:
    return {
        p for p in paths if p[:2] not in _SERVER_OWNED and p not in (("f:kind",), ("f:apiVersion",), ("f:metadata",))
    }


def _conflict(lost: dict[Entry, frozenset[Path]]) -> Refusal:
    lines, causes = [], []
    for entry, paths in lost.items():
        using = f' with subresource "{entry.subresource}"' if entry.subresource else ""
        applied = "" if entry.operation == "Apply" else f" using {entry.api_version}"
        for path in sorted(paths, key=told):
            text = f'conflict with "{entry.manager}"{using}{applied}'
            causes.append({"reason": "FieldManagerConflict", "message": text, "field": told(path)})
            lines.append((f'"{entry.manager}"{using}{applied}', told(path)))
    return Refusal(409, "Conflict", _conflict_message(lines), {"causes": causes})


def _conflict_message(lines: list[tuple[str, str]]) -> str:
    if len(lines) == 1:
        who, path = lines[0]
        return f"Apply failed with 1 conflict: conflict with {who}: {path}"
    by_manager: dict[str, list[str]] = {}
    for who, path in lines:
        by_manager.setdefault(who, []).append(path)
    blocks = [
        f"conflicts with {who}:\n" + "\n".join(f"- {path}" for path in paths) for who, paths in by_manager.items()
    ]
    return f"Apply failed with {len(lines)} conflicts: " + "\n".join(blocks)
