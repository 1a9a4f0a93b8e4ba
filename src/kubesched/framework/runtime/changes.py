"""What happened to the node table since a kept result was last true: `Changes`, read from the journal."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubesched import build
from kubesched.state import aspects
from kubesched.state.journal import Journal
from kubesched.state.node_table import RowIndex

#: Above this share of changed rows, asking about all of them is cheaper than picking.
PICK_SHARE_MAX: Final = 0.25
#: So many changed rows may be picked of however few.
_PICKED_MIN: Final = 8
#: Up to so many rows are dealt with one by one, since a set of columns takes its time however short they are. Compiled
#: code does more of them meanwhile.
FEW_ROWS: Final = 28 if build.kind() == "compiled" else 16


class Changes:
    """What the journal says since a position: rows that exist, perhaps some twice, and all aspects together."""

    __slots__ = ("aspects", "few", "rows", "since")

    def __init__(self, since: int, rows: NDArray[np.intp], aspects: int) -> None:
        self.since = since
        self.aspects = aspects
        self.rows = rows
        #: The rows, each once, when they are few.
        self.few: list[int] | None = sorted(set(rows.tolist())) if len(rows) <= FEW_ROWS else None


def changes_since(journal: Journal, position: int, row_count: int) -> Changes | None:
    """None when a fresh start is cheaper, or the only way."""
    noted = journal.since(position)
    if noted is None:
        return None
    rows, aspects_of_rows = noted
    changed = 0
    if len(rows) <= FEW_ROWS:
        for each in aspects_of_rows.tolist():
            changed |= each
    else:
        changed = int(np.bitwise_or.reduce(aspects_of_rows))
    most = max(_PICKED_MIN, row_count * PICK_SHARE_MAX)
    if len(rows) > most:
        rows = np.unique(rows)
    if changed & aspects.MEMBERSHIP:  # rows at the end may be gone
        rows = rows[rows < row_count]
    return Changes(position, rows, changed) if len(rows) <= most else None


def rows_together(parts: list[RowIndex], row_count: int) -> RowIndex:
    """All rows of the parts, some perhaps twice; none of them is gone."""
    if len(parts) == 1:
        return parts[0]
    picked = []
    for part in parts:
        if isinstance(part, slice):
            return slice(0, row_count)
        picked.append(part)
    return np.concatenate(picked)
