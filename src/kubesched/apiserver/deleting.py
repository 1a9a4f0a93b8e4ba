"""delete and deletecollection: grace periods, finalizers, preconditions, propagation.

A pod that is bound and not finished is given its grace period and stays, terminating, until whoever plays its kubelet
deletes it with grace 0. Everything else goes at once, unless finalizers hold it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kubesched.apiserver import bodies, go_json, metadata, views
from kubesched.apiserver.messages import Reply, Request, answer_json
from kubesched.apiserver.reading import answer_object
from kubesched.apiserver.representation import PLAIN
from kubesched.apiserver.resources import Resource
from kubesched.apiserver.rules.cluster import SYSTEM_PRIORITY_CLASSES
from kubesched.apiserver.selection import select
from kubesched.apiserver.status import (
    Refusal,
    bad_request,
    forbidden,
    invalid,
    invalid_value,
    success,
    unsupported,
)
from kubesched.apiserver.store import Json, Stored, decode

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

_POLICIES = ("Foreground", "Background", "Orphan")
_PERMANENT_NAMESPACES = ("default", "kube-system", "kube-public")
_DEFAULT_GRACE_S = 30
# Kinds whose deletion is answered with the object; of others it is with a Status.
_SHOWN_DELETED = frozenset(
    {
        "pods",
        "persistentvolumeclaims",
        "persistentvolumes",
        "services",
        "resourcequotas",
        "serviceaccounts",
        "podtemplates",
        "storageclasses",
        "csinodes",
        "csidrivers",
        "csistoragecapacities",
        "volumeattachments",
    }
)


@dataclass(slots=True)
class Options:
    """DeleteOptions as far as they have an effect."""

    grace_s: int | None = None
    uid: str = ""
    resource_version: str = ""
    policy: str = ""
    dry_run: bool = False


async def delete(api: Api, request: Request) -> Reply:
    options = read_options(request)
    stored = api.find(request)
    resource = request.target
    result, gone = delete_object(api, resource, stored, options)
    if gone and resource.plural not in _SHOWN_DELETED:
        details: Json = {"name": stored.name}
        if resource.group:
            details["group"] = resource.group
        details["kind"] = resource.plural
        details["uid"] = stored.uid
        return answer_json(success(details=details))
    return answer_object(api, request, result, PLAIN)


async def delete_collection(api: Api, request: Request) -> Reply:
    """Deletes what the selectors match; the answer lists the objects as they were."""
    options = read_options(request)
    resource, collection = request.target, api.store.of(request.target)
    query = request.query
    selection = select(resource, request.namespace, query.get("labelSelector", ""), query.get("fieldSelector", ""))
    found = [stored for stored in collection.scan(selection.namespace) if selection.matches(stored)]
    revision = api.store.revision
    for stored in found:
        delete_object(api, resource, stored, options)
    items = [
        {name: value for name, value in views.document(resource, s).items() if name not in ("kind", "apiVersion")}
        for s in found
    ]
    return answer_json(
        {
            "kind": resource.kind + "List",
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(revision)},
            "items": items,
        }
    )


def delete_object(api: Api, resource: Resource, stored: Stored, options: Options) -> tuple[Stored, bool]:
    """Deletes or begins to delete; the last version, and whether the object is gone."""
    check_preconditions(resource, stored, options)
    _check_permanent(resource, stored)
    document = stored.document()
    meta = document["metadata"]
    finalizers = list(meta.get("finalizers") or ())
    if options.policy == "Foreground" and "foregroundDeletion" not in finalizers:
        finalizers.append("foregroundDeletion")
    elif options.policy == "Orphan" and "orphan" not in finalizers:
        finalizers.append("orphan")
    if finalizers:
        meta["finalizers"] = finalizers
    if resource.plural == "namespaces":
        return _terminate_namespace(api, resource, stored, document, options)
    grace_s = _grace(document, options) if resource.graceful else 0
    if "deletionTimestamp" in meta:
        return _delete_again(api, resource, stored, document, grace_s, bool(finalizers), options)
    if grace_s == 0 and not finalizers and not resource.graceful:
        return (stored if options.dry_run else api.store.delete(resource, stored)), True
    meta["deletionTimestamp"] = metadata.timestamp(api.clock.now() + grace_s)
    meta["deletionGracePeriodSeconds"] = grace_s
    if "generation" in meta:
        meta["generation"] += 1
    document["metadata"] = metadata.ordered(meta)
    if options.dry_run:
        return Stored(stored.key, document, stored.revision, ()), grace_s == 0 and not finalizers
    marked = api.store.update(resource, stored, document)
    if grace_s > 0 or finalizers:
        return marked, False
    return api.store.delete(resource, marked), True


def _delete_again(
    api: Api, resource: Resource, stored: Stored, document: Json, grace_s: int, held: bool, options: Options
) -> tuple[Stored, bool]:
    """A delete of an object that is being deleted: it can only shorten the grace period."""
    meta = document["metadata"]
    running_s = meta.get("deletionGracePeriodSeconds", 0)
    if options.grace_s is None or grace_s >= running_s > 0 or (running_s == 0 and held):
        return stored, False
    if options.dry_run:
        return stored, False
    if running_s > 0:
        began = metadata.epoch(meta["deletionTimestamp"]) - running_s
        meta["deletionTimestamp"] = metadata.timestamp(began + grace_s if grace_s else api.clock.now())
        meta["deletionGracePeriodSeconds"] = grace_s
        document["metadata"] = metadata.ordered(meta)
        stored = api.store.update(resource, stored, document)
    if grace_s > 0 or held:
        return stored, False
    return api.store.delete(resource, stored), True


def _grace(pod: Json, options: Options) -> int:
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.grace_s if options.grace_s is not None else pod["spec"].get("terminationGracePeriodSeconds")
    grace_s = _DEFAULT_GRACE_S if asked is None else asked
    return grace_s if grace_s >= 0 else 1


def _terminate_namespace(
    api: Api, resource: Resource, stored: Stored, document: Json, options: Options
) -> tuple[Stored, bool]:
    if "deletionTimestamp" in document["metadata"] or options.dry_run:
        return stored, False
    document["metadata"]["deletionTimestamp"] = api.now()
    document["metadata"] = metadata.ordered(document["metadata"])
    document["status"] = {**document.get("status", {}), "phase": "Terminating"}
    if document["spec"].get("finalizers") or document["metadata"].get("finalizers"):
        return api.store.update(resource, stored, document), False
    return api.store.delete(resource, stored, document), True


def _check_permanent(resource: Resource, stored: Stored) -> None:
    if resource.plural == "namespaces" and stored.name in _PERMANENT_NAMESPACES:
        raise forbidden(resource, stored.name, "this namespace may not be deleted")
    if resource.plural == "priorityclasses" and stored.name in SYSTEM_PRIORITY_CLASSES:
        raise forbidden(resource, stored.name, "this is a system priority class and cannot be deleted")


def check_preconditions(resource: Resource, stored: Stored, options: Options) -> None:
    if options.uid and options.uid != stored.uid:
        raise _failed(
            resource,
            stored,
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({stored.uid}). "
            "The object might have been deleted and then recreated",
        )
    if options.resource_version and options.resource_version != str(stored.revision):
        raise _failed(
            resource,
            stored,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({stored.revision}). The object might have been modified",
        )


def _failed(resource: Resource, stored: Stored, text: str) -> Refusal:
    """A failed precondition names the kind where other conflicts name the plural."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details: Json = {"name": stored.name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.kind
    return Refusal(409, "Conflict", f'Operation cannot be fulfilled on {kind} "{stored.name}": {text}', details)


