"""`KeptColumns`: what a kernel makes of the node table whoever the pod is, kept between its calls.

For kernels that are asked about all nodes for one new pod after the other, while a node or two changed in between:
these rows are taken in again, one by one by their NodeInfo, and all of them where many changed.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.state import aspects
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NodeSet, NodeTable

Floats: TypeAlias = NDArray[np.float64]

#: Up to so many changes are taken in one by one.
_FEW: Final = 12
_READS: Final = aspects.ALLOCATABLE | aspects.REQUESTED | aspects.MEMBERSHIP


class KeptColumns:
    """Subclasses hold the columns, of the table's capacity."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._position = -1
        self._capacity = -1

    def follow(self) -> None:
        """Bring the columns up to date with the table."""
        table = self.table
        if table.journal.position == self._position:
            return
        anew = self._position < 0 or table.capacity != self._capacity
        noted = None if anew else table.journal.since(self._position)
        if noted is None or len(noted[0]) > _FEW:
            if anew:
                self._capacity = table.capacity
                self.make(table.capacity)
            self.take_all(table.all_nodes())
        else:
            rows, changed = noted
            for row, aspect in zip(rows.tolist(), changed.tolist(), strict=True):
                if aspect & _READS and row < table.row_count:
                    self.take(row, table.infos[row])
        self._position = table.journal.position

    def make(self, capacity: int) -> None:
        """New columns, with nothing in them."""
        raise NotImplementedError

    def take_all(self, nodes: NodeSet) -> None:
        raise NotImplementedError

    def take(self, row: int, node: NodeInfo) -> None:
        """As `take_all` would have it."""
        raise NotImplementedError
