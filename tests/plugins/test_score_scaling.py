"""Raw scores brought into 0..100: looked up where nodes are many, worked out where they are few, to the same result."""

from __future__ import annotations

import numpy as np
import pytest

from kubesched.plugins import score_scaling
from kubesched.plugins.score_scaling import points_of

FEW, MANY = 1, 500


@pytest.mark.parametrize("copies", [FEW, MANY], ids=["few nodes", "many nodes"])
@pytest.mark.parametrize(
    ("raw", "top", "points", "reversed_points"),
    [
        pytest.param([0, 1, 2, 3], 3, [0, 33, 66, 100], [100, 67, 34, 0], id="shares are cut"),
        pytest.param([0, 0], 0, [0, 0], [100, 100], id="all are 0"),
        pytest.param([7], 7, [100], [0], id="one"),
        pytest.param([10**12, 999], 10**12, [100, 0], [0, 100], id="far apart"),
        pytest.param([5, 9, 2], 5, [100, 100, 40], [0, 0, 60], id="above what fits"),
    ],
)
def test_scores_are_shares_of_the_highest(
    raw: list[int], top: int, points: list[int], reversed_points: list[int], copies: int
) -> None:
    column = np.array(raw * copies)
    assert score_scaling.scaled(column, top).tolist() == points * copies
    assert score_scaling.scaled_reversed(column, top).tolist() == reversed_points * copies


@pytest.mark.parametrize("copies", [FEW, MANY], ids=["few nodes", "many nodes"])
def test_what_is_out_of_bounds_counts_as_the_nearest(copies: int) -> None:
    column = np.array([-30, -20, 0, 20, 2**62, -(2**62)] * copies)
    points = points_of(column, -20, 20, lambda each: (each + 20) * 2.5)
    assert points.dtype == np.uint8
    assert points.tolist() == [0, 0, 50, 100, 100, 0] * copies
    assert column.tolist() == [-30, -20, 0, 20, 2**62, -(2**62)] * copies


@pytest.mark.parametrize("raw", [[], [-5], [-7, 0]], ids=str)
def test_the_highest_is_never_below_0(raw: list[int]) -> None:
    column = np.array(raw, dtype=np.int64)
    assert score_scaling.highest(column) == 0
    assert score_scaling.scaled(column, 0).tolist() == [0] * len(raw)
