"""Lines of numbers that NumPy sees as arrays, and loops over single rows as plain memory.

    Cells  int64        Codes  int32        Bytes  0..255, or bools as 0 and 1        Doubles

`array` and `cells` are the same numbers. A kernel over all rows uses the array; a loop over the rows that changed reads
and writes `cells`, which compiled takes a nanosecond or two a number, where an operation of NumPy on however few rows
takes one or two thousand. Compiled, `cells` is mypyc's `vec`, whose memory the array borrows. Pure, it is a memoryview
of the array: the same in every respect that such loops use, which are indices, slices, `len` and iteration.
There is a class for each type of number, since mypyc compiles a `vec` of one type and no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from kubesched import build
from kubesched.build import i32, i64, u8

if TYPE_CHECKING:
    from kubesched.build import vec

_COMPILED: Final = build.kind() == "compiled"


class Cells:
    __slots__ = ("array", "cells")

    def __init__(self, count: int) -> None:
        """So many zeros."""
        if _COMPILED:
            self.cells: vec[i64] = vec[i64]([0] * count)
            self.array: NDArray[np.int64] = _lent(self.cells, memoryview(self.cells), count, "<i8")
        else:
            self.array = np.zeros(count, dtype=np.int64)
            self.cells = _memory(self.array)

    def line(self, start: i64, end: i64) -> vec[i64]:
        """The numbers from `start` to `end` as they are now, for loops that only read."""
        if _COMPILED:
            return self.cells[start:end]
        line: Any = memoryview(bytes(self.cells[start:end])).cast("q")
        return line  # type: ignore[no-any-return]


class Codes:
    __slots__ = ("array", "cells")

    def __init__(self, count: int) -> None:
        if _COMPILED:
            self.cells: vec[i32] = vec[i32]([0] * count)
            self.array: NDArray[np.int32] = _lent(self.cells, memoryview(self.cells), count, "<i4")
        else:
            self.array = np.zeros(count, dtype=np.int32)
            self.cells = _memory(self.array)


class Bytes:
    __slots__ = ("array", "cells")

    def __init__(self, count: int) -> None:
        if _COMPILED:
            self.cells: vec[u8] = vec[u8]([0] * count)
            self.array: NDArray[np.uint8] = _lent(self.cells, memoryview(self.cells), count, "|u1")
        else:
            self.array = np.zeros(count, dtype=np.uint8)
            self.cells = _memory(self.array)

    @property
    def flags(self) -> NDArray[np.bool_]:
        return self.array.view(np.bool_)


class Doubles:
    __slots__ = ("array", "cells")

    def __init__(self, count: int) -> None:
        if _COMPILED:
            self.cells: vec[float] = vec[float]([0.0] * count)
            self.array: NDArray[np.float64] = _lent(self.cells, memoryview(self.cells), count, "<f8")
        else:
            self.array = np.zeros(count)
            self.cells = _memory(self.array)


def cells_of(array: NDArray[np.int64]) -> Cells:
    """A copy."""
    cells = Cells(len(array))
    cells.array[:] = array
    return cells


def codes_of(array: NDArray[np.int32]) -> Codes:
    """A copy."""
    codes = Codes(len(array))
    codes.array[:] = array
    return codes


def bytes_of(array: NDArray[np.bool_]) -> Bytes:
    """A copy."""
    copy = Bytes(len(array))
    copy.array[:] = array
    return copy


class Room:
    """Memory for numbers on their way, made longer when it is too short; its owner does one thing at a time with it."""

    __slots__ = ("_cells",)

    def __init__(self) -> None:
        self._cells = Cells(64)

    def of(self, count: int) -> Cells:
        """At least so many, with anything in them."""
        if count > len(self._cells.array):
            self._cells = Cells(2 * count)
        return self._cells


class Line:
    """Some numbers for loops, to be kept."""

    __slots__ = ("cells",)

    def __init__(self, numbers: list[int]) -> None:
        self.cells: vec[i64] = line_of(numbers)


def line_of(numbers: list[int]) -> vec[i64]:
    """These numbers, for loops."""
    if _COMPILED:
        return vec[i64](numbers)
    line: Any = numbers
    return line  # type: ignore[no-any-return]


class _Loan:
    """Memory by NumPy's array interface; the array keeps its owner alive."""

    def __init__(self, owner: Any, array_interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = array_interface


def _lent(owner: Any, memory: Any, count: int, item: str) -> Any:
    # The memory of a vec says that it is read-only, though its numbers may change.
    if not count:
        return np.empty(0, dtype=item)
    address, _ = np.frombuffer(memory, dtype=np.uint8).__array_interface__["data"]
    return np.asarray(_Loan(owner, {"version": 3, "shape": (count,), "typestr": item, "data": (address, False)}))


def _memory(array: NDArray[Any]) -> Any:
    return array.data
