"""Watches: one `Watch` per open stream, fed synchronously by the store, drained by its connection.

The store offers each change to each watch; the watch decides in a few comparisons whether its client sees it, as what
(an object that enters a selector is ADDED, one that leaves is DELETED with its last matching content under the new
version), and appends the encoded line, which all watches of the same form share. The connection takes whatever has
gathered since and writes it in one go. A client that does not keep up loses its watch when too much has gathered:
it never holds up the store or the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable

from kubesched.apiserver.selection import Selection
from kubesched.apiserver.store import ADDED, DELETED, MODIFIED, Change, Collection, Json, Stored, encode

log = logging.getLogger("kubesched.apiserver")

Render = Callable[[Stored], bytes]
"""One stored version as the bytes of the `object` of an event."""

BACKLOG_BYTES = 64 << 20


class Watch:
    """One stream of events. `form` names the representation; watches with the same form share encoded lines.

    `on_drop` is called when the client was too slow: its connection hangs in a write and must be cut from outside.
    """

    def __init__(
        self,
        collection: Collection,
        selection: Selection,
        form: Hashable,
        render: Render,
        *,
        backlog: int = BACKLOG_BYTES,
    ) -> None:
        self.closed = False
        self.on_drop: Callable[[], object] = lambda: None
        self._after = 0
        self._collection = collection
        self._selection = selection
        self._form = form
        self._render = render
        self._lines: list[bytes] = []
        self._gathered_bytes = 0
        self._backlog = backlog
        self._wake = asyncio.Event()

    def open(self, after: int) -> None:
        """From now on changes are taken, those after version `after`."""
        self._after = after
        self._collection.add_watcher(self)

    def close(self) -> None:
        """Ends the stream after what has gathered; nothing more is taken."""
        if not self.closed:
            self.closed = True
            self._collection.remove_watcher(self)
            self._wake.set()

    def initial(self, objects: list[Stored]) -> None:
        """ADDED for what exists at the start."""
        for stored in objects:
            self.push(event_line(ADDED, self._render(stored)))

    def offer(self, change: Change) -> None:
        line = self._line(change) if change.revision > self._after else None
        if line is not None:
            self.push(line)

    def push(self, line: bytes) -> None:
        if self.closed:
            return
        self._lines.append(line)
        self._gathered_bytes += len(line)
        if self._gathered_bytes > self._backlog:
            log.warning(
                "watch dropped, its client is too slow kind=%s backlog_bytes=%d",
                self._collection.resource.kind,
                self._gathered_bytes,
            )
            self._lines.clear()
            self.close()
            self.on_drop()
        self._wake.set()

    async def gathered(self) -> bytes:
        """The events since the last call, waiting for the first; empty when the stream has ended."""
        while not self._lines:
            if self.closed:
                return b""
            self._wake.clear()
            await self._wake.wait()
        lines, self._lines = self._lines, []
        self._gathered_bytes = 0
        return b"".join(lines)

    def _line(self, change: Change) -> bytes | None:
        """The event as this watch's client sees it, None when it sees nothing."""
        selection, stored, previous = self._selection, change.stored, change.previous
        if selection.namespace and stored.namespace != selection.namespace:
            return None
        if not selection.filters:
            type_ = change.type
        else:
            before = previous is not None and selection.matches(previous)
            now = change.type != DELETED and selection.matches(stored)
            if now:
                type_ = MODIFIED if before else ADDED
            elif before:
                type_ = DELETED
                if change.type != DELETED:
                    assert previous is not None
                    left = previous
                    return change.line(
                        ("left", self._form),
                        lambda: event_line(DELETED, self._render(_at_version(left, change.revision))),
                    )
            else:
                return None
        return change.line((type_, self._form), lambda: event_line(type_, self._render(stored)))


def event_line(type_: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), body)


def error_line(status: Json) -> bytes:
    return event_line("ERROR", encode(status))


def _at_version(stored: Stored, revision: int) -> Stored:
    return Stored(stored.key, stored.document(), revision, ())
