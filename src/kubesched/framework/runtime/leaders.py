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

from kubesched.build import i32, i64
from kubesched.state.cells import Cells, Codes
from kubesched.state.node_table import Ints

#: So many rows are put above the level, if the highest total alone does not give as many.
_ABOVE: Final = 64

_NOWHERE: Final = -1
_ABOVE_ALL: Final = -2


class Leaders:
    __slots__ = ("_above", "_even", "_even_count", "_level", "_places")

    def __init__(self, total: Ints, capacity: int) -> None:
        """`total` of each row that there is; at least one row fits."""
        self._level: i64 = 0
        self._above: dict[int, int] = {}
        #: In no order.
        self._even = Cells(capacity)
        self._even_count: i64 = 0
        #: Where each row is among them; `_NOWHERE`, or `_ABOVE_ALL` for a row above the level.
        self._places = Codes(capacity)
        self._places.array[:] = _NOWHERE
        self._gather(total)

    def note(self, row: i64, total: i64) -> None:
        """The row has this total now."""
        places = self._places.cells
        place = i64(places[row])
        if total > self._level:
            self._above[row] = total
        elif place == _ABOVE_ALL:
            del self._above[row]
        if place >= 0 and total != self._level:
            even = self._even.cells
            self._even_count -= 1
            last = even[self._even_count]
            even[place] = last
            places[last] = i32(place)
        if total > self._level:
            places[row] = _ABOVE_ALL
        elif total < self._level:
            places[row] = _NOWHERE
        elif place < 0:
            self._even.cells[self._even_count] = row
            places[row] = i32(self._even_count)
            self._even_count += 1

    def best(self, total: Ints) -> Sequence[int] | NDArray[np.intp]:
        """The rows that share the highest total, in no order; good until the next change."""
        if len(self._above) > 4 * _ABOVE or not (self._above or self._even_count):
            self._gather(total)
        if self._above:
            highest = max(self._above.values())
            return [row for row, each in self._above.items() if each == highest]
        return self._even.array[: self._even_count]

    @property
    def size_bytes(self) -> int:
        return self._even.array.nbytes + self._places.array.nbytes

    def _gather(self, total: Ints) -> None:
        places = self._places.array
        places[self._even.array[: self._even_count]] = _NOWHERE
        places[list(self._above)] = _NOWHERE
        level = int(total.max())
        even = np.flatnonzero(total == level)
        self._above = {}
        if len(even) < _ABOVE < len(total):
            level = max(int(np.partition(total, -_ABOVE)[-_ABOVE]), 0)
            even = np.flatnonzero(total == level)
            above = np.flatnonzero(total > level)
            self._above = dict(zip(above.tolist(), total[above].tolist(), strict=True))
            places[above] = _ABOVE_ALL
        self._level, self._even_count = level, len(even)
        self._even.array[: len(even)] = even
        places[even] = np.arange(len(even), dtype=np.int32)
