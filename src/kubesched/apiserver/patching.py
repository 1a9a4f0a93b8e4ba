"""PATCH: the four patch types, applied to the object as the request's resource shows it, committed as an update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kubesched.apiserver import applying, go_json, views
from kubesched.apiserver.json_patch import PatchFault, apply_json_patch
from kubesched.apiserver.messages import Reply, Request
from kubesched.apiserver.representation import accepted
from kubesched.apiserver.schema import Struct, WrongType, struct_of
from kubesched.apiserver.status import Cause, Refusal, bad_request, invalid, quoted, unsupported_media
from kubesched.apiserver.store import Json, decode, encode
from kubesched.apiserver.strategic_merge import MergeFault, strategic_merge
from kubesched.apiserver.writing import commit_update, typed

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


async def patch(api: Api, request: Request) -> Reply:
    resource, form = request.target, accepted(request)
    if request.content_type not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH):
        raise unsupported_media("415: Unsupported Media Type", {})
    if request.content_type == APPLY_PATCH:
        return await applying.apply(api, request)
    stored = api.find(request)
    type_ = struct_of(resource.group, resource.version, resource.kind)
    current = views.document(resource, stored)
    document = patched(request, current, type_)
    if not isinstance(document.get("metadata"), dict):
        document["metadata"] = {}
    name = document["metadata"].get("name", request.name)
    if name != request.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({request.name})")
    try:
        document = typed(request, resource, document)
    except WrongType as error:
        value = quoted(encode(document).decode())
        cause = Cause("FieldValueInvalid", f"Invalid value: {value}: {error}", "patch")
        raise invalid("", "", "", [cause]) from None
    return commit_update(api, request, stored, document, form)


def patched(request: Request, current: Json, type_: Struct | None) -> Json:
    """The object after the patch. `type_` gives the merge keys; without it lists are replaced."""
    content_type = request.content_type
    try:
        sent: Any = decode(request.body)
    except msgspec.DecodeError:
        raise bad_request(f"error decoding patch: {go_json.fault(request.body)}") from None
    if content_type == JSON_PATCH:
        if not isinstance(sent, list):
            raise bad_request(
                f"error decoding patch: json: cannot unmarshal {go_json.type_name(sent)} into Go value of type "
                "[]handlers.jsonPatchOp"
            )
        try:
            result = apply_json_patch(current, sent)
        except PatchFault:
            raise Refusal(
                422, "Invalid", "the server rejected our request due to an error in our request", {}
            ) from None
    else:
        if not isinstance(sent, dict):
            raise bad_request(
                f"error decoding patch: json: cannot unmarshal {go_json.type_name(sent)} into Go value of type "
                "map[string]interface {}"
            )
        if content_type == MERGE_PATCH:
            result = merge(current, sent)
        else:
            try:
                result = strategic_merge(current, sent, type_)
            except MergeFault as error:
                raise Refusal(500, "", str(error)) from None
    if not isinstance(result, dict):
        raise bad_request("the patch does not leave an object")
    return result


def merge(target: Any, patch_: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch_, dict):
        return patch_
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch_.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged
