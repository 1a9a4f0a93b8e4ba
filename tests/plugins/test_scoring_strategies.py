"""The arithmetic of the scoring strategies, where it takes a short cut."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kubesched.plugins.scoring_strategies import _FLOATS_PAY, _QUOTIENT_SAFE, _percent


@given(st.lists(st.tuples(st.integers(1, _QUOTIENT_SAFE), st.integers(0, 100), st.integers(-1, 1)), min_size=1))
def test_percentages_of_many_nodes_are_those_of_whole_numbers(cases: list[tuple[int, int, int]]) -> None:
    """Shares lie on, and one beside, the edge between two percentages, where rounding would show."""
    shares = [min(max(-(-capacity * percent // 100) + beside, 0), capacity) for capacity, percent, beside in cases]
    repeat = _FLOATS_PAY // len(cases) + 1
    capacity = np.array([capacity for capacity, _, _ in cases] * repeat, dtype=np.int64)
    share = np.array(shares * repeat, dtype=np.int64)
    exact = [share * 100 // capacity for share, (capacity, _, _) in zip(shares, cases, strict=True)]
    assert _percent(share, capacity, int(capacity.max())).tolist() == exact * repeat
