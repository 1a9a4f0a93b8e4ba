"""Verdicts in a plugin's numbering become those of an evaluation, whether by adding or by looking up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kubesched.framework.runtime.changes import FEW_ROWS
from kubesched.framework.runtime.kept_verdicts import _translated

IDS = {
    "the same": [0, 1, 2],
    "in a row": [0, 300, 301, 302],
    "one": [0, 77],
    "none": [0],
    "apart": [0, 5, 9],
    "in a row but the last": [0, 5, 6, 2],
    "backwards": [0, 3, 2, 1],
}


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("count", [FEW_ROWS, 10 * FEW_ROWS], ids=["few", "many"])
@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_places_are_translated(ids: list[int], count: int, dtype: type) -> None:
    places: NDArray[np.integer[Any]] = np.arange(count, dtype=dtype) % len(ids)
    translated = _translated(places, ids)
    assert translated.dtype == np.int32
    assert translated.tolist() == [ids[place] for place in places]
