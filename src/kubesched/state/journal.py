"""The journal of the node table: which rows changed, and in what respect.

Readers remember a position and ask for what came after. The journal is bounded: a reader that fell too far behind gets
None and starts from scratch, which is what it would do with so many changes anyway.
"""

from __future__ import annotations

_ENTRIES_MIN = 4096


class Journal:
    __slots__ = ("_aspects", "_base", "_rows")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._aspects: list[int] = []
        self._base = 0

    @property
    def position(self) -> int:
        """How many changes were ever noted; grows by one with each."""
        return self._base + len(self._rows)

    def note(self, row: int, aspects: int) -> None:
        self._rows.append(row)
        self._aspects.append(aspects)

    def since(self, position: int) -> tuple[list[int], list[int]] | None:
        """Rows and aspects of the changes after `position`, oldest first; None when they are no longer known."""
        start = position - self._base
        return None if start < 0 else (self._rows[start:], self._aspects[start:])

    def trim(self, row_count: int) -> None:
        """Drop the older half once it outgrows the table. Called between cycles."""
        if len(self._rows) > max(_ENTRIES_MIN, 4 * row_count):
            cut = len(self._rows) // 2
            del self._rows[:cut]
            del self._aspects[:cut]
            self._base += cut
