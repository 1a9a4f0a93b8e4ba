"""Scaling raw scores into 0..100, as DefaultNormalizeScore does (kube-scheduler v1.36, plugins/helper).

The highest raw score among the nodes that fit becomes 100, the others their share of it, cut to whole numbers.
Reversed, raw scores are costs: each share is taken from 100, so that the highest becomes 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.plugin import MAX_NODE_SCORE
from kubesched.state.node_table import Ints

Points: TypeAlias = NDArray[np.uint8]


def highest(raw: Ints) -> int:
    return max(0, int(raw.max())) if len(raw) else 0


def scaled(raw: Ints, top: int) -> Points:
    """Raw scores are not negative. Where all are 0 they stay 0."""
    divisor = top or 1  # of zeros
    return points_of(raw, 0, top, lambda scores: scores * MAX_NODE_SCORE // divisor)


def scaled_reversed(raw: Ints, top: int) -> Points:
    """Where all raw scores are 0, every node gets 100."""
    divisor = top or 1
    return points_of(raw, 0, top, lambda scores: MAX_NODE_SCORE - scores * MAX_NODE_SCORE // divisor)


def points_of(raw: Ints, low: int, high: int, formula: Callable[[Ints], NDArray[Any]]) -> Points:
    """What the formula makes of each raw score, int64[n], which for those from `low` to `high` lies in 0..100: a new
    uint8[n]. Others, which only nodes have that do not fit, count as the nearest of these.

    Where there are more nodes than whole numbers from `low` to `high`, each of these is worked out once and looked up.
    """
    if high - low >= len(raw):
        return formula(raw.clip(low, high)).astype(np.uint8)
    points: Points = formula(np.arange(low, high + 1)).astype(np.uint8)
    return points.take(raw - low if low else raw, mode="clip")
