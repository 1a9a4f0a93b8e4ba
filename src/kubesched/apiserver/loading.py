"""Taking in a cluster as it is: manifests and dumps, with the status, nodes and uids that they name.

Unlike a create over HTTP, a loaded object keeps its status, node, uid and timestamps; namespaces that are missing are
made. Lists are unpacked. Objects that exist are replaced. A pod that tells its priority
keeps it, whatever classes there are.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kubesched.apiserver import admission, metadata, views
from kubesched.apiserver.resources import BY_PATH, Resource, by_kind
from kubesched.apiserver.rules import rules_for
from kubesched.apiserver.schema import WrongType, review, struct_of
from kubesched.apiserver.status import Refusal, bad_request
from kubesched.apiserver.store import Json
from kubesched.apiserver.writing import create_object
from kubesched.manifests import Document, ManifestError

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

log = logging.getLogger("kubesched.apiserver")

_FIRST = {"Namespace": 0, "PriorityClass": 1, "StorageClass": 2, "Node": 3}
_NAMESPACES = BY_PATH["", "v1", "namespaces"]


def load(api: Api, documents: Iterable[Json]) -> int:
    """Stores the objects, those that others refer to first. Raises Refusal for one that is wrong."""
    flat = [item for document in documents for item in _unpacked(document)]
    for document in sorted(flat, key=lambda d: _rank(d.get("kind", ""))):
        _load_one(api, document)
    return len(flat)


def load_documents(api: Api, documents: Iterable[Document], *, leave_out_unknown: bool) -> int:
    """The same from files. ManifestError for an object that is wrong. Kinds that this server does not know are wrong,
    or left out with a line in the log."""
    count = 0
    left_out: Counter[tuple[str, str]] = Counter()
    for document in sorted(documents, key=lambda d: _rank(d.kind)):
        if leave_out_unknown and by_kind(document.api_version, document.kind) is None:
            left_out[document.api_version, document.kind] += 1
            continue
        try:
            _load_one(api, document.manifest)
        except Refusal as refusal:
            raise ManifestError(document.source, refusal.message) from None
        count += 1
    for (api_version, kind), objects in left_out.items():
        log.warning("objects left out, their kind is not served here kind=%s/%s count=%d", api_version, kind, objects)
    return count


def _rank(kind: str) -> int:
    return _FIRST.get(kind, len(_FIRST))


def _unpacked(document: Json) -> list[Json]:
    kind = document.get("kind", "")
    if not kind.endswith("List") or "items" not in document:
        return [document]
    item = {"kind": kind.removesuffix("List"), "apiVersion": document.get("apiVersion", "v1")}
    return [found for entry in document["items"] for found in _unpacked({**item, **entry} if kind != "List" else entry)]


def _load_one(api: Api, sent: Json) -> None:
    resource = by_kind(sent.get("apiVersion", ""), sent.get("kind", ""))
    if resource is None:
        raise bad_request(f'no kind "{sent.get("kind")}" is known in version "{sent.get("apiVersion")}"')
    if not resource.is_stored:
        raise bad_request(f"{resource.kind} cannot be loaded: it is asked for or sent, never stored")
    if resource.group == "events.k8s.io":  # kept as core events, which may lack what a new event must have
        sent, resource = views.kept(resource, sent), BY_PATH["", "v1", "events"]
    document = _typed(resource, sent)
    meta = document["metadata"]
    if resource.namespaced:
        namespace = meta.setdefault("namespace", "default")
        if api.get("namespaces", "", namespace) is None:
            _load_one(api, {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": namespace}})
    kept = {name: meta[name] for name in ("uid", "creationTimestamp", "generation") if name in meta}
    deletion = {name: meta[name] for name in ("deletionTimestamp", "deletionGracePeriodSeconds") if name in meta}
    meta.pop("resourceVersion", None)
    if resource.kind == "Pod" and "priority" not in document["spec"]:
        admission.resolve_priority(api, resource, document)
    status = document.get("status")
    existing = api.store.of(resource).get(meta.get("namespace", ""), meta.get("name", ""))
    if existing is not None:
        api.store.delete(resource, existing)
    document, _ = create_object(api, resource, document, dry_run=True, loaded=True)
    if sent.get("status") and status is not None:
        document["status"] = {**(document.get("status") or {}), **status}
    document["metadata"] = metadata.ordered({**document["metadata"], **kept, **deletion})
    api.store.create(resource, document)


def _typed(resource: Resource, sent: Json) -> Json:
    metadata_sent = sent.get("metadata") or {}
    document = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": dict(metadata_sent)}
    document.update({k: v for k, v in sent.items() if k not in document})
    type_ = struct_of(resource.group, resource.version, resource.kind)
    if type_ is None:
        return document
    try:
        return review(type_, document).document
    except WrongType as error:
        where = "/".join(p for p in (metadata_sent.get("namespace"), metadata_sent.get("name")) if p)
        raise bad_request(f"{resource.kind} {where} cannot be loaded: {error}") from None


__all__ = ["load", "rules_for"]
