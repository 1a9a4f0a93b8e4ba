"""create and replace, and the one way in which every changed object is committed.

`create` and `commit_update` are the only places that write new versions of objects on a client's behalf; patch, status,
scale and eviction end in `commit_update` as PUT does. Each reads, decides and commits without suspending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubesched.apiserver import admission, bodies, metadata, ownership, views
from kubesched.apiserver.duplicates import duplicate_fields
from kubesched.apiserver.messages import Answer, Reply, Request, answer_json
from kubesched.apiserver.reading import answer_object
from kubesched.apiserver.representation import accepted
from kubesched.apiserver.resources import Resource
from kubesched.apiserver.rules import rules_for
from kubesched.apiserver.rules.pods import check_resize
from kubesched.apiserver.schema import WrongType, review, struct_of
from kubesched.apiserver.status import (
    Cause,
    Refusal,
    already_exists,
    bad_request,
    forbidden_field,
    internal,
    invalid,
    invalid_value,
    modified,
    not_found,
    storage_precondition,
    unsupported,
)
from kubesched.apiserver.store import Json, Stored

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

MANAGER_LIMIT = 128
_OPTIONS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
_CREATED_BY_UPDATE = frozenset({"leases", "events"})
_VERSION_REQUIRED = frozenset({"leases"})
_SERVER_SET = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
# Subresources that write one part of the object; everything else of what is sent is ignored.
_PARTS: dict[str, tuple[str, ...]] = {"status": ("status",), "approval": ("status",)}


def check_options(request: Request) -> None:
    """Refuses query parameters of writes that have no meaning (dryRun, fieldValidation, fieldManager, timeout)."""
    timeout = request.query.get("timeout")
    if timeout and timeout[-1:] not in "smhun":
        raise bad_request(f'invalid timeout specified in the request URL - time: invalid duration "{timeout}"')
    kind = _OPTIONS.get(request.verb)
    if kind is None:
        return
    causes = []
    query = request.query
    if query.get("dryRun", "All") != "All":
        causes.append(unsupported("dryRun", [query["dryRun"]], ("All",)))
    if query.get("fieldValidation", "") not in ("", "Ignore", "Strict", "Warn"):
        causes.append(unsupported("fieldValidation", query["fieldValidation"], ("", "Ignore", "Strict", "Warn")))
    if len(query.get("fieldManager", "")) > MANAGER_LIMIT:
        text = f"Too long: may not be more than {MANAGER_LIMIT} bytes"
        causes.append(Cause("FieldValueTooLong", text, "fieldManager"))
    if causes:
        raise invalid(kind, "meta.k8s.io", "", causes)


def read_object(request: Request) -> Json:
    """The body as an object of the request's resource, its namespace checked and filled in."""
    resource = request.target
    document = bodies.object_of(request, resource.kind, resource.api_version)
    document = reviewed(request, resource, document)
    meta = document["metadata"]
    if resource.namespaced:
        if meta.get("namespace", request.namespace) != request.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        meta["namespace"] = request.namespace
    elif meta.get("namespace"):
        raise bad_request("namespace is not allowed on this resource")
    return document


def reviewed(request: Request, resource: Resource, document: Json) -> Json:
    """The document as the API types hold it; what they do not know is warned of, or refused when that is asked for."""
    try:
        return typed(request, resource, document, sent_whole=True)
    except WrongType as error:
        text = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {error}'
        raise bad_request(text) from None


def typed(request: Request, resource: Resource, document: Json, *, sent_whole: bool = False) -> Json:
    """As `reviewed`, but faults are raised as WrongType, for callers who tell them in words of their own.

    `sent_whole`: the document is the request's body, which is then looked through for fields that are named twice.
    """
    type_ = struct_of(resource.group, resource.version, resource.kind)
    if type_ is None:
        return document
    found = review(type_, document)
    told = [f'unknown field "{name}"' for name in found.unknown]
    if sent_whole and request.body.count(b'":') > found.keys_seen - request.filled_in:  # seldom, and then often in vain
        told += [f'duplicate field "{name}"' for name in duplicate_fields(request.body, request.content_type)]
    if told:
        mode = request.query.get("fieldValidation") or "Warn"
        if mode == "Strict":
            raise WrongType(f"strict decoding error: {', '.join(told)}")
        if mode == "Warn":
            request.warnings += told
    return found.document


async def create(api: Api, request: Request) -> Reply:
    form = accepted(request)
    document = read_object(request)
    document["metadata"].pop("managedFields", None)
    manager = request.field_manager if api.profile.track_fields else ""
    document, stored = create_object(api, request.target, document, request.dry_run, manager=manager)
    request.warnings += rules_for(request.target).warn(document)
    if stored is None:
        return answer_json(document, 201)
    return answer_object(api, request, stored, form, 201)


