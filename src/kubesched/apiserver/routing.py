"""From a path to the resource, namespace, name and subresource it addresses, and the verb that is meant.

The shapes are `/api/v1/...` and `/apis/<group>/<version>/...`, then `namespaces/<ns>/` for namespaced resources, then
`<plural>[/<name>[/<subresource>]]`; an old `watch/` may stand before. What does not exist is told apart as the original
does: a Status inside a known group version, plain text elsewhere.
"""

from __future__ import annotations

from urllib.parse import unquote

from kubesched.apiserver.messages import Request
from kubesched.apiserver.resources import BY_PATH, GROUP_VERSIONS
from kubesched.apiserver.status import PlainNotFound, method_not_allowed, unknown_resource

_VERSIONS = frozenset(GROUP_VERSIONS)
_ITEM_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


def route(request: Request) -> None:
    """Fills in what the path of a resource request means. Raises PlainNotFound or a Refusal (404, 405)."""
    path = request.path
    parts = [unquote(part) if "%" in part else part for part in path.split("/")[1:]]
    if parts[-1] == "" and len(parts) > 1:
        parts.pop()
    if parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise PlainNotFound
    if (group, version) not in _VERSIONS:
        if group == "":
            raise unknown_resource()
        raise PlainNotFound
    watch = rest[0] == "watch" and len(rest) > 1
    if watch:
        rest = rest[1:]
    namespaced = rest[0] == "namespaces" and len(rest) > 2 and (group != "" or rest[2] not in ("status", "finalize"))
    if namespaced:
        request.namespace = rest[1]
        rest = rest[2:]
    resource = BY_PATH.get((group, version, rest[0]))
    if len(rest) > 3 and rest[2] == "proxy":
        rest = rest[:3]
    if resource is None or len(rest) > 3 or (namespaced and not resource.namespaced):
        raise unknown_resource()
    request.resource = resource
    request.name = rest[1] if len(rest) > 1 else ""
    request.subresource = rest[2] if len(rest) > 2 else ""
    request.verb = _verb(request, namespaced, watch)


def _verb(request: Request, namespaced: bool, watch: bool) -> str:
    resource, method = request.target, request.method
    if request.subresource:
        subresource = resource.subresource(request.subresource)
        if subresource is None or (resource.namespaced and not namespaced):
            raise unknown_resource()
        verb = {**_ITEM_VERBS, "POST": "create"}.get(method, "")
        if verb not in subresource.verbs:
            raise method_not_allowed()
        return verb
    if request.name:
        if resource.namespaced and not namespaced:
            raise unknown_resource()
        verb = _ITEM_VERBS.get(method, "")
        if verb not in resource.verbs:
            raise method_not_allowed()
        return "watch" if watch else verb
    verb = _COLLECTION_VERBS.get(method, "")
    if verb not in resource.verbs or (resource.namespaced and not namespaced and verb != "list"):
        raise method_not_allowed()
    if verb == "list" and (watch or request.flag("watch")):
        return "watch"
    return verb
