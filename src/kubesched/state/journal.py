"""The journal of the node table: which rows changed, and in what respect.

Readers remember a position and ask for what came after. The journal is bounded: a reader that fell too far behind gets
None and starts from scratch, which is what it would do with so many changes anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kubesched.build import i64
from kubesched.state.cells import Cells, Room

if TYPE_CHECKING:
    from kubesched.build import vec

_ENTRIES_MIN = 4096
_SIZE_MIN = 64


class Journal:
    __slots__ = ("_aspects", "_base", "_room", "_rows", "_seen", "_seen_at", "position")

    def __init__(self) -> None:
        #: How many changes were ever noted; grows by one with each.
        self.position = 0
        #: How many of them are no longer known.
        self._base = 0
        self._rows, self._aspects = Cells(_SIZE_MIN), Cells(_SIZE_MIN)
        #: By row, which asking last saw it.
        self._seen = Cells(_SIZE_MIN)
        self._seen_at = 0
        self._room = Room()

    def note(self, row: int, aspects: int) -> None:
        place: i64 = self.position - self._base
        if place == len(self._rows.cells):
            self._resize(0, place, 2 * place)
        self._rows.cells[place] = row
        self._aspects.cells[place] = aspects
        self.position += 1

    def knows(self, position: int) -> bool:
        """Whether all changes after `position` are still known."""
        return position >= self._base

    def since(self, position: int) -> tuple[NDArray[np.intp], NDArray[np.int64]] | None:
        """Rows and aspects of the changes after `position`, oldest first; None when they are no longer known."""
        start, end = position - self._base, self.position - self._base
        return None if start < 0 else (self._rows.array[start:end], self._aspects.array[start:end])

    def line_since(self, position: int) -> vec[i64]:
        """The rows alone, of changes that are still known; to be read only."""
        start: i64 = position - self._base
        end: i64 = self.position - self._base
        return self._rows.line(start, end)

    def line_of(self, position: int, aspects: int) -> vec[i64]:
        """The rows that changed in one of these aspects, each once, of changes that are still known."""
        start: i64 = position - self._base
        end: i64 = self.position - self._base
        wanted: i64 = aspects
        self._seen_at += 1
        now: i64 = self._seen_at
        room = self._room.of(end - start)
        found, rows, changed, seen = room.cells, self._rows.cells, self._aspects.cells, self._seen.cells
        count: i64 = 0
        for place in range(start, end):
            if changed[place] & wanted:
                row = rows[place]
                if row >= len(seen):
                    self._see_more(row)
                    seen = self._seen.cells
                if seen[row] != now:
                    seen[row] = now
                    found[count] = row
                    count += 1
        return room.line(0, count)

    def _see_more(self, row: int) -> None:
        more = Cells(max(row + 1, 2 * len(self._seen.array)))
        more.array[: len(self._seen.array)] = self._seen.array
        self._seen = more

    def aspects_since(self, position: int) -> int:
        """All aspects of these changes together."""
        together: i64 = 0
        start: i64 = position - self._base
        end: i64 = self.position - self._base
        noted = self._aspects.cells
        for place in range(start, end):
            together |= noted[place]
        return together

    def rows_since(self, position: int, aspects: int) -> set[int] | None:
        """The rows that changed in one of these aspects after `position`; None when they are no longer known."""
        noted = self.since(position)
        if noted is None:
            return None
        rows, changed = noted
        return set(rows[(changed & aspects) != 0].tolist())

    def trim(self, row_count: int) -> None:
        """Drop the older half once it outgrows the table. Called between cycles."""
        known = self.position - self._base
        if known > max(_ENTRIES_MIN, 4 * row_count):
            cut = known // 2
            self._resize(cut, known, len(self._rows.array))
            self._base += cut

    def _resize(self, start: int, end: int, size: int) -> None:
        """Keep these entries in new arrays of this size: what was handed out stays as it is."""
        rows, aspects = self._rows.array[start:end], self._aspects.array[start:end]
        self._rows, self._aspects = Cells(size), Cells(size)
        self._rows.array[: len(rows)], self._aspects.array[: len(aspects)] = rows, aspects
