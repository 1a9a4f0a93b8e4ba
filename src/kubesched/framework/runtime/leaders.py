"""`Leaders`: the rows with the highest totals, so that the best are found without looking at all rows.

    _above  the few rows whose total is higher than `_level`, with it
    _even   the rows with just this total, of which there may be many: an empty cluster of equal nodes

A row whose total changes moves between the two, or to neither. When none is left, leaders are gathered anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubesched.state.node_table import Ints

#: So many rows are put above the level, if the highest total alone does not give as many.
_ABOVE: Final = 64


class Leaders:
    __slots__ = ("_above", "_even", "_even_count", "_level", "_place_of", "_places")

    def __init__(self, total: Ints, capacity: int) -> None:
        """`total` of each row that there is; at least one row fits."""
        self._level = 0
        self._above: dict[int, int] = {}
        #: In no order, and where each row is among them (-1: nowhere).
        self._even: NDArray[np.intp] = np.empty(capacity, dtype=np.intp)
        self._places: NDArray[np.int32] = np.full(capacity, -1, dtype=np.int32)
        self._even_count = 0
        #: The same numbers, faster to read and write one by one.
        self._place_of: memoryview[int] = self._places.data
        self._gather(total)

    def note(self, row: int, total: int) -> None:
        """The row has this total now."""
        if total > self._level:
            self._above[row] = total
        else:
            self._above.pop(row, None)
        place: int = self._place_of[row]
        if total == self._level:
            if place < 0:
                self._even[self._even_count] = row
                self._place_of[row] = self._even_count
                self._even_count += 1
        elif place >= 0:
            self._even_count -= 1
            last = int(self._even[self._even_count])
            self._even[place] = last
            self._place_of[last] = place
            self._place_of[row] = -1

    def best(self, total: Ints) -> Sequence[int] | NDArray[np.intp]:
        """The rows that share the highest total, in no order; good until the next change."""
        if len(self._above) > 4 * _ABOVE or not (self._above or self._even_count):
            self._gather(total)
        if self._above:
            highest = max(self._above.values())
            return [row for row, each in self._above.items() if each == highest]
        return self._even[: self._even_count]

    @property
    def size_bytes(self) -> int:
        return self._even.nbytes + self._places.nbytes

    def _gather(self, total: Ints) -> None:
        self._places[self._even[: self._even_count]] = -1
        self._level = int(total.max())
        even = np.flatnonzero(total == self._level)
        self._above = {}
        if len(even) < _ABOVE < len(total):
            self._level = max(int(np.partition(total, -_ABOVE)[-_ABOVE]), 0)
            even = np.flatnonzero(total == self._level)
            above = np.flatnonzero(total > self._level)
            self._above = dict(zip(above.tolist(), total[above].tolist(), strict=True))
        self._even_count = len(even)
        self._even[: self._even_count] = even
        self._places[even] = np.arange(self._even_count, dtype=np.int32)
