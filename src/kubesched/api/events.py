"""events.k8s.io/v1: what happened to an object, for people to read."""

from __future__ import annotations

from kubesched.api.meta import Int32, Object, ObjectReference, Struct


class EventSeries(Struct):
    count: Int32 = 0
    last_observed_time: str | None = None


class EventSource(Struct):
    component: str = ""
    host: str = ""


class Event(Object):
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    deprecated_source: EventSource = EventSource()
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None
    deprecated_count: Int32 = 0
