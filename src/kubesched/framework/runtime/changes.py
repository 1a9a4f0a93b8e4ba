"""What happened to the node table since a kept result was last true: `Changes`, read from the journal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.state.journal import Journal
from kubesched.state.node_table import RowIndex

#: Above this share of changed rows, asking about all of them is cheaper than picking.
PICK_SHARE_MAX = 0.25
#: Up to so many rows are dealt with one by one: plain Python is faster there than columns.
FEW_ROWS = 4
#: Up to so many journal entries a Python set is faster than NumPy.
_PYTHON_MERGE_MAX = 24


class Changes(NamedTuple):
    """What the journal says since a position: rows that exist, perhaps some twice, and all aspects together."""

    since: int
    rows: NDArray[np.intp]
    aspects: int
    #: The rows again, each once, when they are few.
    few: list[int] | None


def changes_since(journal: Journal, position: int, row_count: int) -> Changes | None:
    """None when a fresh start is cheaper, or the only way."""
    noted = journal.since(position)
    if noted is None:
        return None
    rows, aspects = noted
    together = 0
    for aspect in set(aspects):
        together |= aspect
    if len(rows) <= _PYTHON_MERGE_MAX:
        distinct = sorted({row for row in rows if row < row_count})
        picked, few = np.array(distinct, dtype=np.intp), distinct if len(distinct) <= FEW_ROWS else None
    else:
        picked, few = np.array(rows, dtype=np.intp), None
        if len(rows) > row_count * PICK_SHARE_MAX:
            picked = np.unique(picked)
        if picked.max() >= row_count:
            picked = picked[picked < row_count]
    if len(picked) > max(8, row_count * PICK_SHARE_MAX):
        return None
    return Changes(position, picked, together, few)


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
