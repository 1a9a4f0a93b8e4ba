"""The journal of the node table: which rows changed, and in what respect.

Readers remember a position and ask for what came after. The journal is bounded: a reader that fell too far behind gets
None and starts from scratch, which is what it would do with so many changes anyway.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ENTRIES_MIN = 4096
_SIZE_MIN = 64


class Journal:
    __slots__ = ("_aspects", "_base", "_note_aspects", "_note_row", "_rows", "position")

    def __init__(self) -> None:
        #: How many changes were ever noted; grows by one with each.
        self.position = 0
        #: How many of them are no longer known.
        self._base = 0
        self._resize(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.int64), _SIZE_MIN)

    def note(self, row: int, aspects: int) -> None:
        place = self.position - self._base
        if place == len(self._rows):
            self._resize(self._rows, self._aspects, 2 * place)
        self._note_row[place] = row
        self._note_aspects[place] = aspects
        self.position += 1

    def since(self, position: int) -> tuple[NDArray[np.intp], NDArray[np.int64]] | None:
        """Rows and aspects of the changes after `position`, oldest first; None when they are no longer known."""
        start, end = position - self._base, self.position - self._base
        return None if start < 0 else (self._rows[start:end], self._aspects[start:end])

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
            self._resize(self._rows[cut:known], self._aspects[cut:known], len(self._rows))
            self._base += cut

    def _resize(self, rows: NDArray[np.intp], aspects: NDArray[np.int64], size: int) -> None:
        """Take new arrays of this size: what was handed out stays as it is."""
        self._rows, self._aspects = np.empty(size, dtype=np.intp), np.empty(size, dtype=np.int64)
        self._rows[: len(rows)], self._aspects[: len(aspects)] = rows, aspects
        # Single numbers go in faster this way.
        self._note_row, self._note_aspects = self._rows.data, self._aspects.data
