"""Server-side apply: PATCH with `application/apply-patch+yaml`.

The sent document is what the manager wants to own. It is merged into the live object; fields that the manager owned and
no longer names go, unless others own them too; changing what others own is a conflict unless it is forced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import yaml

from kubesched.apiserver import admission, ownership, views, writing
from kubesched.apiserver.field_sets import Path, fields_of, merge, without
from kubesched.apiserver.messages import Reply, Request, answer_json
from kubesched.apiserver.reading import answer_object
from kubesched.apiserver.representation import accepted
from kubesched.apiserver.schema import Struct, WrongType, review, struct_of
from kubesched.apiserver.status import bad_request, internal, invalid, not_found, required
from kubesched.apiserver.store import Json, decode

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api


_KUBECTL = "kubectl"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


async def apply(api: Api, request: Request) -> Reply:
    resource, form = request.target, accepted(request)
    manager = request.query.get("fieldManager")
    if not manager:
        cause = required("fieldManager", "is required for apply patch")
        raise invalid("PatchOptions", "meta.k8s.io", "", [cause])
    sent = _sent(request)
    type_ = struct_of(resource.group, resource.version, resource.kind)
    if type_ is None:
        raise internal(f"no type is known for {resource.kind}")
    config = _configuration(type_, sent, request)
    stored = api.store.of(resource).get(request.namespace, request.name)
    now = api.now()
    fields = fields_of(type_, config)
    if stored is None:
        if request.subresource:
            raise not_found(resource, request.name)
        if resource.namespaced:
            admission.check_namespace(api, resource, request.namespace, request.name)
            config["metadata"]["namespace"] = request.namespace
        owned = {"metadata": {}, "kind": resource.kind, "apiVersion": resource.api_version}
        document = review(type_, config).document
        ownership.track_apply(type_, owned, document, fields, manager, "", now, force=True)
        document, created = writing.create_object(api, resource, document, request.dry_run)
        if created is None:
            return answer_json(document, 201)
        return answer_object(api, request, created, form, 201)
    live = ownership.begin_tracking(type_, views.document(resource, stored), now)
    merged = merge(type_, live, config)
    merged = without(type_, merged, _given_up(live, fields, manager, request.subresource))
    allowed = _applied_before(type_, live, manager)
    force = request.flag("force")
    ownership.track_apply(type_, live, merged, fields, manager, request.subresource, now, force=force, allowed=allowed)
    document = review(type_, merged).document
    if allowed and not request.subresource:
        document["metadata"]["annotations"][_LAST_APPLIED] = _last_applied(sent)
    return writing.commit_update(api, request, stored, document, form, owners_written=True)


def _sent(request: Request) -> Json:
    try:
        sent = yaml.load(request.body, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(sent, dict) or not sent.get("apiVersion") or not sent.get("kind"):
        kind = sent.get("kind", "") if isinstance(sent, dict) else ""
        version = sent.get("apiVersion", "") if isinstance(sent, dict) else ""
        raise bad_request(f"invalid object type: {version or '/'}, Kind={kind}")
    return sent


def _configuration(type_: Struct, sent: Json, request: Request) -> Json:
    meta = sent.get("metadata") or {}
    name = meta.get("name", request.name)
    if name != request.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({request.name})")
    if meta.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    try:
        unknown = review(type_, sent).unknown
    except WrongType as error:
        raise internal(f"failed to create typed patch object ({_told(request)}): {error}") from None
    if unknown:
        fault = f".{unknown[0]}: field not declared in schema"
        raise internal(f"failed to create typed patch object ({_told(request)}): {fault}")
    metadata = {n: v for n, v in meta.items() if n not in ("creationTimestamp", "managedFields") and v is not None}
    return {**sent, "metadata": {**metadata, "name": request.name}}


def _told(request: Request) -> str:
    resource = request.target
    return f"/{request.name}; {resource.group}/{resource.version}, Kind={resource.kind}"


def _applied_before(type_: Struct, live: Json, manager: str) -> set[Path]:
    """What kubectl applied on the client's side before; kubectl may take that over without force."""
    told = (live["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
    if manager != _KUBECTL or not told:
        return set()
    try:
        return fields_of(type_, decode(told.encode()))
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return set()


def _last_applied(sent: Json) -> str:
    """The configuration as kubectl writes it into the annotation when it applies on the client's side."""
    metadata = {name: part for name, part in sent["metadata"].items() if name != "managedFields"}
    annotations = dict(metadata.pop("annotations", None) or {})
    annotations.pop(_LAST_APPLIED, None)
    if annotations:
        metadata["annotations"] = annotations
    return msgspec.json.encode({**sent, "metadata": metadata}, order="deterministic").decode() + "\n"


def _given_up(live: Json, fields: set[Path], manager: str, subresource: str) -> set[Path]:
    """Fields that the manager owned by applying, names no longer, and nobody else owns."""
    given_up: set[Path] = set()
    others: set[Path] = set()
    for entry in ownership.owners_of(live).values():
        if (entry.manager, entry.operation, entry.subresource) == (manager, "Apply", subresource):
            given_up |= entry.fields - fields
        else:
            others |= entry.fields
    return given_up - others
