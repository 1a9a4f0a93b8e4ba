"""Answers that say no: `Refusal` is raised anywhere below a handler and becomes a `Status` document.

Reasons, messages and details are those of kube-apiserver v1.36, to the letter: clients and people match on them.
Which name goes into `details.kind` differs by reason there (the plural for NotFound, AlreadyExists, Conflict and
Forbidden; the kind for Invalid and for failed delete preconditions), and so it does here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kubesched.apiserver.resources import Resource

Json = dict[str, Any]

_ENCODE = msgspec.json.Encoder().encode


class Refusal(Exception):
    """The request is answered with an error. `headers` are added to the answer (Retry-After)."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = dict(headers or {})
        self.metadata = dict(metadata or {})

    def document(self) -> Json:
        document: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            document["reason"] = self.reason
        if self.details is not None:
            document["details"] = dict(self.details)
        document["code"] = self.code
        return document

    def body(self) -> bytes:
        return _ENCODE(self.document())


class PlainNotFound(Exception):
    """A path outside the API: answered as text, `404 page not found`."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that is wrong. `text` is what follows the field in the message."""

    reason: str
    text: str
    field: str

    def document(self) -> Json:
        document: Json = {"reason": self.reason, "message": self.text}
        if self.field:
            document["field"] = self.field
        return document


def required(field: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", "Required value" + (f": {detail}" if detail else ""), field)


def forbidden_field(field: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", field)


def invalid_value(field: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {quoted(value)}: {detail}", field)


def unsupported(field: str, value: Any, supported: Sequence[str]) -> Cause:
    listed = ", ".join(f'"{s}"' for s in supported)
    return Cause("FieldValueNotSupported", f"Unsupported value: {quoted(value)}: supported values: {listed}", field)


def duplicate(field: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {quoted(value)}", field)


def quoted(value: Any) -> str:
    """A value as validation messages print it: JSON without spaces."""
    return _ENCODE(value).decode()


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> Refusal:
    """422 for an object that fails validation; one cause is told inline, several in brackets."""
    told = list(dict.fromkeys(f"{c.field}: {c.text}" if c.field else c.text for c in causes))
    text = told[0] if len(told) == 1 else "[" + ", ".join(told) + "]"
    qualified = f"{kind}.{group}" if group else kind
    details: Json = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details["causes"] = [c.document() for c in causes]
    return Refusal(422, "Invalid", f'{qualified} "{name}" is invalid: {text}', details)


def _details(resource: Resource, name: str, subresource: str = "") -> Json:
    details: Json = {}
    if name:
        details["name"] = name
    if resource.group:
        details["group"] = resource.group
    details["kind"] = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return details


def not_found(resource: Resource, name: str) -> Refusal:
    return Refusal(404, "NotFound", f'{resource.qualified} "{name}" not found', _details(resource, name))


def unknown_resource() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str, *, terminating: bool = False) -> Refusal:
    message = f'{resource.qualified} "{name}" already exists'
    if terminating:
        message = "object is being deleted: " + message
    return Refusal(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: Resource, name: str, text: str, subresource: str = "") -> Refusal:
    qualified = f"{resource.plural}/{subresource}" if subresource else resource.plural
    if resource.group:
        qualified = f"{qualified}.{resource.group}"
    message = f'Operation cannot be fulfilled on {qualified} "{name}": {text}'
    return Refusal(409, "Conflict", message, _details(resource, name, subresource))


def modified(resource: Resource, name: str) -> Refusal:
    return conflict(
        resource, name, "the object has been modified; please apply your changes to the latest version and try again"
    )


def storage_precondition(resource: Resource, namespace: str, name: str, what: str, asked: str, found: str) -> Refusal:
    """A UID or ResourceVersion precondition that fails inside the storage, in the words of etcd3 storage."""
    path = "/".join(p for p in ("/registry", storage_name(resource), namespace, name) if p)
    text = (
        f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: {what} in precondition: {asked}, {what} in object meta: {found}"
    )
    return conflict(resource, name, text)


def storage_name(resource: Resource) -> str:
    return {"nodes": "minions"}.get(resource.plural, resource.plural)


def forbidden(resource: Resource, name: str, text: str, causes: Sequence[Cause] = ()) -> Refusal:
    details = _details(resource, name)
    if causes:
        details["causes"] = [c.document() for c in causes]
    return Refusal(403, "Forbidden", f'{resource.qualified} "{name}" is forbidden: {text}', details)


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def internal(message: str) -> Refusal:
    """A plain 500 as the original gives for errors that it did not foresee."""
    return Refusal(500, "", message)


def method_not_allowed() -> Refusal:
    return Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def method_not_supported(resource: Resource, action: str) -> Refusal:
    """For what a kind cannot do although its path and method are there."""
    text = f'{action} is not supported on resources of kind "{resource.qualified}"'
    return Refusal(405, "MethodNotAllowed", text, _details(resource, ""))


def expired(message: str, metadata: Mapping[str, Any] | None = None) -> Refusal:
    return Refusal(410, "Expired", message, metadata=metadata)


def unsupported_media(message: str, details: Mapping[str, Any] | None = None) -> Refusal:
    return Refusal(415, "UnsupportedMediaType", message, details)


def success(code: int | None = None, details: Mapping[str, Any] | None = None) -> Json:
    document: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        document["details"] = dict(details)
    if code is not None:
        document["code"] = code
    return document
