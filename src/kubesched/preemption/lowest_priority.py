"""`LowestPriorities`: the lowest priority among the pods of each node, so that hopeless nodes cost nothing.

Brought up to date at need, from the rows that the journal names. A cluster in which nobody has a lower priority than
the pod that waits is told by one comparison of arrays.
"""

from __future__ import annotations

import numpy as np

from kubesched.state import aspects
from kubesched.state.node_table import Bools, Ints, NodeTable

_NOBODY = 1 << 40
_CHANGES = aspects.PODS | aspects.MEMBERSHIP


class LowestPriorities:
    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._position = -1
        self._lowest: Ints = np.empty(0, dtype=np.int64)

    def below(self, priority: int) -> Bools:
        """Per row of the table, whether some pod of the node has a lower priority."""
        self._refresh()
        return self._lowest[: self._table.row_count] < priority

    def _refresh(self) -> None:
        table = self._table
        position = table.journal.position
        if position == self._position:
            return
        rows = table.journal.rows_since(self._position, _CHANGES) if self._position >= 0 else None
        if rows is None or len(self._lowest) != table.capacity:
            self._lowest = np.full(table.capacity, _NOBODY, dtype=np.int64)
            rows = set(range(table.row_count))
        for row in rows:
            if row >= table.row_count:
                continue
            pods = table.infos[row].pods.values()
            self._lowest[row] = min((info.pod.spec.priority or 0 for info in pods), default=_NOBODY)
        self._position = position
