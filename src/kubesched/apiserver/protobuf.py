"""Request bodies in `application/vnd.kubernetes.protobuf`: what some commands of kubectl and Go clients send.

A body is the magic `k8s\\0` and an envelope with kind, apiVersion and the encoded object. The object is decoded by the
field numbers of the type table into the document that its JSON would be. Answers are always JSON, which these clients
accept as well.
"""

from __future__ import annotations

import base64
import struct as binary
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from kubesched.apiserver.schema import Field, Struct, struct, struct_of
from kubesched.apiserver.store import Json, decode

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class NotProtobuf(ValueError):
    """The body is not what its content type says, or of a type that the table does not hold."""


def decode_object(body: bytes) -> Json:
    """The document in an enveloped body. Raises NotProtobuf."""
    if not body.startswith(_MAGIC):
        raise NotProtobuf("the body does not begin with the magic of the Kubernetes protobuf encoding")
    api_version, kind, raw = _envelope(body[len(_MAGIC) :])
    group, _, version = api_version.rpartition("/")
    type_ = struct_of(group, version, kind)
    if type_ is None and kind == "DeleteOptions":
        type_ = struct("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
    if type_ is None:
        raise NotProtobuf(f'no protobuf type is known for kind "{kind}" in version "{api_version}"')
    return {"kind": kind, "apiVersion": api_version, **_message(type_, raw)}


def _envelope(data: bytes) -> tuple[str, str, bytes]:
    api_version = kind = ""
    raw = b""
    for number, value in _fields(data):
        if number == 1:
            meta = {n: bytes(v).decode() for n, v in _fields(value)}
            api_version, kind = meta.get(1, ""), meta.get(2, "")
        elif number == 2:
            raw = bytes(value)
    return api_version, kind, raw


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field: an int for numbers, bytes for everything with a length."""
    position = 0
    try:
        while position < len(data):
            tag, position = _varint(data, position)
            number, wire = tag >> 3, tag & 7
            if wire == _VARINT:
                value: Any
                value, position = _varint(data, position)
            elif wire == _BYTES:
                length, position = _varint(data, position)
                value = data[position : position + length]
                if len(value) != length:
                    raise NotProtobuf("the body ends inside a field")
                position += length
            elif wire == _FIXED64:
                value, position = data[position : position + 8], position + 8
            elif wire == _FIXED32:
                value, position = data[position : position + 4], position + 4
            else:
                raise NotProtobuf(f"wire type {wire} is not used")
            yield number, value
    except IndexError:
        raise NotProtobuf("the body ends inside a number") from None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7


@cache
def _by_number(name: str) -> dict[int, Field]:
    type_ = struct(name)
    assert type_ is not None
    inner = {f for embedded in type_.embedded.values() for f in _fields_of(embedded)}
    return {f.number: f for f in type_.fields.values() if f.number and f.name not in inner}


def _fields_of(name: str) -> frozenset[str]:
    type_ = struct(name)
    assert type_ is not None
    return frozenset(type_.fields)


def _message(type_: Struct, data: bytes) -> Json:
    document: Json = {}
    fields = _by_number(type_.name)
    for number, value in _fields(data):
        if number in type_.embedded:
            inner = struct(type_.embedded[number])
            assert inner is not None
            document.update(_message(inner, value))
            continue
        spec = fields.get(number)
        if spec is None:
            continue  # from a newer version than the table's
        if spec.is_map:
            key, part = _entry(spec.element, value)
            document.setdefault(spec.name, {})[key] = part
        elif spec.is_list:
            document.setdefault(spec.name, []).append(_value(spec.element, value))
        else:
            document[spec.name] = _value(spec.type, value)
    return document


def _entry(element: str, data: bytes) -> tuple[str, Any]:
    key, part = "", b""
    for number, value in _fields(data):
        if number == 1:
            key = bytes(value).decode()
        elif number == 2:
            part = value
    return key, _value(element, part)


def _value(type_: str, value: Any) -> Any:
    if type_.startswith("#"):
        inner = struct(type_[1:])
        assert inner is not None
        return _message(inner, value)
    if type_ in ("int", "long"):
        return value - (1 << 64) if value >= 1 << 63 else value
    if type_ == "bool":
        return bool(value)
    if type_ == "string":
        return bytes(value).decode()
    if type_ == "bytes":
        return base64.b64encode(value).decode()
    if type_ == "float":
        return binary.unpack("<d" if len(value) == 8 else "<f", value)[0]
    if type_ in ("time", "microtime"):
        return _time(value, type_ == "microtime")
    if type_ == "quantity":
        return next((bytes(v).decode() for number, v in _fields(value) if number == 1), "0")
    if type_ == "intorstring":
        parts = dict(_fields(value))
        return bytes(parts.get(3, b"")).decode() if parts.get(1) else parts.get(2, 0)
    raw = next((bytes(v) for number, v in _fields(value) if number == 1), b"")
    return decode(raw) if raw else None


def _time(data: bytes, micro: bool) -> str | None:
    parts = dict(_fields(data))
    if not parts:
        return None
    moment = datetime.fromtimestamp(parts.get(1, 0), UTC) + timedelta(microseconds=parts.get(2, 0) // 1000)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")
