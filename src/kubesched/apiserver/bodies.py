"""Bodies of write requests: from bytes to a document of the right kind, or a refusal in the original's words."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from kubesched.apiserver import go_json, protobuf
from kubesched.apiserver.messages import Request
from kubesched.apiserver.resources import RESOURCES
from kubesched.apiserver.status import Refusal, bad_request, unsupported_media
from kubesched.apiserver.store import Json, decode

_KNOWN = frozenset((r.api_version, r.kind) for r in RESOURCES)
_VERSION_OF_KIND = {r.kind: r.api_version for r in reversed(RESOURCES)}

JSON_TYPES = ("application/json", "")
YAML_TYPES = ("application/yaml", "application/x-yaml")


def object_of(request: Request, kind: str, api_version: str) -> Json:
    """The body as one object of `kind`; a missing kind or apiVersion is filled in."""
    value = parse(request, kind)
    if value is None:
        value = {}
    if not isinstance(value, dict):
        fault = (
            f"json: cannot unmarshal {go_json.type_name(value)} into Go value of type struct "
            '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
        raise _unrecognized(kind, fault, request.body)
    request.filled_in = sum(name not in value for name in ("kind", "apiVersion", "metadata"))
    sent_kind, sent_version = value.get("kind") or kind, value.get("apiVersion") or api_version
    if (sent_kind, sent_version) != (kind, api_version):
        raise _wrong_kind(kind, api_version, sent_kind, sent_version)
    metadata = value.get("metadata")
    if metadata is None:
        metadata = {}
    elif not isinstance(metadata, dict):
        raise unmarshal_error(kind, api_version, metadata, f"{kind}.metadata", "v1.ObjectMeta")
    rest = {name: part for name, part in value.items() if name not in ("kind", "apiVersion", "metadata")}
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata, **rest}


def parse(request: Request, kind: str) -> Any:
    content_type = request.content_type
    if content_type in JSON_TYPES:
        try:
            return decode(request.body)
        except msgspec.DecodeError:
            fault = go_json.fault(request.body)
            raise _unrecognized(kind, fault, request.body) from None
    if content_type in YAML_TYPES:
        try:
            return yaml.load(request.body, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except yaml.YAMLError as error:
            raise bad_request(f"error converting YAML to JSON: {error}") from None
    if content_type == protobuf.CONTENT_TYPE:
        try:
            return protobuf.decode_object(request.body)
        except protobuf.NotProtobuf as error:
            raise unsupported_media(f"the protobuf body of the request cannot be read: {error}") from None
    raise unsupported_body()


def _unrecognized(kind: str, fault: str, body: bytes) -> Refusal:
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
        f"json parse error: {fault} ({_preview(body)})"
    )


def unsupported_body() -> Refusal:
    return unsupported_media(
        "the body of the request was in an unknown format - accepted media types include: application/json, "
        "application/yaml, application/vnd.kubernetes.protobuf"
    )


def unmarshal_error(kind: str, api_version: str, value: Any, path: str, go_type: str) -> Refusal:
    return bad_request(
        f'{kind} in version "{api_version.rsplit("/", 1)[-1]}" cannot be handled as a {kind}: json: cannot unmarshal '
        f"{go_json.type_name(value)} into Go struct field {path} of type {go_type}"
    )


def _wrong_kind(kind: str, api_version: str, sent_kind: str, sent_version: str) -> Refusal:
    version = sent_version.rsplit("/", 1)[-1]
    if (sent_version, sent_kind) in _KNOWN:
        sent_group = sent_version.rpartition("/")[0]
        text = (
            f"converting ({_go_package(sent_group, version)}.{sent_kind}) to ({_internal(api_version)}.{kind}): "
            "unknown conversion"
        )
    else:
        scheme = "pkg/api/legacyscheme/scheme.go:30"
        text = f'no kind "{sent_kind}" is registered for version "{sent_version}" in scheme "{scheme}"'
    return bad_request(f'{sent_kind} in version "{version}" cannot be handled as a {kind}: {text}')


def _go_package(group: str, version: str) -> str:
    return version


def _internal(api_version: str) -> str:
    group = api_version.rpartition("/")[0]
    return group.split(".", 1)[0] if group else "core"


def _preview(body: bytes) -> str:
    """The beginning of a body as the error shows it: as text when it looks like JSON, else in hexadecimal."""
    if not body:
        return "<empty>"
    return body[:1024].decode("utf-8", "replace") if body.lstrip()[:1] == b"{" else body[:1024].hex()
