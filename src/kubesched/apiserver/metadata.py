"""ObjectMeta: what the server fills in on creation, what a client may never change, and the order of its fields."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from kubesched.apiserver.status import Cause, invalid_value, required
from kubesched.apiserver.store import Json

_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
ANNOTATIONS_LIMIT_BYTES = 256 << 10


def ordered(metadata: Json) -> Json:
    """The fields in the order in which the original writes them; empty ones are left out."""
    out = {name: metadata[name] for name in _ORDER if metadata.get(name) not in (None, "", {}, [])}
    for text_map in ("labels", "annotations"):
        if text_map in out:
            out[text_map] = dict(sorted(out[text_map].items()))
    return out


def timestamp(epoch_s: float) -> str:
    """RFC 3339 in whole seconds, as metadata and conditions carry it."""
    return datetime.fromtimestamp(int(epoch_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch(text: str) -> float:
    """The moment a timestamp tells, as seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


def generated_suffix(randrange: Any) -> str:
    return "".join(_SUFFIX_LETTERS[randrange(len(_SUFFIX_LETTERS))] for _ in range(5))


def is_subdomain(name: str) -> bool:
    return len(name) <= 253 and _SUBDOMAIN.fullmatch(name) is not None


def is_label(name: str) -> bool:
    return len(name) <= 63 and _LABEL.fullmatch(name) is not None


def check(metadata: Json, *, name_is_label: bool = False, any_name: bool = False) -> list[Cause]:
    """Validation of the metadata of an object to be created or updated."""
    causes: list[Cause] = []
    name = metadata.get("name", "")
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif any_name:
        if "/" in name or "%" in name or name in (".", ".."):
            causes.append(invalid_value("metadata.name", name, "may not contain '/'"))
    elif name_is_label:
        if not is_label(name):
            causes.append(invalid_value("metadata.name", name, LABEL_TEXT))
    elif not is_subdomain(name):
        causes.append(invalid_value("metadata.name", name, SUBDOMAIN_TEXT))
    causes += check_labels(metadata.get("labels") or {}, "metadata.labels")
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        text = _qualified_fault(key.lower())
        if text:
            causes.append(invalid_value("metadata.annotations", key, text))
    if sum(len(k) + len(v) for k, v in annotations.items()) > ANNOTATIONS_LIMIT_BYTES:
        causes.append(
            Cause(
                "FieldValueTooLong",
                f"Too long: may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes",
                "metadata.annotations",
            )
        )
    for finalizer in metadata.get("finalizers") or ():
        if _qualified_fault(finalizer):
            causes.append(invalid_value("metadata.finalizers", finalizer, _QUALIFIED_TEXT))
    return causes


def check_labels(labels: Json, path: str) -> list[Cause]:
    causes = []
    for key, value in labels.items():
        text = _qualified_fault(key)
        if text:
            causes.append(invalid_value(path, key, text))
        if len(value) > 63:
            causes.append(invalid_value(path, value, "must be no more than 63 bytes"))
        elif not _LABEL_VALUE.fullmatch(value):
            causes.append(invalid_value(path, value, _LABEL_VALUE_TEXT))
    return causes


def _qualified_fault(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or not is_subdomain(prefix)):
        return "prefix part " + SUBDOMAIN_TEXT if prefix else "prefix part must be non-empty"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return "" if _QUALIFIED.fullmatch(name) else _QUALIFIED_TEXT
