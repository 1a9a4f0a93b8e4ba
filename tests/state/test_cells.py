"""Memory that arrays and loops share: what one writes, the other reads, as long as either lives."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from kubesched.state.cells import Bytes, Cells, Codes, Doubles, Line, bytes_of, cells_of, codes_of, line_of

KINDS: dict[str, Any] = {
    "cells": (Cells, np.int64, [-(2**63), 2**63 - 1]),
    "codes": (Codes, np.int32, [-(2**31), 2**31 - 1]),
    "bytes": (Bytes, np.uint8, [0, 255]),
    "doubles": (Doubles, np.float64, [0.1, -1e300]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 5, 100_000])
def test_they_are_zeros_of_their_type(kind: str, count: int) -> None:
    made, dtype, _ = KINDS[kind]
    memory = made(count)
    assert memory.array.dtype == dtype
    assert memory.array.tolist() == [0] * count
    assert len(memory.cells) == count


@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_write(kind: str) -> None:
    made, _, numbers = KINDS[kind]
    memory = made(3)
    memory.array[1] = numbers[0]
    assert memory.cells[1] == numbers[0]
    memory.cells[2] = numbers[1]
    assert memory.array.tolist() == [0, *numbers]
    memory.array[:] = 7
    assert list(memory.cells) == [7, 7, 7]


@pytest.mark.parametrize("kind", KINDS)
def test_the_array_keeps_the_memory(kind: str) -> None:
    made, _, numbers = KINDS[kind]
    views = []
    for _ in range(50):
        memory = made(1000)
        memory.array[:] = numbers[1]
        views.append(memory.array[10:20])
    del memory
    gc.collect()
    others = [made(1000) for _ in range(50)]
    assert all(view.tolist() == [numbers[1]] * 10 for view in views)
    assert not any(other.array.any() for other in others)


def test_bytes_are_flags_as_well() -> None:
    flags = bytes_of(np.array([True, False, True]))
    flags.cells[1] = 1
    assert flags.flags.dtype == np.bool_
    assert flags.flags.tolist() == [True, True, True]
    flags.flags[0] = False
    assert list(flags.cells) == [0, 1, 1]


def test_copies_are_their_own() -> None:
    array = np.arange(4, dtype=np.int64)
    codes = np.arange(4, dtype=np.int32)
    copies = cells_of(array), codes_of(codes)
    array[:] = codes[:] = 9
    assert [copy.array.tolist() for copy in copies] == [[0, 1, 2, 3], [0, 1, 2, 3]]


def test_a_slice_for_a_loop_stays_what_it_was_of() -> None:
    line = line_of([3, 1, 2])
    assert (list(line), len(line), line[1]) == ([3, 1, 2], 3, 1)
    assert list(line[1:]) == [1, 2]
    assert list(Line([5, 6]).cells) == [5, 6]
