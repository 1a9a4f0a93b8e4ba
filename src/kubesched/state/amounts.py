"""`Amounts`: how much there is of each resource, for each row of a node table: a matrix with a line a resource.

Kernels look at a few resources together, mostly the same few. Lines that lie side by side are handed out as a view, so
that one operation serves all of them; resources that nobody has share a line of zeros. Loops over single rows read
`memory`: the number of a row is at the start of its resource's line, and the row on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.build import i64
from kubesched.state.cells import Cells, Line

if TYPE_CHECKING:
    from kubesched.build import vec

Ints: TypeAlias = NDArray[np.int64]
#: Rows of a table: all of them as a slice (views, no copies), or some as an array.
RowIndex: TypeAlias = slice | NDArray[np.intp]

#: The line of resources that nobody has.
_NOTHING = 0
_LINES_MIN = 8


class Amounts:
    """int64, (lines, capacity). Lines are only ever added; the array is another one after that or after growth."""

    __slots__ = ("_blocks", "_matrix", "_starts", "_width", "lines", "memory")

    def __init__(self, capacity: int, names: tuple[str, ...] = ()) -> None:
        """`names`: lines that there are from the start, side by side."""
        #: Where each resource is in the matrix.
        self.lines: dict[str, int] = {name: _NOTHING + 1 + place for place, name in enumerate(names)}
        #: By resources asked for together, where they are: as a slice if they are neighbours.
        self._blocks: dict[tuple[str, ...], slice | NDArray[np.intp]] = {}
        self._starts: dict[tuple[str, ...], Line] = {}
        self._take(np.zeros((max(_LINES_MIN, len(names) + 1), capacity), dtype=np.int64))

    def of(self, name: str) -> Ints:
        """One resource, for each row that there may be; to be read only."""
        column: Ints = self._matrix[self.lines.get(name, _NOTHING)]
        return column

    def block(self, names: tuple[str, ...], index: RowIndex) -> Ints:
        """(resources, rows) of several resources; to be read only."""
        lines = self._blocks.get(names)
        if lines is None:
            lines = self._blocks[names] = self._neighbours(names)
        block = self._matrix[lines]
        return block[:, index] if isinstance(index, slice) else block.take(index, axis=1)

    def put(self, name: str, row: int, amount: int) -> None:
        line = self.line(name)  # which may make the matrix another one
        self.memory.cells[line * self._width + row] = amount

    def start(self, name: str) -> int:
        """Where the line of a resource begins in `memory`, until the next change of the lines or of the capacity."""
        return self.lines.get(name, _NOTHING) * int(self._width)

    def starts(self, names: tuple[str, ...]) -> vec[i64]:
        """`start` of each."""
        starts = self._starts.get(names)
        if starts is None:
            starts = self._starts[names] = Line([self.start(name) for name in names])
        return starts.cells

    def line(self, name: str) -> int:
        """Where the resource is in the matrix; made at first use."""
        line = self.lines.get(name)
        if line is None:
            line = len(self.lines) + 1
            if line == len(self._matrix):
                self._take(np.vstack([self._matrix, np.zeros_like(self._matrix)]))
            self.lines[name] = line
            self._blocks.clear()
            self._starts.clear()
        return line

    @property
    def matrix(self) -> Ints:
        """The lines in use, with that of zeros first; writing to it writes here."""
        return self._matrix[: len(self.lines) + 1]

    def grow(self, capacity: int) -> None:
        missing = capacity - self._matrix.shape[1]
        self._take(np.pad(self._matrix, ((0, 0), (0, missing))))

    def picked(self, rows: NDArray[np.intp]) -> Amounts:
        """A copy of these rows, in this order."""
        twin = Amounts(0)
        twin.lines = dict(self.lines)
        twin._take(self._matrix[: max(_LINES_MIN, len(self.lines) + 1)].take(rows, axis=1))
        return twin

    def _take(self, matrix: Ints) -> None:
        #: All lines, one after the other.
        self.memory = Cells(matrix.size)
        self._matrix: Ints = self.memory.array.reshape(matrix.shape)
        self._matrix[:] = matrix
        self._width: i64 = matrix.shape[1]
        self._starts.clear()

    def _neighbours(self, names: tuple[str, ...]) -> slice | NDArray[np.intp]:
        lines = [self.lines.get(name, _NOTHING) for name in names]
        if lines and lines == list(range(lines[0], lines[0] + len(lines))):
            return slice(lines[0], lines[0] + len(lines))
        return np.array(lines, dtype=np.intp)
