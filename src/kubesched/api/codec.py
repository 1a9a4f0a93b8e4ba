"""From JSON bytes, or documents already parsed, to typed objects.

JSON null means absent. The decoders do not know that, and stay fast: only when one refuses a document that contains a
null are the nulls cut out and the document read again. One object that cannot be read does not spoil a list: it comes
back as an error beside the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from kubesched.api.errors import DecodeError
from kubesched.api.kinds import Kind
from kubesched.api.meta import ListMeta, PartialObject, Status, Struct

S = TypeVar("S", bound=Struct)

#: What msgspec's decoders raise for bytes that are no JSON; RecursionError for some that are, but no object of anybody.
MALFORMED = (msgspec.DecodeError, RecursionError)


def decode(kind: Kind, data: bytes | str) -> Any:
    """One object, a `kind.struct`, from its JSON. DecodeError."""
    return _decode(kind.struct, kind.kind, data)


def from_dict(kind: Kind, document: Mapping[str, Any]) -> Any:
    """One object, a `kind.struct`, from a parsed document, which is not kept. DecodeError."""
    return _convert(kind.struct, kind.kind, document)


@dataclass(frozen=True, slots=True)
class Page:
    """A list answer, or one page of it. `errors` are the items that could not be read; `documents` the others' JSON, in
    the order of `items`, if it was asked for."""

    items: tuple[Any, ...]
    resource_version: str
    continue_token: str
    remaining_item_count: int | None
    errors: tuple[DecodeError, ...] = ()
    documents: tuple[bytes, ...] = ()


def decode_list(kind: Kind, data: bytes | str, *, keep_documents: bool = False) -> Page:
    """A list answer from its JSON. DecodeError if it is no list at all."""
    documents: list[bytes] = []
    errors: list[DecodeError] = []
    listing: Any = None
    if not keep_documents:
        try:
            listing = _list_decoder(kind.struct).decode(data)
            items: list[Any] = listing.items
        except msgspec.ValidationError:
            pass
        except MALFORMED as error:
            raise DecodeError(f"{kind.kind}List", "", "", "", str(error)) from error
    if listing is None:
        listing, items = _decode(_RawListing, f"{kind.kind}List", data), []
        for item in listing.items or ():
            try:
                items.append(_decode(kind.struct, kind.kind, item))
            except DecodeError as error:
                errors.append(error)
                continue
            if keep_documents:
                documents.append(bytes(item))
    meta: ListMeta = listing.metadata
    return Page(
        tuple(items),
        meta.resource_version,
        meta.continue_,
        meta.remaining_item_count,
        tuple(errors),
        tuple(documents),
    )


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """`type` is ADDED, MODIFIED or DELETED with an object of the kind, BOOKMARK with no more than its metadata, or
    ERROR with a Status."""

    type: str
    object: Any


def decode_watch_event(kind: Kind, line: bytes | str) -> WatchEvent:
    """One line of a watch. DecodeError."""
    try:
        event = _event_decoder(kind.struct).decode(line)
        if event.type not in ("BOOKMARK", "ERROR"):
            return WatchEvent(event.type, event.object)
    except msgspec.ValidationError:
        pass  # no object of this kind, or one with nulls: looked at again below
    except MALFORMED as error:
        raise DecodeError(kind.kind, "", "", "", str(error)) from error
    frame = _decode(_Frame, f"{kind.kind} watch event", line)
    if frame.type == "ERROR":
        return WatchEvent(frame.type, _decode(Status, "Status", frame.object))
    if frame.type == "BOOKMARK":
        return WatchEvent(frame.type, _decode(PartialObject, kind.kind, frame.object))
    return WatchEvent(frame.type, _decode(kind.struct, kind.kind, frame.object))


class _Frame(Struct):
    type: str
    object: msgspec.Raw


class _RawListing(Struct):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


def _decode(struct: type[S], kind: str, data: bytes | str | msgspec.Raw) -> S:
    try:
        return cast(S, _decoder(struct).decode(data))
    except msgspec.ValidationError as error:
        return _convert(struct, kind, msgspec.json.decode(data), error)
    except MALFORMED as error:
        raise DecodeError(kind, "", "", "", str(error)) from error


def _convert(struct: type[S], kind: str, document: Any, refused: msgspec.ValidationError | None = None) -> S:
    """Reads a parsed document. `refused` is why it was already refused as it stands, if it was."""
    try:
        if refused is None:
            return msgspec.convert(document, struct)
    except (msgspec.ValidationError, RecursionError):
        pass
    try:
        return msgspec.convert(_without_nulls(document), struct)
    except msgspec.ValidationError as error:
        raise DecodeError(kind, *_identity(document), *_place(error)) from error
    except RecursionError as error:
        raise DecodeError(kind, *_identity(document), "", "is nested too deeply, or contains itself") from error


@cache
def _decoder(struct: type[Struct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(struct)


@cache
def _list_decoder(struct: type[Struct]) -> msgspec.json.Decoder[Any]:
    items: Any = list[struct]  # type: ignore[valid-type]
    listing = msgspec.defstruct(
        f"{struct.__name__}List", [("metadata", ListMeta, ListMeta()), ("items", items, [])], gc=False
    )
    return msgspec.json.Decoder(listing)


@cache
def _event_decoder(struct: type[Struct]) -> msgspec.json.Decoder[Any]:
    event = msgspec.defstruct(f"{struct.__name__}Event", [("type", str), ("object", struct)], gc=False)
    return msgspec.json.Decoder(event)


def _without_nulls(document: Any) -> Any:
    if isinstance(document, Mapping):
        return {key: _without_nulls(value) for key, value in document.items() if value is not None}
    if isinstance(document, list | tuple):
        return [_without_nulls(value) for value in document if value is not None]
    return document


def _identity(document: Any) -> tuple[str, str]:
    """Namespace and name, as far as the document tells them."""
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    if not isinstance(metadata, Mapping):
        return "", ""
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


_PLACE = re.compile(r"(?P<problem>.*) - at `\$\.?(?P<path>.*)`", re.DOTALL)


def _place(error: msgspec.DecodeError) -> tuple[str, str]:
    """Path and problem: msgspec says both in one text, such as "Expected `int`, got `str` - at `$.spec.priority`"."""
    text = str(error)
    match = _PLACE.fullmatch(text)
    return (match["path"], match["problem"]) if match else ("", text)
