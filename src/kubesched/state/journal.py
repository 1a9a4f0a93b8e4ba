"""The journal of the node table: which rows changed, and in what respect.

Readers remember a position and ask for what came after. The journal is bounded: a reader that fell too far behind gets
None and starts from scratch, which is what it would do with so many changes anyway.
"""

from __future__ import annotations

_ENTRIES_MIN = 4096


class Journal:
    __slots__ = ("_base", "_entries")

    def __init__(self) -> None:
        self._entries: list[tuple[int, int]] = []
        self._base = 0

    @property
    def position(self) -> int:
        """How many changes were ever noted; grows by one with each."""
        return self._base + len(self._entries)

    def note(self, row: int, aspects: int) -> None:
        self._entries.append((row, aspects))

    def since(self, position: int) -> list[tuple[int, int]] | None:
        """The changes after `position` as (row, aspects), oldest first; None when they are no longer known."""
        start = position - self._base
        return None if start < 0 else self._entries[start:]

    def trim(self, row_count: int) -> None:
        """Drop the older half once it outgrows the table. Called between cycles."""
        if len(self._entries) > max(_ENTRIES_MIN, 4 * row_count):
            cut = len(self._entries) // 2
            del self._entries[:cut]
            self._base += cut
