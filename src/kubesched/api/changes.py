"""What a watch tells: the changes of one kind of object, in the order in which they happened.

A `Replace` opens every stream and comes again whenever the thread of events was lost; between two of them the events
follow each other without a gap. Receivers apply changes in order and need nothing else to hold what the server holds.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.api.kinds import Kind


class Replace(msgspec.Struct, frozen=True, gc=False):
    """The complete set of objects of `kind` at `resource_version`. What the receiver holds beyond it is gone.

    `unreadable` names objects (namespace, name) that are there but could not be decoded: what the receiver knows of
    them stays as it is, what it does not know stays unknown.

    `documents` are the objects as they were received, in the same order, for who asked to keep them; else empty.
    """

    kind: Kind
    objects: tuple[Any, ...]
    resource_version: str
    unreadable: tuple[tuple[str, str], ...] = ()
    documents: tuple[bytes, ...] = ()


class Upsert(msgspec.Struct, frozen=True, gc=False):
    """`obj` is new or has changed. An object may be upserted again without having changed.

    `document` is the object as it was received, whole, for who asked to keep it; else empty.
    """

    kind: Kind
    obj: Any
    document: bytes = b""


class Delete(msgspec.Struct, frozen=True, gc=False):
    """The object is gone, or no longer matches the selector of the watch. `obj` is its last state as far as it is
    known, at least its metadata; its resource version is that of the deletion."""

    kind: Kind
    obj: Any


Change = Replace | Upsert | Delete
