"""What happened to the node table since a kept result was last true: `Changes`, read from the journal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched.state.journal import Journal
from kubesched.state.node_table import RowIndex

#: Above this share of changed rows, asking about all of them is cheaper than picking.
PICK_SHARE_MAX = 0.25
#: Up to so many rows are dealt with one by one: plain Python is faster there than columns.
FEW_ROWS = 16
#: Up to so many journal entries a Python set is faster than NumPy.
_PYTHON_MERGE_MAX = 24


class Changes:
    """What the journal says since a position: rows that exist, perhaps some twice, and all aspects together."""

    __slots__ = ("_rows", "aspects", "few", "since")

    def __init__(self, since: int, rows: NDArray[np.intp] | list[int], aspects: int) -> None:
        self.since = since
        self.aspects = aspects
        #: The rows, each once, when they are few.
        self.few: list[int] | None = rows if isinstance(rows, list) and len(rows) <= FEW_ROWS else None
        self._rows = rows

    @property
    def rows(self) -> NDArray[np.intp]:
        """The same array each time."""
        if isinstance(self._rows, list):
            self._rows = np.array(self._rows, dtype=np.intp)
        return self._rows


def changes_since(journal: Journal, position: int, row_count: int) -> Changes | None:
    """None when a fresh start is cheaper, or the only way."""
    noted = journal.since(position)
    if noted is None:
        return None
    rows, aspects = noted
    together = 0
    for aspect in set(aspects):
        together |= aspect
    picked: NDArray[np.intp] | list[int]
    if len(rows) <= _PYTHON_MERGE_MAX:
        picked = sorted({row for row in rows if row < row_count})
    else:
        picked = np.array(rows, dtype=np.intp)
        if len(rows) > row_count * PICK_SHARE_MAX:
            picked = np.unique(picked)
        if picked.max() >= row_count:
            picked = picked[picked < row_count]
    if len(picked) > max(8, row_count * PICK_SHARE_MAX):
        return None
    return Changes(position, picked, together)


def rows_together(parts: list[RowIndex], row_count: int) -> RowIndex:
    """All rows of the parts, some perhaps twice; rows that are gone by now left out."""
    picked = []
    for part in parts:
        if isinstance(part, slice):
            return slice(0, row_count)
        if len(part):
            picked.append(part)
    if not picked:
        return np.empty(0, dtype=np.intp)
    rows = picked[0] if len(picked) == 1 else np.concatenate(picked)
    return rows[rows < row_count]