def create_object(
    api: Api, resource: Resource, document: Json, dry_run: bool = False, *, loaded: bool = False, manager: str = ""
) -> tuple[Json, Stored | None]:
    """Completes, checks and stores a new object. With dry_run it is only shown; `loaded` ones come from a dump.

    With a `manager` it is told as the owner of the object's fields.
    """
    meta = document["metadata"]
    namespace = meta.get("namespace", "")
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"] + metadata.generated_suffix(api.chance.randrange)
    name = meta.get("name", "")
    if resource.namespaced:
        admission.check_namespace(api, resource, namespace, name)
    if meta.get("resourceVersion"):
        raise internal("resourceVersion should not be set on objects to be created")
    for dropped in _SERVER_SET:
        meta.pop(dropped, None)
    meta["uid"], meta["creationTimestamp"] = api.new_uid(), api.now()
    if resource.has_generation:
        meta["generation"] = 1
    rules = rules_for(resource)
    rules.default(document)
    if manager:
        _own_created(resource, document, manager, api.now())
    rules.on_create(api, resource, document)
    if not loaded:
        rules.admit(api, resource, document)
    causes = metadata.check(meta, name_is_label=rules.label_name, any_name=rules.any_name) + rules.validate(document)
    if causes:
        raise invalid(resource.kind, rules.error_group(resource), name, causes)
    existing = api.store.of(resource).get(namespace, name)
    if existing is not None:
        terminating = "deletionTimestamp" in existing.document()["metadata"]
        raise already_exists(resource, name, terminating=terminating)
    rules.on_commit(api, resource, document)
    if dry_run:
        document["metadata"] = metadata.ordered(meta)
        return document, None
    document["metadata"] = metadata.ordered({**meta, "resourceVersion": "0"})  # keeps its place among the fields
    return document, api.store.create(resource, views.kept(resource, document))


def _own_created(resource: Resource, document: Json, manager: str, now: str) -> None:
    type_ = struct_of(resource.group, resource.version, resource.kind)
    if type_ is not None:
        sent = {name: part for name, part in document.items() if name != "status"}
        ownership.track_create(type_, sent, manager, now)
        document["metadata"] = sent["metadata"]


async def replace(api: Api, request: Request) -> Reply:
    resource, form = request.target, accepted(request)
    document = read_object(request)
    meta = document["metadata"]
    name = meta.setdefault("name", request.name)
    if name != request.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({request.name})")
    stored = api.store.of(resource).get(request.namespace, request.name)
    if stored is None:
        if resource.plural not in _CREATED_BY_UPDATE or request.subresource:
            raise not_found(resource, request.name)
        document, created = create_object(api, resource, document, request.dry_run)
        if created is None:
            return answer_json(document, 201)
        return answer_object(api, request, created, form, 201)
    if meta.get("uid", stored.uid) != stored.uid:
        raise storage_precondition(resource, request.namespace, request.name, "UID", meta["uid"], stored.uid)
    if resource.plural in _VERSION_REQUIRED and not meta.get("resourceVersion"):
        cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        refusal = invalid(resource.kind, resource.group, request.name, [cause])
        refusal.message = refusal.message.replace(resource.kind, resource.plural, 1)
        refusal.details = {**(refusal.details or {}), "kind": resource.plural}
        raise refusal
    return commit_update(api, request, stored, document, form)


def commit_update(
    api: Api, request: Request, stored: Stored, document: Json, form: Any = None, *, owners_written: bool = False
) -> Answer:
    """Stores `document` as the next version of `stored`, through the subresource of the request.

    `owners_written`: its managedFields are as they are to be (an apply), not for this write to derive.
    """
    resource = request.target
    if form is None:
        form = accepted(request)
    old = views.document(resource, stored)
    manager = "" if owners_written else request.field_manager
    new, result = update_object(api, resource, stored, old, document, request.subresource, request.dry_run, manager)
    if new["metadata"].get("generation") != old["metadata"].get("generation"):
        request.warnings += rules_for(resource).warn(new)
    if result is None:
        return answer_json(new)
    return answer_object(api, request, result, form)


