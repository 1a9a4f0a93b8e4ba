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
from kubesched.state.journal import Journal
from kubesched.state.promises import Promised


def looks_at_one_node(plugin: Plugin) -> bool:
    """Whether what a plugin says of a node depends on that node alone, by its own word."""
    reads = plugin.filter_reads
    return reads is not None and not reads.table and hasattr(plugin, "filter_rows")


class KeptCrowd:
    def __init__(self) -> None:
        self._position = -1
        self._promised: Promised = {}
        #: By promised row: 0 where it takes the pod as well, else an index into `_statuses`.
        self._why: dict[int, int] = {}
        self._statuses: list[Status | None] = [None]
        self._codes: dict[Status | None, int] = {None: 0}

    def follow(
        self, promises: Promised, journal: Journal, ask: Callable[[NDArray[np.intp]], Verdicts]
    ) -> tuple[NDArray[np.intp], Verdicts]:
        """The promised rows, ascending, with what stands about them. `ask` judges some of them anew."""
        rows = self._to_ask(promises, journal)
        if rows:
            said = ask(np.array(rows, dtype=np.intp))
            codes = [self._code(status) for status in said.statuses]
            self._why.update(zip(rows, (codes[why] for why in said.why.tolist()), strict=True))
        for row in self._why.keys() - promises.keys():
            del self._why[row]
        self._promised = dict(promises)
        self._position = journal.position
        rows = sorted(self._why)
        why = np.array([self._why[row] for row in rows], dtype=np.int32)
        return np.array(rows, dtype=np.intp), Verdicts(why, self._statuses)

    @property
    def is_overgrown(self) -> bool:
        """Plugins word their rejections ever anew, and what nobody says any more is still in here."""
        return len(self._statuses) > STATUSES_MIN + STATUSES_PER_ROW * len(self._promised)

    def _to_ask(self, promises: Promised, journal: Journal) -> list[int]:
        changed = journal.rows_since(self._position, aspects.ALL) if self._position >= 0 else None
        if changed is None:
            return sorted(promises)
        known = self._promised
        return sorted(row for row, pods in promises.items() if row in changed or known.get(row) is not pods)

    def _code(self, status: Status | None) -> int:
        code = self._codes.get(status)
        if code is None:
            code = self._codes[status] = len(self._statuses)
            self._statuses.append(status)
        return code
