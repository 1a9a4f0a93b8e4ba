"""What is sent and read as structs, field by field in the order of the recorded requests.

In a module of their own: mypyc knows nothing of the options of a msgspec struct, so that this one stays as it is.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType


class Said(msgspec.Struct, gc=False):
    """Of an answer to a bind."""

    kind: object = None
    status: object = None


class Precondition(msgspec.Struct, gc=False):
    name: str
    namespace: str
    uid: str


class NodeName(msgspec.Struct, kw_only=True, gc=False):
    kind: str = "Node"
    name: str


class Binding(msgspec.Struct, kw_only=True, rename="camel", gc=False):
    kind: str = "Binding"
    api_version: str = "v1"
    metadata: Precondition
    target: NodeName


class EventName(msgspec.Struct, gc=False):
    name: str
    namespace: str


class Reference(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    kind: str
    namespace: str = ""
    name: str
    uid: str = ""
    api_version: str
    resource_version: str = ""


class SeriesCount(msgspec.Struct, rename="camel", gc=False):
    count: int
    last_observed_time: str


class Event(msgspec.Struct, kw_only=True, rename="camel", gc=False):
    kind: str = "Event"
    api_version: str = "events.k8s.io/v1"
    metadata: EventName
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    regarding: Reference
    related: Reference | UnsetType = UNSET
    note: str
    type: str
    deprecated_source: dict[str, str] = {}
    deprecated_first_timestamp: None = None
    deprecated_last_timestamp: None = None
    series: SeriesCount | UnsetType = UNSET