def update_object(
    api: Api,
    resource: Resource,
    stored: Stored,
    old: Json,
    new: Json,
    subresource: str = "",
    dry_run: bool = False,
    manager: str = "",
) -> tuple[Json, Stored | None]:
    """The new version as shown, and as stored. Nothing is written when nothing changes. It is only shown with dry_run,
    and when a terminating object that nothing holds any more goes with this write."""
    old_meta, new_meta = old["metadata"], new["metadata"]
    version = new_meta.get("resourceVersion")
    if version and version != str(stored.revision):
        raise modified(resource, stored.name)
    sent_uid = new_meta.get("uid", stored.uid)
    if sent_uid != stored.uid:
        cause = invalid_value("metadata.uid", sent_uid, "field is immutable")
        raise invalid(resource.kind, resource.group, stored.name, [cause, cause])
    rules = rules_for(resource)
    parts = _PARTS.get(subresource)
    if parts:
        shown = {name: value for name, value in old.items() if name not in parts and name != "metadata"}
        shown.update({name: new[name] for name in parts if name in new})
        shown = {"kind": old["kind"], "apiVersion": old["apiVersion"], "metadata": new_meta, **shown}
        new = shown
        for name in ("ownerReferences", "finalizers", "generateName"):
            _take_over(new_meta, old_meta, name)
    elif resource.has_status:
        _take_over(new, old, "status")
    for name in (*_SERVER_SET, "resourceVersion", "generateName"):
        _take_over(new_meta, old_meta, name)
    new_meta["name"] = stored.name
    if not parts:
        rules.on_update(old, new)
        rules.default(new)
    causes: list[Cause] = []
    if new_meta != old_meta:
        causes += metadata.check(new_meta, name_is_label=rules.label_name, any_name=rules.any_name)
        causes = causes * rules.update_checks_metadata + _new_finalizers(old_meta, new_meta) * rules.update_checks
    if not parts and subresource == "":
        causes += rules.validate_update(old, new) or rules.validate(new) * rules.update_checks
        if resource.has_generation and _without_metadata_and_status(new) != _without_metadata_and_status(old):
            new_meta["generation"] = old_meta.get("generation", 0) + 1
    elif subresource in ("ephemeralcontainers", "resize") and new["spec"] != old["spec"]:
        new_meta["generation"] = old_meta.get("generation", 0) + 1
        causes += check_resize(old, new) if subresource == "resize" else []
    if causes:
        raise invalid(resource.kind, rules.error_group(resource), stored.name, causes)
    if manager:
        _own_updated(api, resource, old, new, subresource, manager)
    new["metadata"] = metadata.ordered(new_meta)
    if new == old:
        return old, stored
    if dry_run:
        return new, None
    kept = views.kept(resource, new)
    if "deletionTimestamp" in new_meta and _is_finished(new):
        api.store.delete(resource, stored, kept)
        return old | new | {"metadata": {**new["metadata"], "resourceVersion": str(stored.revision)}}, None
    return new, api.store.update(resource, stored, kept)


def _own_updated(api: Api, resource: Resource, old: Json, new: Json, subresource: str, manager: str) -> None:
    """Settles the managedFields of a plain write; a client may only clear them, with a list of one empty entry."""
    meta = new["metadata"]
    type_ = struct_of(resource.group, resource.version, resource.kind)
    if meta.pop("managedFields", None) == [{}]:
        return
    rows = old["metadata"].get("managedFields")
    if type_ is None or not (rows or api.profile.track_fields):
        return
    meta["managedFields"] = rows
    ownership.track_update(type_, old, new, manager, subresource, api.now())


def _is_finished(document: Json) -> bool:
    """A terminating object that nothing holds any more: no finalizers, no grace left."""
    meta = document["metadata"]
    if meta.get("finalizers") or meta.get("deletionGracePeriodSeconds", 0) > 0:
        return False
    return not (document["kind"] == "Namespace" and document.get("spec", {}).get("finalizers"))


def _take_over(target: Json, source: Json, name: str) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def _without_metadata_and_status(document: Json) -> Json:
    return {name: value for name, value in document.items() if name not in ("metadata", "status")}


def _new_finalizers(old_meta: Json, new_meta: Json) -> list[Cause]:
    if "deletionTimestamp" not in old_meta:
        return []
    added = [name for name in new_meta.get("finalizers") or () if name not in (old_meta.get("finalizers") or ())]
    if not added:
        return []
    shown = " ".join(f'"{name}"' for name in added)
    text = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
    return [forbidden_field("metadata.finalizers", text)]


async def finalize(api: Api, request: Request) -> Reply:
    """PUT namespaces/<name>/finalize: only spec.finalizers is taken; the last one gone, the namespace goes."""
    resource = request.target
    sent = bodies.object_of(request, resource.kind, resource.api_version)
    stored = api.find(request)
    document = stored.document()
    finalizers = (sent.get("spec") or {}).get("finalizers")
    if finalizers:
        document["spec"]["finalizers"] = finalizers
        return answer_object(api, request, api.store.update(resource, stored, document), accepted(request))
    document["spec"].pop("finalizers", None)
    if "deletionTimestamp" in document["metadata"] and not document["metadata"].get("finalizers"):
        api.store.delete(resource, stored, document)
        document["metadata"]["resourceVersion"] = str(stored.revision)
        return answer_json(document)
    return answer_object(api, request, api.store.update(resource, stored, document), accepted(request))


def with_warnings(request: Request, answer: Answer) -> Answer:
    """The answer with the warnings that the request has gathered, as kubectl prints them."""
    if request.warnings:
        escaped = [text.replace("\\", "\\\\").replace('"', '\\"') for text in request.warnings]
        answer.headers["Warning"] = ", ".join(f'299 - "{text}"' for text in escaped)
    return answer


__all__ = [
    "Refusal",
    "check_options",
    "commit_update",
    "create",
    "create_object",
    "finalize",
    "replace",
    "update_object",
]
