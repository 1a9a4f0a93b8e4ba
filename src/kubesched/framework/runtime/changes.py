"""What happened to the node table since a kept result was last true: `Changes`, read from the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kubesched import build
from kubesched.build import i64
from kubesched.state import aspects
from kubesched.state.cells import line_of
from kubesched.state.journal import Journal
from kubesched.state.node_table import RowIndex

if TYPE_CHECKING:
    from kubesched.build import vec

#: Above this share of changed rows, asking about all of them is cheaper than picking.
PICK_SHARE_MAX: Final = 0.25
#: So many changed rows may be picked of however few.
_PICKED_MIN: Final = 8
#: Up to so many rows are dealt with one by one, since a set of columns takes its time however short they are. Compiled
#: code does more of them meanwhile.
FEW_ROWS: Final = 28 if build.kind() == "compiled" else 16
#: And up to so many by those who go over the table's memory in a loop.
_LINE_MAX: Final = 1024 if build.kind() == "compiled" else 16


class Changes:
    """What the journal says since a position: rows that exist, perhaps some twice, and all aspects together."""

    __slots__ = ("_few", "_journal", "_lines", "aspects", "has_line", "line", "rows", "since")

    def __init__(
        self, since: int, rows: NDArray[np.intp], aspects: int, line: vec[i64], journal: Journal | None = None
    ) -> None:
        """`journal` is asked which of many rows changed in what."""
        self.since = since
        self.aspects = aspects
        self.rows = rows
        #: The rows for loops, each once, unless they are many.
        self.line = line
        self._journal = journal
        self._lines: dict[int, vec[i64]] = {}
        self.has_line = len(line) > 0
        self._few: list[int] | None = None

    @property
    def few(self) -> list[int] | None:
        """The rows, each once, when they are few."""
        if self._few is None and len(self.rows) <= FEW_ROWS:
            self._few = sorted(set(self.rows.tolist()))
        return self._few

    def line_of(self, reads: int) -> vec[i64]:
        """Those rows of `line` that somebody who reads these aspects must look at, perhaps with others."""
        wanted = reads & self.aspects
        if self._journal is None or wanted == self.aspects:
            return self.line
        line = self._lines.get(wanted)
        if line is None:
            line = self._lines[wanted] = self._journal.line_of(self.since, wanted)
        return line


def changes_since(journal: Journal, position: int, row_count: int) -> Changes | None:
    """None when a fresh start is cheaper, or the only way."""
    noted = journal.since(position)
    if noted is None:
        return None
    rows = noted[0]
    changed = journal.aspects_since(position)
    most = max(_PICKED_MIN, row_count * PICK_SHARE_MAX)
    if not changed & aspects.MEMBERSHIP and len(rows) <= min(most, _LINE_MAX):
        if len(rows) > FEW_ROWS:
            return Changes(position, rows, changed, journal.line_of(position, changed), journal)
        once = set(rows.tolist())  # a pod that was assumed is seen again when the watch shows it
        line = journal.line_since(position) if len(once) == len(rows) else line_of(sorted(once))
        return Changes(position, rows, changed, line)
    if len(rows) > most:
        rows = np.unique(rows)
    if changed & aspects.MEMBERSHIP:  # rows at the end may be gone
        rows = rows[rows < row_count]
    return Changes(position, rows, changed, line_of([])) if len(rows) <= most else None


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
