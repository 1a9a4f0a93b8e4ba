"""`KeptCrowd`: verdicts about nodes as if their nominated pods were there, kept between attempts.

For pods of one signature and priority, as long as their evaluation is kept. A row is asked about again when the journal
names it, or when other pods are promised it. That is right only while every Filter plugin at work looks at one node at
a time (`looks_at_one_node`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.plugin import Plugin, Verdicts
from kubesched.framework.runtime.kept_verdicts import STATUSES_MIN, STATUSES_PER_ROW
from kubesched.framework.status import Status
from kubesched.state import aspects
from kubesched.state.node_table import NodeTable
from kubesched.state.nominator import Nominator
from kubesched.state.promises import Heeded


def looks_at_one_node(plugin: Plugin) -> bool:
    """Whether what a plugin says of a node depends on that node alone, by its own word."""
    reads = plugin.filter_reads
    return reads is not None and not reads.table and hasattr(plugin, "filter_rows")


class KeptCrowd:
    def __init__(self) -> None:
        self._journal_position = -1
        self._nominator_position = -1
        self._membership_version = -1
        self._promised_count = 0
        #: Rows where the last attempt's pod had promises of its own to heed.
        self._apart: frozenset[int] = frozenset()
        #: Per row: 0 where it takes the pod as well, or is promised to nobody, else an index into `_statuses`.
        self._why = np.empty(0, dtype=np.int32)
        self._statuses: list[Status | None] = [None]
        self._codes: dict[Status | None, int] = {None: 0}

    def follow(
        self, heeded: Heeded, nominator: Nominator, table: NodeTable, ask: Callable[[NDArray[np.intp]], Verdicts]
    ) -> tuple[NDArray[np.intp], Verdicts]:
        """The rows that do not take the pod beside those they are promised to. `ask` judges some of them anew."""
        asked = self._to_ask(heeded, nominator, table)
        if asked:
            rows = np.array(asked, dtype=np.intp)
            said = ask(rows)
            codes = np.array([self._code(status) for status in said.statuses], dtype=np.int32)
            self._why[rows] = codes[said.why]
        self._journal_position, self._nominator_position = table.journal.position, nominator.position
        self._membership_version = table.membership_version
        self._promised_count, self._apart = len(heeded.by_row), heeded.apart
        bad = np.flatnonzero(self._why)
        return bad, Verdicts(self._why[bad], self._statuses)

    @property
    def is_overgrown(self) -> bool:
        """Plugins word their rejections ever anew, and what nobody says any more is still in here."""
        return len(self._statuses) > STATUSES_MIN + STATUSES_PER_ROW * self._promised_count

    @property
    def size_bytes(self) -> int:
        return self._why.nbytes

    def _to_ask(self, heeded: Heeded, nominator: Nominator, table: NodeTable) -> list[int]:
        """Promised rows of which nothing is known; forgets those that are not promised any more."""
        promised = heeded.by_row
        changed = self._changed(nominator, table)
        if changed is None:
            self._why = np.zeros(table.row_count, dtype=np.int32)
            return sorted(promised)
        changed |= heeded.apart
        changed |= self._apart
        asked = []
        for row in changed:
            if row in promised:
                asked.append(row)
            else:
                self._why[row] = 0
        asked.sort()
        return asked

    def _changed(self, nominator: Nominator, table: NodeTable) -> set[int] | None:
        """The rows where nodes or nominations changed; None when that is no longer known."""
        if self._membership_version != table.membership_version:
            return None
        names = nominator.changed_since(self._nominator_position)
        changed = table.journal.rows_since(self._journal_position, aspects.ALL)
        if names is None or changed is None:
            return None
        for name in names:
            row = table.row_of(name)
            if row >= 0:
                changed.add(row)
        return changed

    def _code(self, status: Status | None) -> int:
        code = self._codes.get(status)
        if code is None:
            code = self._codes[status] = len(self._statuses)
            self._statuses.append(status)
        return code
