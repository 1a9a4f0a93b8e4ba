"""The bytes of a watch, turned into frames: lines first, then one typed decode a line.

Lines have no length limit: objects above 2 MiB occur. What is left without a newline when the stream ends is half an
event and is dropped; the watch is opened again from the last whole one. An object that cannot be read becomes an
`Unreadable` frame, so that one bad object does not stop the stream.

Pure computation: no clock, no network.
"""

from __future__ import annotations

from typing import Any, Union

import msgspec

from kubesched.api import codec
from kubesched.api.changes import Delete, Upsert
from kubesched.api.errors import ApiError, DecodeError
from kubesched.api.kinds import Kind
from kubesched.api.meta import ObjectMeta

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class LineSplitter:
    """Chunks in, whole lines out. Each byte is looked at once, however many chunks a line takes."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their newlines; empty ones are left out."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts = []
        if rest:
            self._parts.append(rest)
        return [line for line in lines if line and line != b"\r"]

    @property
    def pending_bytes(self) -> int:
        """The size of the unfinished line."""
        return sum(map(len, self._parts))


class Bookmark(msgspec.Struct, frozen=True):
    """Nothing happened up to `resource_version`. `ends_initial_events`: all that existed has been sent."""

    resource_version: str
    ends_initial_events: bool


class Unreadable(msgspec.Struct, frozen=True):
    """An event whose object is not what its kind says, or of another kind."""

    error: DecodeError
    resource_version: str


Frame = Upsert | Delete | Bookmark | Unreadable | ApiError


class WatchDecoder:
    """Turns the lines of one kind's watch into frames. An ERROR event comes back as the `ApiError` it holds."""

    __slots__ = ("_decode", "_deleted", "_keep_documents", "_kind", "_kind_mark")

    def __init__(self, kind: Kind, *, keep_documents: bool = False) -> None:
        self._kind = kind
        self._keep_documents = keep_documents
        # One pass over the bytes: the type tells msgspec which struct the object is.
        added, modified, deleted = (
            msgspec.defstruct(f"_{tag}", [("object", kind.struct)], tag=tag, tag_field="type", gc=False, frozen=True)
            for tag in ("ADDED", "MODIFIED", "DELETED")
        )
        self._deleted = deleted
        self._kind_mark = b'"kind":"%s"' % kind.kind.encode()
        self._decode = msgspec.json.Decoder(Union[added, modified, deleted, _Bookmark, _Error]).decode  # noqa: UP007

    def frame(self, line: bytes) -> Frame:
        """Raises `DecodeError` for a line that is no watch event at all."""
        try:
            event: Any = self._decode(line)
        except codec.MALFORMED:
            return self._carefully(line)
        cls = type(event)
        if cls is not _Bookmark and cls is not _Error and self._kind_mark not in line:
            told = _KINDED.decode(line).object.kind
            if told not in ("", self._kind.kind):
                return self._foreign(told, event.object.metadata)
        if cls is self._deleted:
            return Delete(self._kind, event.object)
        if cls is _Bookmark:
            metadata = event.object.metadata
            return Bookmark(metadata.resourceVersion, (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true")
        if cls is _Error:
            status = event.object
            return ApiError(status.code, status.reason, status.message, status.details)
        return Upsert(self._kind, event.object, self._document(line))

    def _foreign(self, told: str, metadata: ObjectMeta) -> Unreadable:
        """Fields that we do not know are ignored, so a thing of any kind would pass for one of ours."""
        error = DecodeError(self._kind.kind, metadata.namespace, metadata.name, "kind", f"this is a {told}")
        return Unreadable(error, metadata.resource_version)

    def _document(self, line: bytes) -> bytes:
        return bytes(_WHOLE.decode(line).object) if self._keep_documents else b""

    def _carefully(self, line: bytes) -> Frame:
        """The fast way refused: a null where none is expected, a type we do not know, a broken object or line."""
        try:
            event = codec.decode_watch_event(self._kind, line)
        except DecodeError as error:
            return self._unreadable(line, error)
        if event.type == "DELETED":
            return Delete(self._kind, event.object)
        if event.type in ("ADDED", "MODIFIED"):
            return Upsert(self._kind, event.object, self._document(line))
        raise DecodeError(self._kind.kind, "", "", "type", f"unknown watch event type {event.type!r}")

    def _unreadable(self, line: bytes, error: DecodeError) -> Frame:
        try:
            rough = _ROUGH.decode(line)
        except codec.MALFORMED:
            raise error from None
        metadata = rough.object.metadata
        if rough.type == "DELETED":
            # To go, it is enough to be known by name.
            document = {name: value for name, value in msgspec.to_builtins(metadata).items() if value}
            return Delete(self._kind, codec.from_dict(self._kind, {"metadata": document}))
        named = DecodeError(self._kind.kind, metadata.namespace or "", metadata.name or "", error.path, error.problem)
        return Unreadable(named, metadata.resourceVersion or "")


class _Identity(msgspec.Struct):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None


class _Whole(msgspec.Struct):
    object: msgspec.Raw


class _Anything(msgspec.Struct):
    metadata: _Identity


class _Rough(msgspec.Struct):
    type: str
    object: _Anything


class _Kind(msgspec.Struct):
    kind: str = ""


class _Kinded(msgspec.Struct):
    object: _Kind


class _BookmarkMetadata(msgspec.Struct):
    resourceVersion: str
    annotations: dict[str, str] | None = None


class _BookmarkObject(msgspec.Struct):
    metadata: _BookmarkMetadata


class _Bookmark(msgspec.Struct, tag="BOOKMARK", tag_field="type"):
    object: _BookmarkObject


class _Status(msgspec.Struct):
    code: int = 500
    reason: str = "InternalError"
    message: str = ""
    details: dict[str, Any] = {}


class _Error(msgspec.Struct, tag="ERROR", tag_field="type"):
    object: _Status


_ROUGH = msgspec.json.Decoder(_Rough)
_KINDED = msgspec.json.Decoder(_Kinded)
_WHOLE = msgspec.json.Decoder(_Whole)
