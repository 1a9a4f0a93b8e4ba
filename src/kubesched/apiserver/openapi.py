"""OpenAPI documents made from the table of types: v3 by group version, v2 as a whole.

kubectl reads them to validate what it sends, to merge by the right keys and to explain fields. They say names, types,
merge keys and required fields; the prose of the original's documents is not repeated.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

from kubesched.apiserver.messages import JSON, TEXT, Answer, Request
from kubesched.apiserver.resources import GROUP_VERSIONS, RESOURCES, Resource
from kubesched.apiserver.schema import Field, Struct, struct, struct_of
from kubesched.apiserver.schema.structs import META, names
from kubesched.apiserver.status import PlainNotFound, Refusal
from kubesched.apiserver.store import Json, encode

_SCALARS: dict[str, Json] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer", "format": "int32"},
    "long": {"type": "integer", "format": "int64"},
    "float": {"type": "number", "format": "double"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "intorstring": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "bytes": {"type": "string", "format": "byte"},
    "any": {"type": "object"},
}
_SCALARS_V2: dict[str, Json] = {
    **_SCALARS,
    "quantity": {"type": "string"},
    "intorstring": {"type": "string", "format": "int-or-string"},
}
_METHODS = (("get", "get"), ("post", "create"), ("put", "update"), ("patch", "patch"), ("delete", "delete"))


def answer(request: Request) -> Answer:
    path = request.path.rstrip("/")
    if path == "/openapi/v3":
        body, etag = _v3_index()
        return _cached(request, body, etag, {"Vary": "Accept-Encoding"}, TEXT)  # the original declares it as text
    if path == "/openapi/v2":
        if "com.github.proto-openapi" in request.headers.get("accept", "") and "json" not in request.headers["accept"]:
            raise Refusal(406, "NotAcceptable", "406: Not Acceptable\n\nAvailable representations: application/json")
        return Answer(body=_v2())
    name = path.removeprefix("/openapi/v3/")
    if name not in _v3_names():
        raise PlainNotFound
    body, etag = _v3(name)
    headers = {"Vary": "Accept"}
    if "hash" in request.query:
        headers["Cache-Control"] = "public, immutable"
    return _cached(request, body, etag, headers, JSON)


def _cached(request: Request, body: bytes, etag: str, headers: dict[str, str], content_type: str) -> Answer:
    """The document, or word that the client has it."""
    headers["ETag"] = f'"{etag}"'
    if request.headers.get("if-none-match", "").strip('"') == etag:
        return Answer(304, b"", "", headers)
    return Answer(200, body, content_type, headers)


@cache
def _v3_index() -> tuple[bytes, str]:
    body = encode({"paths": {name: {"serverRelativeURL": _url(name)} for name in _v3_names()}})
    return body, hashlib.sha512(body).hexdigest().upper()


@cache
def _v3_names() -> dict[str, tuple[str, str]]:
    return {
        f"apis/{group}/{version}" if group else f"api/{version}": (group, version) for group, version in GROUP_VERSIONS
    }


def _url(name: str) -> str:
    return f"/openapi/v3/{name}?hash={_v3(name)[1]}"


@cache
def _v3(name: str) -> tuple[bytes, str]:
    group, version = _v3_names()[name]
    resources = [r for r in RESOURCES if (r.group, r.version) == (group, version)]
    wanted = [found.name for r in resources if (found := struct_of(r.group, r.version, r.kind)) is not None]
    schemas = {type_: _schema(type_, "#/components/schemas/", _SCALARS) for type_ in _closure(wanted)}
    for resource in resources:
        _add_list(resource, schemas, "#/components/schemas/")
        _add_kind(resource, schemas)
    paths: Json = {}
    for resource in resources:
        paths.update(_paths(resource, v3=True))
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.2"},
        "paths": paths,
        "components": {"schemas": schemas},
    }
    body = encode(document)
    return body, hashlib.sha512(body).hexdigest().upper()


@cache
def _v2() -> bytes:
    definitions = {type_: _schema(type_, "#/definitions/", _SCALARS_V2) for type_ in names()}
    paths: Json = {}
    for resource in RESOURCES:
        _add_list(resource, definitions, "#/definitions/")
        _add_kind(resource, definitions)
        paths.update(_paths(resource, v3=False))
    return encode(
        {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": "v1.36.2"},
            "paths": paths,
            "definitions": definitions,
        }
    )


def _closure(roots: list[str]) -> list[str]:
    """The types and all that they refer to."""
    found: dict[str, None] = {}
    pending = [*roots, f"{META}.DeleteOptions", f"{META}.Status", f"{META}.ListMeta"]
    while pending:
        name = pending.pop()
        type_ = struct(name)
        if name in found or type_ is None:
            continue
        found[name] = None
        pending += [inner.name for field in type_.fields.values() if (inner := field.struct) is not None]
    return sorted(found)


def _schema(name: str, prefix: str, scalars: dict[str, Json]) -> Json:
    type_ = struct(name)
    assert type_ is not None
    document: Json = {
        "type": "object",
        "properties": {field.name: _property(field, prefix, scalars) for field in type_.fields.values()},
    }
    needed = [field.name for field in type_.fields.values() if field.required]
    if needed:
        document["required"] = needed
    return document


def _property(field: Field, prefix: str, scalars: dict[str, Json]) -> Json:
    document = _type(field.type, prefix, scalars)
    if field.merge_key:
        document["x-kubernetes-patch-merge-key"] = field.merge_key
    if field.merge or field.retain_keys:
        strategy = ",".join([*(["merge"] if field.merge else []), *(["retainKeys"] if field.retain_keys else [])])
        document["x-kubernetes-patch-strategy"] = strategy
    if field.list_type:
        kind = "list" if field.is_list else "map"
        document[f"x-kubernetes-{kind}-type"] = field.list_type
        if field.list_keys:
            document["x-kubernetes-list-map-keys"] = list(field.list_keys)
    return document


def _type(type_: str, prefix: str, scalars: dict[str, Json]) -> Json:
    if type_.startswith("[]"):
        return {"type": "array", "items": _type(type_[2:], prefix, scalars)}
    if type_.startswith("map:"):
        return {"type": "object", "additionalProperties": _type(type_[4:], prefix, scalars)}
    if type_.startswith("#"):
        if prefix == "#/definitions/":
            return {"$ref": prefix + type_[1:]}
        return {"allOf": [{"$ref": prefix + type_[1:]}], "default": {}}
    return dict(scalars[type_])


def _type_name(resource: Resource) -> str:
    type_: Struct | None = struct_of(resource.group, resource.version, resource.kind)
    if type_ is not None:
        return type_.name
    return f"io.k8s.api.{resource.group.split('.', 1)[0]}.{resource.version}.{resource.kind}"


def _add_kind(resource: Resource, schemas: Json) -> None:
    kind = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    schemas.setdefault(_type_name(resource), {"type": "object"})["x-kubernetes-group-version-kind"] = [kind]


def _add_list(resource: Resource, schemas: Json, prefix: str) -> None:
    schemas[_type_name(resource) + "List"] = {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": _type(f"#{META}.ListMeta", prefix, _SCALARS),
            "items": {"type": "array", "items": {"$ref": prefix + _type_name(resource)}},
        },
        "x-kubernetes-group-version-kind": [
            {"group": resource.group, "kind": resource.kind + "List", "version": resource.version}
        ],
    }


def _paths(resource: Resource, *, v3: bool) -> Json:
    """The two paths of a resource with the operations that kubectl looks for (dryRun, fieldValidation)."""
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    scope = f"{base}/namespaces/{{namespace}}" if resource.namespaced else base
    kind = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    collection, item = f"{scope}/{resource.plural}", f"{scope}/{resource.plural}/{{name}}"
    paths: Json = {}
    for method, verb in _METHODS:
        if verb not in resource.verbs:
            continue
        operation: Json = {
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": verb,
            "x-kubernetes-group-version-kind": kind,
        }
        if method in ("post", "put", "patch"):
            operation["parameters"] = [_parameter(name, v3) for name in ("dryRun", "fieldManager", "fieldValidation")]
        paths.setdefault(collection if method == "post" else item, {})[method] = operation
    return paths


def _parameter(name: str, v3: bool) -> dict[str, Any]:
    where: dict[str, Any] = {"name": name, "in": "query"}
    if v3:
        where["schema"] = {"type": "string"}
    else:
        where["type"] = "string"
    return where
