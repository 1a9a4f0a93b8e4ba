"""Kept lines: what a plugin makes of each node whoever the pod is (`KeptLine`), or for all pods that ask for so much of
one resource (`AmountLines`).

Pods differ more in what they ask for together than in what they ask for of each: 97 amounts of cpu and 89 of memory are
8,633 pairs, but only 186 lines, and a kernel for a new pair is a few operations on two of them. A line is kept and
brought up to date when it is next needed; the ones used last stay.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from kubesched.build import i64
from kubesched.state.node_table import NodeTable

if TYPE_CHECKING:
    from kubesched.build import vec

#: Above this share of changed rows all are taken in anew: for one line that is a few operations on columns.
_TAKEN_SHARE_MAX: Final = 0.125
#: However many nodes there are, the lines of one plugin take no more than this.
_BYTES_MAX: Final = 32 << 20


class KeptLine:
    """Subclasses hold an array of the table's capacity. What it says of rows that are nobody's means nothing."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._capacity = table.capacity
        #: Of the journal; -1 before anything was taken in.
        self._position = -1

    def is_of(self, table: NodeTable) -> bool:
        """False once there must be another in its place."""
        return self.table is table and self._capacity == table.capacity

    def follow(self) -> None:
        """Bring it up to date: good until the table changes again."""
        table = self.table
        journal = table.journal
        if self._position != journal.position:
            count = journal.position - self._position
            if journal.knows(self._position) and count <= table.row_count * _TAKEN_SHARE_MAX:
                self.take_rows(journal.line_since(self._position))
            else:
                self.take_all()
            self._position = journal.position

    def take_all(self) -> None:
        raise NotImplementedError

    def take_rows(self, rows: vec[i64]) -> None:
        """As `take_all` would have it; some rows may be gone by now."""
        raise NotImplementedError


class AmountLine(KeptLine):
    def __init__(self, table: NodeTable, resource: str, amount: int) -> None:
        super().__init__(table)
        self.resource = resource
        self.amount: i64 = amount

    @property
    def size_bytes(self) -> int:
        raise NotImplementedError


AnyLine = TypeVar("AnyLine", bound=AmountLine)


class AmountLines:
    """The lines of one plugin, in `bytes_per_node`."""

    def __init__(self, bytes_per_node: int) -> None:
        self._bytes_per_node = bytes_per_node
        self._size_bytes = 0
        self._lines: OrderedDict[tuple[str, int], AmountLine] = OrderedDict()

    def line(
        self, table: NodeTable, resource: str, amount: int, make: Callable[[NodeTable, str, int], AnyLine]
    ) -> AnyLine:
        """Up to date."""
        key = resource, amount
        line = self._lines.get(key)
        if line is None or not line.is_of(table):
            if line is not None:
                self._forget(key)
            line = self._lines[key] = make(table, resource, amount)
            self._size_bytes += line.size_bytes
            bytes_max = min(self._bytes_per_node * table.capacity, _BYTES_MAX)
            while self._size_bytes > bytes_max and len(self._lines) > 1:
                self._forget(next(iter(self._lines)))
        else:
            self._lines.move_to_end(key)
        line.follow()
        return line  # type: ignore[return-value]

    def _forget(self, key: tuple[str, int]) -> None:
        self._size_bytes -= self._lines.pop(key).size_bytes