def read_options(request: Request) -> Options:
    """DeleteOptions from the body, else from the query."""
    sent: Any = {}
    if request.body:
        if request.content_type not in bodies.JSON_TYPES:
            return options_of(_of_kind(bodies.parse(request, "DeleteOptions") or {}))
        try:
            sent = decode(request.body) or {}
        except msgspec.DecodeError:
            fault = go_json.fault(request.body)
            raise bad_request(f"couldn't get version/kind; json parse error: {fault}") from None
        return options_of(_of_kind(sent))
    query = request.query
    for name in ("propagationPolicy",):
        if query.get(name):
            sent[name] = query[name]
    if query.get("gracePeriodSeconds"):
        sent["gracePeriodSeconds"] = request.number("gracePeriodSeconds")
    if query.get("dryRun"):
        sent["dryRun"] = [query["dryRun"]]
    if query.get("orphanDependents"):
        sent["orphanDependents"] = request.flag("orphanDependents")
    return options_of(sent)


def _of_kind(sent: Json) -> Json:
    if sent.get("kind", "DeleteOptions") != "DeleteOptions":
        raise bad_request(
            f'no kind "{sent["kind"]}" is registered for version "{sent.get("apiVersion", "")}" in scheme '
            '"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"'
        )
    return sent


def options_of(sent: Json) -> Options:
    policy, orphan = sent.get("propagationPolicy") or "", sent.get("orphanDependents")
    causes = []
    if policy and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(invalid_value("propagationPolicy", policy, text))
    if policy and policy not in _POLICIES:
        causes.append(unsupported("propagationPolicy", policy, (*_POLICIES, "nil")))
    dry_run = sent.get("dryRun") or []
    if dry_run not in ([], ["All"]):
        causes.append(unsupported("dryRun", dry_run, ("All",)))
    if causes:
        raise invalid("DeleteOptions", "meta.k8s.io", "", causes)
    preconditions = sent.get("preconditions") or {}
    return Options(
        sent.get("gracePeriodSeconds"),
        preconditions.get("uid") or "",
        preconditions.get("resourceVersion") or "",
        "Orphan" if orphan else policy,
        bool(dry_run),
    )
