"""Leases, and events in both of their views."""

from __future__ import annotations

from kubesched.apiserver.rules.base import Rules
from kubesched.apiserver.status import Cause, invalid_value, required
from kubesched.apiserver.store import Json

NOTE_LIMIT = 1024


def _check_lease(lease: Json) -> list[Cause]:
    spec = lease["spec"]
    causes = []
    if spec.get("leaseDurationSeconds") is not None and spec["leaseDurationSeconds"] <= 0:
        causes.append(
            invalid_value("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
        )
    if spec.get("leaseTransitions") is not None and spec["leaseTransitions"] < 0:
        causes.append(
            invalid_value("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0")
        )
    return causes


LEASE = Rules(validate=_check_lease)

_QUALIFIED_NAME_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def _check_event(event: Json) -> list[Cause]:
    """events.k8s.io: everything that tells what happened is required."""
    causes = []
    if not event.get("eventTime"):
        causes.append(required("eventTime"))
    if not event.get("reportingController"):
        causes.append(required("reportingController"))
        causes.append(invalid_value("reportingController", "", "name part must be non-empty"))
        causes.append(invalid_value("reportingController", "", _QUALIFIED_NAME_TEXT))
    causes += [required(name) for name in ("reportingInstance", "action", "reason") if not event.get(name)]
    if event.get("type") not in ("Normal", "Warning"):
        causes.append(invalid_value("type", "", f"has invalid value: {event.get('type', '')}"))
    if len(event.get("note") or "") > NOTE_LIMIT:
        causes.append(invalid_value("message", "", f"can have at most {NOTE_LIMIT} characters"))
    series = event.get("series")
    if series is not None:
        if series.get("count", 0) < 2:
            causes.append(invalid_value("series.count", "", "should be at least 2"))
        if not series.get("lastObservedTime"):
            causes.append(required("series.lastObservedTime"))
    return causes


_FIXED = {
    "reason": "reason",
    "action": "action",
    "note": "message",
    "type": "type",
    "regarding": "involvedObject",
    "related": "related",
    "reportingController": "reportingController",
    "reportingInstance": "reportingInstance",
    "eventTime": "eventTime",
}


def _check_event_update(old: Json, new: Json) -> list[Cause]:
    """Only the series of an event may change."""
    return [
        invalid_value(told, new.get(name), "field is immutable")
        for name, told in _FIXED.items()
        if (old.get(name) or None) != (new.get(name) or None)
    ]


EVENT = Rules(validate=_check_event, validate_update=_check_event_update, any_name=True, group_in_errors=False)


def _check_core_event(event: Json) -> list[Cause]:
    namespace = (event.get("involvedObject") or {}).get("namespace") or "default"
    own = event["metadata"].get("namespace", "")
    if (event.get("involvedObject") or {}).get("namespace", "") != own and not (
        (event.get("involvedObject") or {}).get("namespace", "") == "" and own == "default"
    ):
        return [invalid_value("involvedObject.namespace", namespace, "does not match event.namespace")]
    return []


CORE_EVENT = Rules(validate=_check_core_event, any_name=True)
