"""What a server makes of a document that comes in: the same as decoding it into the API types and encoding it again.

Fields in the order of the types, nulls and empty optional fields left out, required ones filled with their zero value,
quantities in canonical form; fields that the type does not have are collected (and not kept), a value of the wrong type
is refused in the words of Go's decoder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kubesched.apiserver.go_json import type_name
from kubesched.apiserver.schema.quantities import InvalidQuantity, canonical, resource_amount
from kubesched.apiserver.schema.structs import Field, Struct, struct

_GO_SCALARS = {"string": "string", "bool": "bool", "int": "int32", "long": "int64", "float": "float64"}
_ZERO = {"string": "", "bool": False, "int": 0, "long": 0, "float": 0, "quantity": "0", "intorstring": 0}


class WrongType(Exception):
    """A value does not fit its field; the message is the decoder's."""


@dataclass(slots=True)
class Review:
    document: dict[str, Any]
    unknown: list[str] = field(default_factory=list)
    keys_seen: int = 0


def review(type_: Struct, document: dict[str, Any]) -> Review:
    """The document as the API types hold it. Raises WrongType."""
    walk = _Walk()
    reviewed = walk.struct(type_, document, (), type_.short_name)
    return Review(reviewed, sorted(walk.unknown), walk.keys_seen)


class _Walk:
    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.keys_seen = 0

    def struct(self, type_: Struct, value: dict[str, Any], path: tuple[str | int, ...], owner: str) -> dict[str, Any]:
        positions = type_.positions
        kept: list[tuple[int, str, Any]] = []
        for name, sent in value.items():
            place = positions.get(name)
            if place is None:
                self.unknown.append(_shown((*path, name)))
                continue
            if sent is None:
                continue
            index, spec = place
            part = self.value(spec.type, sent, (*path, name), owner, spec.go_type)
            if part or spec.pointer or spec.always or (spec.type[0] == "#" and not spec.omit_zero):
                kept.append((index, name, part))
        for index, spec in type_.zeros:
            if value.get(spec.name) is None:
                kept.append((index, spec.name, _zero_of(spec)))
        self.keys_seen += len(value)
        kept.sort()
        return {name: part for _, name, part in kept}

    def resources(self, sent: dict[str, Any]) -> dict[str, str]:
        try:
            return {name: resource_amount(sent[name]) for name in sorted(sent)}
        except InvalidQuantity as error:
            raise WrongType(str(error)) from None

    def value(self, type_: str, sent: Any, path: tuple[str | int, ...], owner: str, go_type: str = "") -> Any:
        if type_ == "string":
            if type(sent) is str:
                return sent
        elif type_[0] == "#":
            if type(sent) is dict:
                struct_ = struct(type_[1:])
                return sent if struct_ is None else self.struct(struct_, sent, path, struct_.short_name)
        elif type_[0] == "[":
            if type(sent) is list:
                element = type_[2:]
                return [
                    _zero_element(element) if item is None else self.value(element, item, (*path, index), owner)
                    for index, item in enumerate(sent)
                ]
        elif type_.startswith("map:"):
            if type(sent) is dict:
                element = type_[4:]
                self.keys_seen += len(sent)
                if element == "quantity":
                    return self.resources(sent)
                return {
                    key: _zero_element(element)
                    if sent[key] is None
                    else self.value(element, sent[key], (*path, key), owner)
                    for key in sorted(sent)
                }
        elif type_ in ("int", "long"):
            if type(sent) is int:
                return sent
            if type(sent) is float and sent.is_integer():
                return int(sent)
        elif type_ == "bool":
            if type(sent) is bool:
                return sent
        elif type_ == "quantity":
            try:
                return canonical(sent)
            except InvalidQuantity as error:
                raise WrongType(str(error)) from None
        elif type_ == "intorstring":
            if type(sent) in (int, str):
                return sent
        elif type_ == "float":
            if type(sent) in (int, float):
                return sent
        elif type_ in ("time", "microtime", "bytes"):
            if type(sent) is str:
                return _time(type_, sent)
        else:
            return sent
        raise WrongType(
            f"json: cannot unmarshal {type_name(sent)} into Go struct field "
            f"{owner}.{'.'.join(p for p in path if isinstance(p, str))} of type {go_type or _go_type(type_)}"
        )


def _time(type_: str, text: str) -> str:
    if type_ == "time":
        check_time(text)
    elif type_ == "microtime":
        check_micro_time(text)
    return text


def check_time(text: str) -> None:
    from datetime import datetime

    try:
        datetime.fromisoformat(text)
        if len(text) >= 20 and text[10] == "T":
            return
    except ValueError:
        pass
    raise WrongType(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"')


def check_micro_time(text: str) -> None:
    layout = "2006-01-02T15:04:05.000000Z07:00"
    head, rest = text[:19], text[19:]
    try:
        check_time(head + "Z")
    except WrongType:
        raise WrongType(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"') from None
    if len(rest) >= 8 and rest[0] == "." and rest[1:7].isdecimal() and not rest[7].isdecimal():
        return
    raise WrongType(f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as ".000000"')


@cache
def _zero_bytes(name: str) -> dict[str, Any]:
    struct_ = struct(name)
    assert struct_ is not None, name
    return _Walk().struct(struct_, {}, (), "")


def zero(type_: Struct) -> dict[str, Any]:
    """An empty object of a type: only the fields that are always written."""
    return _fresh(_zero_bytes(type_.name))


def _fresh(value: dict[str, Any]) -> dict[str, Any]:
    return {name: _fresh(part) if isinstance(part, dict) else part for name, part in value.items()}


def _zero_of(spec: Field) -> Any:
    if spec.pointer or spec.is_list or spec.is_map or spec.type in ("time", "microtime", "bytes", "any"):
        return None
    return _zero_element(spec.type)


def _zero_element(type_: str) -> Any:
    if type_[0] == "#":
        return _fresh(_zero_bytes(type_[1:]))
    return _ZERO.get(type_)


def _shown(path: tuple[str | int, ...]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _go_type(type_: str) -> str:
    if type_[0] == "[":
        return "[]" + _go_type(type_[2:])
    if type_.startswith("map:"):
        return "map[string]" + _go_type(type_[4:])
    if type_[0] == "#":
        parts = type_.rsplit(".", 2)
        return f"{parts[-2]}.{parts[-1]}"
    return _GO_SCALARS.get(type_, type_)
