"""Paths that answer about the server itself: version, health, and the discovery documents in both their forms."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any

from kubesched.apiserver import openapi
from kubesched.apiserver.messages import Answer, Request, answer_json, answer_text
from kubesched.apiserver.resources import GROUP_VERSIONS, GROUPS, RESOURCES, Resource
from kubesched.apiserver.status import method_not_allowed
from kubesched.apiserver.store import Json, encode

VERSION: Json = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2+kubesched",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
HEALTH = ("/healthz", "/livez", "/readyz")
_HEALTH_CHECKS = ("ping", "log", "etcd")
_ORDER = {group: index for index, group in enumerate(GROUPS)}


def answer(request: Request) -> Answer | None:
    """The answer to a path outside the resources, None when it is a resource path."""
    path = request.path.rstrip("/") or "/"
    for health in HEALTH:
        if path == health or path.startswith(health + "/"):
            return _health(request, health, path)
    if path.startswith("/openapi/"):
        return openapi.answer(request)
    make = _DOCUMENTS.get(path)
    if make is None:
        return None
    if request.method != "GET":
        raise method_not_allowed()
    if path in ("/api", "/apis"):
        version = _aggregated_version(request.headers.get("accept", ""))
        if version:
            return _aggregated(request, path, version)
    return answer_json(make())


def _health(request: Request, health: str, path: str) -> Answer | None:
    check = path[len(health) + 1 :]
    if check:
        return answer_text("ok") if check in _HEALTH_CHECKS else None
    if "verbose" not in request.query or health == "/healthz":
        return answer_text("ok")
    lines = "".join(f"[+]{name} ok\n" for name in _HEALTH_CHECKS)
    return answer_text(f"{lines}{health[1:]} check passed\n")


def _versions() -> Json:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
    }


def _group_list() -> Json:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in GROUPS]}


def _group(name: str) -> Json:
    versions = [{"groupVersion": f"{name}/{v}", "version": v} for group, v in GROUP_VERSIONS if group == name]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _one_group(name: str) -> Callable[[], Json]:
    return lambda: {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}


def _resource_list(group: str, version: str) -> Callable[[], Json]:
    def make() -> Json:
        document: Json = {"kind": "APIResourceList"}
        if group:
            document["apiVersion"] = "v1"
        document["groupVersion"] = f"{group}/{version}" if group else version
        rows = []
        for resource in RESOURCES:
            if (resource.group, resource.version) == (group, version):
                rows += _rows(resource)
        document["resources"] = rows
        return document

    return make


def _rows(resource: Resource) -> list[Json]:
    row: Json = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        row["shortNames"] = list(resource.short_names)
    if resource.categories:
        row["categories"] = list(resource.categories)
    if "watch" in resource.verbs:
        row["storageVersionHash"] = _storage_hash(resource)
    rows = [row]
    for subresource in resource.subresources:
        row = {"name": f"{resource.plural}/{subresource.name}", "singularName": "", "namespaced": resource.namespaced}
        if subresource.group:
            row["group"], row["version"] = subresource.group, subresource.version
        row["kind"], row["verbs"] = subresource.kind, list(subresource.verbs)
        rows.append(row)
    return rows


def _storage_hash(resource: Resource) -> str:
    """Eight bytes of a hash of what is stored, as clients compare it."""
    group = "" if resource.store_as is not None else resource.group
    version = "v2" if resource.plural == "horizontalpodautoscalers" else resource.version
    name = f"{group}/{version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(name.encode()).digest()[:8]).decode()


def _aggregated_version(accept: str) -> str:
    """The first aggregated form that the client accepts before plain JSON."""
    for part in accept.split(","):
        if "as=APIGroupDiscoveryList" in part and "g=apidiscovery.k8s.io" in part:
            for version in ("v2beta1", "v2"):
                if f"v={version};" in part + ";":
                    return version
        elif part.strip() in ("application/json", "*/*"):
            return ""
    return ""


def _aggregated(request: Request, path: str, version: str) -> Answer:
    body, etag = _aggregated_document(path, version)
    headers = {"ETag": f'"{etag}"', "Vary": "Accept", "Cache-Control": "public"}
    if request.headers.get("if-none-match", "").strip('"') == etag:
        return Answer(304, b"", "", headers)  # without a type: it would replace that of the cached answer
    content_type = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    return Answer(200, body, content_type, headers)


@cache
def _aggregated_document(path: str, version: str) -> tuple[bytes, str]:
    groups = [""] if path == "/api" else list(GROUPS)
    document = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_aggregated_group(group) for group in groups],
    }
    body = encode(document)
    return body, hashlib.sha512(body).hexdigest().upper()


def _aggregated_group(group: str) -> Json:
    metadata: Json = {"name": group} if group else {}
    metadata["creationTimestamp"] = None
    metadata.pop("creationTimestamp")
    versions = []
    for owner, version in GROUP_VERSIONS:
        if owner == group:
            rows = [_aggregated_row(r) for r in RESOURCES if (r.group, r.version) == (group, version)]
            versions.append({"version": version, "resources": rows, "freshness": "Current"})
    return {"metadata": metadata, "versions": versions}


def _aggregated_row(resource: Resource) -> Json:
    row: Json = {
        "resource": resource.plural,
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        row["shortNames"] = list(resource.short_names)
    if resource.categories:
        row["categories"] = list(resource.categories)
    if resource.subresources:
        row["subresources"] = [
            {
                "subresource": s.name,
                "responseKind": {"group": s.group, "version": s.version, "kind": s.kind},
                "verbs": list(s.verbs),
            }
            for s in resource.subresources
        ]
    return row


def _root() -> Json:
    paths = ["/api", "/api/v1", "/apis", "/apis/"]
    for group in sorted(GROUPS):
        paths.append(f"/apis/{group}")
        paths += [f"/apis/{group}/{v}" for owner, v in sorted(GROUP_VERSIONS) if owner == group]
    paths += ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
    return {"paths": paths}


_DOCUMENTS: dict[str, Callable[[], Any]] = {
    "/": _root,
    "/version": lambda: VERSION,
    "/api": _versions,
    "/apis": _group_list,
}
for _name in GROUPS:
    _DOCUMENTS[f"/apis/{_name}"] = _one_group(_name)
for _group_name, _version in GROUP_VERSIONS:
    _prefix = f"/apis/{_group_name}/{_version}" if _group_name else f"/api/{_version}"
    _DOCUMENTS[_prefix] = _resource_list(_group_name, _version)
