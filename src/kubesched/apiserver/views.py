"""One stored object, seen through a resource: the core group and events.k8s.io show the same events in two shapes.

Everything else is shown as it is stored, without touching its bytes.
"""

from __future__ import annotations

from kubesched.apiserver.resources import Resource
from kubesched.apiserver.schema import review, struct_of
from kubesched.apiserver.store import Json, Stored, encode

_TO_EVENTS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_TO_CORE = {new: old for old, new in _TO_EVENTS.items()}


def body(resource: Resource, stored: Stored) -> bytes:
    """The object with kind and apiVersion in front."""
    if stored.body.startswith(resource.prefix):
        return stored.body
    return encode(document(resource, stored))


def item(resource: Resource, stored: Stored) -> bytes:
    """The object as an item of a list, without kind and apiVersion."""
    return b"{" + body(resource, stored)[len(resource.prefix) :]


def document(resource: Resource, stored: Stored) -> Json:
    found = stored.document()
    if stored.body.startswith(resource.prefix):
        return found
    return shown(resource, found)


def shown(resource: Resource, stored: Json) -> Json:
    """A stored document as this resource shows it."""
    if resource.group == "events.k8s.io":
        return _event(stored, "events.k8s.io/v1", _TO_EVENTS)
    return {**stored, "apiVersion": resource.api_version}


def kept(resource: Resource, sent: Json) -> Json:
    """A document sent to this resource as it is stored."""
    if resource.group == "events.k8s.io":
        return _event(sent, "v1", _TO_CORE)
    return sent


def _event(event: Json, api_version: str, names: dict[str, str]) -> Json:
    renamed = {names.get(name, name): value for name, value in event.items()}
    group, _, version = api_version.rpartition("/")
    type_ = struct_of(group, version, "Event")
    assert type_ is not None
    return review(type_, {**renamed, "apiVersion": api_version}).document
