"""The scale subresource of workloads: `autoscaling/v1 Scale` as a view of spec.replicas and the selector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesched.apiserver import bodies, patching
from kubesched.apiserver.label_selectors import selector_text
from kubesched.apiserver.messages import Reply, Request, answer_json
from kubesched.apiserver.status import bad_request
from kubesched.apiserver.store import Json, Stored
from kubesched.apiserver.writing import update_object

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api


async def get(api: Api, request: Request) -> Reply:
    return answer_json(_scale_of(api.find(request).document()))


async def replace(api: Api, request: Request) -> Reply:
    scale = bodies.object_of(request, "Scale", "autoscaling/v1")
    if scale["metadata"].get("name", request.name) != request.name:
        raise bad_request(
            f"the name of the object ({scale['metadata']['name']}) does not match the name on the URL ({request.name})"
        )
    return _commit(api, request, api.find(request), scale)


async def patch(api: Api, request: Request) -> Reply:
    stored = api.find(request)
    patched = patching.patched(request, _scale_of(stored.document()), None)
    return _commit(api, request, stored, patched)


def _commit(api: Api, request: Request, stored: Stored, scale: Json) -> Reply:
    document = stored.document()
    document["spec"]["replicas"] = (scale.get("spec") or {}).get("replicas", 0)
    version = scale["metadata"].get("resourceVersion")
    if version:
        document["metadata"]["resourceVersion"] = version
    new, result = update_object(api, request.target, stored, stored.document(), document, "", request.dry_run)
    return answer_json(_scale_of(new if result is None else result.document()))


def _scale_of(document: Json) -> Json:
    meta, spec = document["metadata"], document["spec"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    scale: Json = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": {"replicas": document.get("status", {}).get("replicas", 0)},
    }
    selector = spec.get("selector")
    if selector:
        plain = "matchLabels" not in selector and "matchExpressions" not in selector
        scale["status"]["selector"] = selector_text({"matchLabels": selector} if plain else selector)
    return scale
